#!/usr/bin/env python3
"""The PyTorch side of scripts/bench.sh: HuggingFace's Qwen3-MoE with the parts of peer_modules.py, one rank, float32.

    pytorch_peer.py INPUTS --steps N --json OUT    # INPUTS from make_bench_inputs.py

Flash attention (LibTorch's kernel for CPUs), fused AdamW, no clipping, constant learning rate. scripts/peers/compare.py sets
the environment that makes it fastest (threads, allocator).
"""
import argparse
import json
import pathlib
import time

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM
from transformers.models.qwen3_moe import modeling_qwen3_moe as qwen3_moe

import data_order
import peer_modules


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", type=pathlib.Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--batch", type=int, default=8, help="sequences a step")
    parser.add_argument("--length", type=int, default=512, help="tokens a sequence")
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--seed", type=int, default=0, help="of the order of the windows")
    return parser.parse_args()


def load_model(folder):
    qwen3_moe.Qwen3MoeSparseMoeBlock.forward = peer_modules.moe_forward
    qwen3_moe.Qwen3MoeRMSNorm.forward = peer_modules.norm_forward
    return Qwen3MoeForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").train()


def batches(prefix, batch, length, seed):
    """(ids, labels), each [batch, length], of one step after the other."""
    tokens = np.fromfile(prefix.with_suffix(".bin"), dtype="<i4").astype(np.int64)
    order = data_order.window_order((len(tokens) - 1) // length, seed)
    for first in range(0, len(order) - batch + 1, batch):
        windows = np.stack([tokens[w * length:w * length + length + 1] for w in order[first:first + batch]])
        windows = torch.from_numpy(windows)
        yield windows[:, :-1], windows[:, 1:]


def take_step(model, optimizer, ids, labels):
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
    loss = peer_modules.HeadLoss.apply(hidden.flatten(0, 1), model.lm_head.weight, labels.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)
    model = load_model(arguments.inputs / "model")
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0,
                                  fused=True)
    steps = []
    source = batches(arguments.inputs / "corpus", arguments.batch, arguments.length, arguments.seed)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        for number, (ids, labels) in zip(range(1, arguments.steps + 1), source):
            began = time.perf_counter()
            loss = take_step(model, optimizer, ids, labels)
            seconds = time.perf_counter() - began
            steps.append({"step": number, "loss": loss, "step_s": seconds, "tokens": ids.numel()})
            print(f"step {number}/{arguments.steps}  loss {loss:.6f}  {ids.numel() / seconds:.0f} tokens/s", flush=True)
    arguments.json.write_text("".join(json.dumps(step) + "\n" for step in steps))


if __name__ == "__main__":
    main()
