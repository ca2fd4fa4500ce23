"""The models of the fixtures: each switch of the architecture alone, then all together.

A configuration is (keys of config.json that differ from BASE, how the batch looks).
"""

from dataclasses import dataclass, field

BASE = {
    "vocab_size": 37,
    "hidden_size": 20,
    "intermediate_size": 22,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "attention_bias": False,
    "tie_word_embeddings": False,
    "decoder_sparse_step": 1,
    "moe_intermediate_size": 10,
    "num_experts": 5,
    "num_experts_per_tok": 2,
    "norm_topk_prob": False,
    "router_aux_loss_coef": 0.01,
    "mlp_only_layers": [],
}


@dataclass
class Configuration:
    name: str
    changes: dict
    # Of weights and batch; chosen so that no router choice is a near-tie.
    seed: int = 1
    sequences: int = 2
    tokens: int = 13
    # Lengths of the documents of each sequence; None: one document fills it.
    documents: list | None = None
    # Position of the first token of every sequence.
    first_position: int = 0
    # Positions (sequence, token) whose label is -100.
    ignored: list = field(default_factory=list)
    # Form of the weights on disk beside the per-expert keys: "fused" writes fused.safetensors too.
    also: tuple = ()
    # How the balance loss is taken: pooled (HuggingFace's), per_layer or sequence (README.md).
    balance: str = "pooled"
    # Spell config.json as transformers 4 did: rope_theta beside the others, num_experts.
    old_keys: bool = False
    # Coefficient of the router z-loss, which HuggingFace's Qwen3-MoE does not have (README.md).
    z_loss_coef: float = 0.0
    # eps of AdamW, whose steps are compared in these precisions.
    optimizer_eps: float = 1e-8
    optimizer_precisions: tuple = ("float64",)

    @property
    def config(self):
        return BASE | self.changes


EVERYTHING = {
    "vocab_size": 31,
    "hidden_size": 15,
    "intermediate_size": 17,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "head_dim": 4,
    "rms_norm_eps": 1e-3,
    "rope_parameters": {"rope_theta": 77.0, "rope_type": "default"},
    "attention_bias": True,
    "tie_word_embeddings": True,
    "decoder_sparse_step": 2,
    "mlp_only_layers": [2],
    "moe_intermediate_size": 11,
    "num_experts": 7,
    "num_experts_per_tok": 3,
    "norm_topk_prob": True,
    "router_aux_loss_coef": 0.1,
}

CONFIGURATIONS = [
    Configuration("base", {}, also=("fused",)),
    Configuration("norm_topk_prob", {"norm_topk_prob": True}),
    Configuration("dense_between", {"num_hidden_layers": 4, "decoder_sparse_step": 2, "mlp_only_layers": [3]}),
    Configuration("tied_head", {"tie_word_embeddings": True}),
    Configuration("attention_bias", {"attention_bias": True}),
    Configuration("head_dim", {"head_dim": 14, "num_key_value_heads": 1}),
    Configuration("rotary", {"rope_parameters": {"rope_theta": 50.0, "rope_type": "default"}}, tokens=23),
    Configuration("top_1", {"num_experts_per_tok": 1}),
    Configuration("all_experts", {"num_experts": 3, "num_experts_per_tok": 3, "norm_topk_prob": True}),
    Configuration("one_expert", {"num_experts": 1, "num_experts_per_tok": 1}),
    Configuration(
        "odd_sizes",
        {
            "vocab_size": 29,
            "hidden_size": 19,
            "moe_intermediate_size": 11,
            "num_attention_heads": 3,
            "num_key_value_heads": 3,
            "head_dim": 10,
            "num_experts": 7,
            "num_experts_per_tok": 3,
        },
        sequences=3,
        tokens=5,
        old_keys=True,
    ),
    Configuration("documents", {}, documents=[[5, 8], [1, 9, 3]], ignored=[(0, 2), (0, 3), (1, 12)]),
    Configuration("z_loss", {}, z_loss_coef=0.05),
    # Positions that bfloat16 cannot tell apart.
    Configuration("long_sequence", {"vocab_size": 11, "max_position_embeddings": 512}, sequences=1, tokens=300),
    # Up to the last position of Qwen3-30B-A3B.
    Configuration("far_positions", {"max_position_embeddings": 40960}, seed=2, first_position=40960 - 13),
    Configuration("per_layer_balance", {"router_aux_loss_coef": 0.5}, balance="per_layer"),
    Configuration("sequence_balance", {"router_aux_loss_coef": 0.5}, balance="sequence"),
    Configuration(
        "everything",
        EVERYTHING,
        seed=4,
        sequences=3,
        tokens=11,
        documents=[[4, 7], [11], [2, 1, 8]],
        ignored=[(0, 0), (1, 5), (2, 10)],
        also=("fused",),
        z_loss_coef=0.01,
        optimizer_eps=1e-3,
        optimizer_precisions=("float32", "float64"),
    ),
]
