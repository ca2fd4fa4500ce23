#!/usr/bin/env python3
"""Makes the fixtures of test/oracle/fixtures with HuggingFace's Qwen3-MoE. See README.md for what they hold.

    python3 -m venv venv && venv/bin/pip install -r requirements.txt && venv/bin/python make_fixtures.py [name ...]
"""

import argparse
import copy
import json
import shutil
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM
from transformers.models.qwen3_moe import modeling_qwen3_moe as modeling

from configurations import CONFIGURATIONS
from widen import float64_model_class

FIXTURES = Path(__file__).parent / "fixtures"
SIZE_LIMIT = 300_000
# A choice between experts whose probabilities are closer than this could fall either way.
LEAST_GAP = {"float32": 1e-4, "float64": 1e-8}
OPTIMIZER = {"lr": 0.01, "betas": [0.9, 0.95], "weight_decay": 0.1, "max_grad_norm": 1.0}
OPTIMIZER_STEPS = 3
NORM_TYPES = ("1", "2", "3", "inf")


def set_weights(model, seed):
    """Weights of a size at which every part of the model matters (HuggingFace's own would give almost equal logits)."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
            if name.endswith("bias"):
                parameter.copy_(0.3 * noise)
            elif parameter.dim() == 1:
                parameter.copy_(1 + 0.3 * noise)
            elif name == "model.embed_tokens.weight":
                parameter.copy_(noise)
            else:
                parameter.copy_(noise * parameter.shape[-1] ** -0.5 * (1.5 if "mlp.gate.weight" in name else 1.0))


def make_batch(configuration):
    generator = torch.Generator().manual_seed(1000 + configuration.seed)
    rows, columns = configuration.sequences, configuration.tokens
    ids = torch.randint(configuration.config["vocab_size"], (rows, columns), generator=generator)
    documents = configuration.documents or [[columns]] * rows
    assert all(sum(lengths) == columns for lengths in documents)
    places = torch.tensor([[i for length in lengths for i in range(length)] for lengths in documents])
    # HuggingFace's labels: the token itself, shifted by the loss. A document's first token is nobody's target.
    hf_labels = torch.where(places == 0, -100, ids)
    for row, column in configuration.ignored:
        hf_labels[row, column] = -100
    labels = F.pad(hf_labels, (0, 1), value=-100)[:, 1:]
    starts = [0]
    for lengths in documents:
        for length in lengths:
            starts.append(starts[-1] + length)
    return {
        "ids": ids,
        "positions": places + configuration.first_position,
        "hf_labels": hf_labels,
        "labels": labels,
        "attention_starts": starts,
        "sequence_starts": list(range(0, rows * columns + 1, columns)),
    }


def balance_loss(module, logits, config, kind, sequences):
    """pooled: HuggingFace's over all layers and tokens. The others: its mean over layers, or over sequences."""

    def value(gates):
        return module.load_balancing_loss_func(gates, config.num_experts, config.num_experts_per_tok)

    if kind == "pooled":
        return value(logits)
    if kind == "per_layer":
        return sum(value((gate,)) for gate in logits) / len(logits)
    parts = [torch.chunk(gate, sequences) for gate in logits]
    return sum(value(gates) for gates in zip(*parts)) / sequences


def z_loss(logits):
    """Of all tokens and layers: there is none in HuggingFace's model, so this is the definition's text and autograd."""
    return torch.cat([torch.logsumexp(gate, -1).square() for gate in logits]).mean()


def forward(model, module, configuration, batch):
    choices, gaps = [], []

    def record(gate, _, output):
        choices.append(output[2])
        if gate.top_k < gate.num_experts:
            best = torch.softmax(output[0], -1).topk(gate.top_k + 1).values
            gaps.append((best[:, -2] - best[:, -1]).min().item())

    hooks = [m.register_forward_hook(record) for m in model.modules() if type(m).__name__ == "Qwen3MoeTopKRouter"]
    output = model(
        input_ids=batch["ids"],
        position_ids=batch["positions"],
        labels=batch["hf_labels"],
        output_router_logits=True,
        use_cache=False,
    )
    for hook in hooks:
        hook.remove()
    coefficient = model.config.router_aux_loss_coef
    cross_entropy = model.loss_function(output.logits, batch["hf_labels"], model.vocab_size)
    aux = balance_loss(module, output.router_logits, model.config, configuration.balance, configuration.sequences)
    loss = cross_entropy + coefficient * aux
    if configuration.balance == "pooled":  # then this is what HuggingFace returns itself
        torch.testing.assert_close(output.loss, loss, rtol=1e-6, atol=0)
    z = z_loss(output.router_logits)
    if configuration.z_loss_coef:
        loss = loss + configuration.z_loss_coef * z
    parts = {"loss": loss, "cross_entropy": cross_entropy, "aux_loss": aux, "z_loss": z}
    return output.logits, parts, choices, min(gaps, default=1.0)


def check_gap(configuration, model, gap):
    if gap <= LEAST_GAP[str(model.dtype).removeprefix("torch.")]:
        raise SystemExit(f"{configuration.name}: router near-tie of {gap}; give it another seed")


