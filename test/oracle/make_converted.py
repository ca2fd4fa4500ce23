#!/usr/bin/env python3
"""Makes converted.json: what transformers loads from the folders that tessera-convert writes, and its loss on them.

    python3 -m venv venv && venv/bin/pip install -r requirements.txt && venv/bin/python make_converted.py ../../build/bin

Each model is trained by tessera-train in float64, so that other machines get the same weights but for rounding; its
checkpoint is converted in every form, loaded by AutoModelForCausalLM without a key too few or too many, and evaluated
on held-out documents, each alone. A checksum of a tensor is the sum over its elements k of element * (1 + k % 7).
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM

from widen import float64_model_class

EAGER = {"attn_implementation": "eager", "experts_implementation": "eager"}
TRAINING = [
    "--data.documents", "separate", "--data.max_seq_len", "13", "--train.global_batch_size", "4",
    "--train.max_steps", "6", "--train.num_train_epochs", "10", "--train.optimizer.lr", "0.01", "--train.threads", "1",
    "--train.precision", "float64", "--train.log.level", "warning",
]
CONFIG = {
    "model_type": "qwen3_moe", "vocab_size": 31, "hidden_size": 15, "intermediate_size": 17, "num_hidden_layers": 3,
    "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 4, "moe_intermediate_size": 11, "num_experts": 5,
    "num_experts_per_tok": 2, "norm_topk_prob": True, "mlp_only_layers": [0], "initializer_range": 0.3,
    "router_aux_loss_coef": 0.02, "max_position_embeddings": 64,
}
MODELS = {
    "untied": {"attention_bias": True, "rope_theta": 77.0, "rms_norm_eps": 1e-3},
    "tied": {"tie_word_embeddings": True, "norm_topk_prob": False},
    # moe_intermediate_size equals hidden_size: no shape tells a projection from its transpose.
    "square": {"hidden_size": 12, "moe_intermediate_size": 12, "mlp_only_layers": []},
}
FORMS = {
    "separate": ["--dtype", "float32"],
    "fused": ["--dtype", "float32", "--experts", "fused"],
    "sharded": ["--dtype", "bfloat16", "--max-shard-size", "2KB"],
}


def documents(first, count):
    return [[(d * 11 + i * i * 3 + i) % 31 for i in range(3 + d * 7 % 11)] for d in range(first, first + count)]


def write_documents(path, rows):
    path.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in rows))


def cross_entropy(model, held_out):
    total, tokens = 0.0, 0
    for ids in held_out:
        row = torch.tensor([ids])
        logits = model(input_ids=row, use_cache=False).logits[0, :-1]
        total += F.cross_entropy(logits.double(), row[0, 1:], reduction="sum").item()
        tokens += len(ids) - 1
    return total / tokens


def load(model_class, folder, dtype):
    model, info = model_class.from_pretrained(folder, dtype=dtype, output_loading_info=True, **EAGER)
    wrong = {key: value for key, value in info.items() if value}
    if wrong:
        raise SystemExit(f"{folder}: {wrong}")
    return model.eval()


def checksums(folder):
    sums = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():
                tensor = file.get_tensor(name).double().flatten()
                sums[name] = (tensor * (1 + torch.arange(tensor.numel()) % 7)).sum().item()
    return sums


def evaluate(folder, wide_class, held_out):
    dtype = AutoConfig.from_pretrained(folder).dtype
    auto = load(AutoModelForCausalLM, folder, "auto")
    if auto.dtype != dtype:
        raise SystemExit(f"{folder}: config.json says {dtype}, the model is loaded as {auto.dtype}")
    return {
        "dtype": str(dtype).removeprefix("torch."),
        "float32": cross_entropy(load(AutoModelForCausalLM, folder, torch.float32), held_out),
        "float64": cross_entropy(load(wide_class, folder, torch.float64), held_out),
        "checksums": checksums(folder),
    }


def make(programs, folder, changes, held_out, wide_class):
    config = CONFIG | changes
    (folder / "config.json").write_text(json.dumps(config))
    subprocess.run(
        [programs / "tessera-train", "--model.config_path", folder / "config.json", "--data.train_path",
         folder / "train.jsonl", "--data.eval_path", folder / "eval.jsonl", "--train.checkpoint.output_dir",
         folder / "output", *TRAINING], check=True)
    forms = {}
    for form, options in FORMS.items():
        subprocess.run([programs / "tessera-convert", folder / "output", folder / form, *options], check=True)
        forms[form] = {"options": options, **evaluate(folder / form, wide_class, held_out)}
    return {"config": config, "forms": forms}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", type=Path, help="folder of tessera-train and tessera-convert")
    programs = parser.parse_args().programs.resolve()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    transformers.utils.logging.disable_progress_bar()
    wide_class, _, _ = float64_model_class()
    training, held_out = documents(0, 23), documents(23, 7)
    result = {
        "made_by": "test/oracle/make_converted.py",
        "transformers": transformers.__version__,
        "torch": torch.__version__.split("+")[0],
        "training": TRAINING,
        "documents": {"train": training, "eval": held_out},
        "models": {},
    }
    for name, changes in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            write_documents(folder / "train.jsonl", training)
            write_documents(folder / "eval.jsonl", held_out)
            result["models"][name] = make(programs, folder, changes, held_out, wide_class)
        for form, values in result["models"][name]["forms"].items():
            print(f"{name}, {form}: {values['float64']:.9f}, float32 {values['float32']:.9f}")
    (Path(__file__).parent / "converted.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
