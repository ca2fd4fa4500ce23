#!/usr/bin/env python3
"""Makes test/oracle/huggingface_layouts: one tiny Qwen3-MoE in the layouts in which transformers keeps it.

per_expert/   what save_pretrained writes: one tensor an expert, float32, two shards and an index
fused/        the names of the model's own state_dict: gate_up_proj and down_proj, bfloat16, one file

Element k (row-major) of expert projection p of expert e is  10000 * e + 1000 * p + k  in the first and that number rounded to
bfloat16 in the second, p = 0 gate, 1 up, 2 down. Every other tensor, the i-th in sorted order: element k is -(100 * i + k).

Run with transformers 5.24, torch 2.11:  python test/oracle/make_huggingface_layouts.py
"""
import pathlib
import shutil

import torch
from safetensors.torch import save_file
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

HERE = pathlib.Path(__file__).parent / "huggingface_layouts"


def fill(model, config):
    state = model.state_dict()
    inner = config.moe_intermediate_size
    size = inner * config.hidden_size
    for i, name in enumerate(sorted(state)):
        tensor = state[name]
        if name.endswith("experts.gate_up_proj"):
            for e in range(config.num_experts):
                for p in range(2):
                    values = 10000 * e + 1000 * p + torch.arange(size, dtype=torch.float32)
                    tensor[e, p * inner : (p + 1) * inner] = values.view(inner, config.hidden_size)
        elif name.endswith("experts.down_proj"):
            for e in range(config.num_experts):
                values = 10000 * e + 2000 + torch.arange(size, dtype=torch.float32)
                tensor[e] = values.view(config.hidden_size, inner)
        else:
            tensor.copy_(-(100 * i + torch.arange(tensor.numel(), dtype=torch.float32)).view(tensor.shape))


def main():
    config = Qwen3MoeConfig(
        vocab_size=11, hidden_size=6, intermediate_size=7, moe_intermediate_size=5, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=4, num_experts=3, num_experts_per_tok=2,
        mlp_only_layers=[1], attention_bias=True)
    model = Qwen3MoeForCausalLM(config)
    with torch.no_grad():
        fill(model, config)
    shutil.rmtree(HERE, ignore_errors=True)
    model.save_pretrained(HERE / "per_expert", max_shard_size="2KB")
    (HERE / "per_expert" / "generation_config.json").unlink()
    (HERE / "fused").mkdir()
    config.save_pretrained(HERE / "fused")
    state = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in model.state_dict().items()}
    save_file(state, HERE / "fused" / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main()