def our_tensors(named):
    """HuggingFace's fused stacks as gate_proj and up_proj."""
    result = {}
    for name, tensor in named:
        if name.endswith("gate_up_proj"):
            gate, up = tensor.chunk(2, dim=1)
            result[name.replace("gate_up_proj", "gate_proj")] = gate.contiguous()
            result[name.replace("gate_up_proj", "up_proj")] = up.contiguous()
        else:
            result[name] = tensor.contiguous()
    return result


def run_optimizer(model, module, configuration, batch):
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": decayed, "weight_decay": OPTIMIZER["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=OPTIMIZER["lr"], betas=tuple(OPTIMIZER["betas"]), eps=configuration.optimizer_eps)
    losses, norms = [], []
    for _ in range(OPTIMIZER_STEPS):
        adamw.zero_grad()
        _, parts, _, gap = forward(model, module, configuration, batch)
        check_gap(configuration, model, gap)
        parts["loss"].backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), OPTIMIZER["max_grad_norm"]).item())
        losses.append(parts["loss"].item())
        adamw.step()
    weights = our_tensors((name, p.detach()) for name, p in model.named_parameters())
    return {"losses": losses, "gradient_norms": norms, "eps": configuration.optimizer_eps, **OPTIMIZER}, weights


def run(model, module, configuration, batch, with_optimizer):
    """(numbers for expected.json, tensors, tensors after the optimizer's steps or None)"""
    model.zero_grad()
    logits, parts, choices, gap = forward(model, module, configuration, batch)
    check_gap(configuration, model, gap)
    parts["loss"].backward()
    tensors = {"logits": logits.detach().flatten(0, 1).contiguous()}
    moe_layers = [i for i, layer in enumerate(model.model.layers) if hasattr(layer.mlp, "experts")]
    for layer, choice in zip(moe_layers, choices, strict=True):
        tensors[f"top_k.{layer}"] = choice.contiguous()
    gradients = our_tensors((name, p.grad) for name, p in model.named_parameters())
    tensors |= {f"gradient.{name}": gradient for name, gradient in gradients.items()}
    numbers = {name: part.item() for name, part in parts.items()}
    norm = lambda kind: torch.nn.utils.get_total_norm([p.grad for p in model.parameters()], float(kind)).item()
    numbers["norms"] = {kind: norm(kind) for kind in NORM_TYPES}
    after = None
    if with_optimizer:
        trained = copy.deepcopy(model)
        numbers["optimizer"], after = run_optimizer(trained, module, configuration, batch)
    return numbers, tensors, after


def write_config(folder, configuration):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    if configuration.old_keys:
        config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
        config["num_experts"] = config.pop("num_local_experts", config.get("num_experts"))
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def save_weights(model, folder, configuration):
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    write_config(folder, configuration)
    if "fused" in configuration.also:
        fused = folder / "fused"
        model.save_pretrained(fused, save_original_format=False)
        (fused / "model.safetensors").rename(folder / "fused.safetensors")
        shutil.rmtree(fused)


def make(configuration):
    folder = FIXTURES / configuration.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = Qwen3MoeConfig(**configuration.config)
    eager = {"attn_implementation": "eager", "experts_implementation": "eager"}
    model = Qwen3MoeForCausalLM._from_config(config, dtype=torch.float32, **eager)
    set_weights(model, configuration.seed)
    save_weights(model, folder, configuration)
    batch = make_batch(configuration)

    wide_class, wide_modeling, _ = float64_model_class()
    wide = wide_class._from_config(config, dtype=torch.float64, **eager)
    wide.load_state_dict({name: tensor.double() for name, tensor in model.state_dict().items()})

    expected = {
        "made_by": "test/oracle/make_fixtures.py",
        "transformers": transformers.__version__,
        "torch": torch.__version__.split("+")[0],
        "balance_loss": configuration.balance,
        "z_loss_coef": configuration.z_loss_coef,
        "num_parameters": model.num_parameters(),
        "batch": {k: v.flatten().tolist() if torch.is_tensor(v) else v for k, v in batch.items() if k != "hf_labels"},
    }
    for precision, run_model, module in (("float32", model, modeling), ("float64", wide, wide_modeling)):
        with_optimizer = precision in configuration.optimizer_precisions
        numbers, tensors, after = run(run_model, module, configuration, batch, with_optimizer)
        expected[precision] = numbers
        save_file(tensors, folder / f"{precision}.safetensors")
        if after:
            save_file(after, folder / f"{precision}.trained.safetensors")
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    for path in folder.iterdir():
        path.chmod(0o644)
        assert path.stat().st_size < SIZE_LIMIT, f"{path}: {path.stat().st_size} bytes"
    print(f"{configuration.name}: loss {expected['float64']['loss']:.6f}, aux {expected['float64']['aux_loss']:.6f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these configurations")
    names = parser.parse_args().names
    unknown = set(names) - {c.name for c in CONFIGURATIONS}
    if unknown:
        parser.error(f"no configuration {', '.join(sorted(unknown))}")
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    for configuration in CONFIGURATIONS:
        if not names or configuration.name in names:
            make(configuration)


if __name__ == "__main__":
    main()
