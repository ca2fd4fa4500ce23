#!/usr/bin/env python3
"""The PyTorch side of scripts/bench.sh: HuggingFace's Qwen3-MoE with the parts of peer_modules.py, float32, on CPUs.

    pytorch_peer.py MODEL CORPUS --steps N --json OUT [--ep N]     # from make_bench_inputs.py

Flash attention (LibTorch's kernel for CPUs), fused AdamW, no clipping, constant learning rate. One of several ranks if RANK,
WORLD_SIZE, MASTER_ADDR and MASTER_PORT say so (as torchrun does): FSDP2 and expert parallelism as in peer_sharding.py.
scripts/peers/training_runs.py sets the environment that makes it fastest (threads, allocator).
"""
import argparse
import json
import os
import pathlib
import sys
import time
import types

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM
from transformers.models.qwen3_moe import modeling_qwen3_moe as qwen3_moe

import data_order
import peer_modules
import peer_sharding


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("corpus", type=pathlib.Path, help=".bin without the suffix")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--ep", type=int, default=1, help="ranks that share the experts")
    parser.add_argument("--batch", type=int, default=8, help="sequences a step, of all ranks together")
    parser.add_argument("--length", type=int, default=512, help="tokens a sequence")
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--seed", type=int, default=0, help="of the order of the windows")
    arguments = parser.parse_args()
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks % arguments.ep or arguments.batch % ranks:
        parser.error(f"--ep {arguments.ep} must divide the {ranks} ranks, which must divide --batch {arguments.batch}")
    return arguments, ranks


def load_model(folder, layout):
    qwen3_moe.Qwen3MoeExperts.forward = peer_modules.experts_forward
    qwen3_moe.Qwen3MoeSparseMoeBlock.forward = peer_modules.moe_forward
    qwen3_moe.Qwen3MoeRMSNorm.forward = peer_modules.norm_forward
    qwen3_moe.Qwen3MoeForCausalLM.forward = peer_modules.model_forward
    config = Qwen3MoeConfig.from_pretrained(folder, attn_implementation="sdpa", dtype=torch.float32)
    with torch.device("meta"):
        model = Qwen3MoeForCausalLM(config).train()
    model.lm_head.forward = types.MethodType(peer_modules.head_forward, model.lm_head)
    peer_sharding.keep_own_experts(model, layout)
    if layout.ranks > 1:
        peer_sharding.shard(model, layout)
    model.to_empty(device="cpu")
    model.model.rotary_emb = qwen3_moe.Qwen3MoeRotaryEmbedding(config)
    peer_sharding.load(model, folder, layout)
    return model


def batches(prefix, batch, length, seed, layout):
    """(ids, labels) of one step after the other: this rank's [batch / ranks, length] of it."""
    tokens = np.fromfile(prefix.with_suffix(".bin"), dtype="<i4").astype(np.int64)
    order = data_order.window_order((len(tokens) - 1) // length, seed)
    share = batch // layout.ranks
    for first in range(layout.rank * share, len(order) - batch + 1, batch):
        windows = np.stack([tokens[w * length:w * length + length + 1] for w in order[first:first + share]])
        windows = torch.from_numpy(windows)
        yield windows[:, :-1], windows[:, 1:]


def take_step(model, optimizer, ids, labels, layout):
    loss = model(ids, labels, labels.numel() * layout.ranks)
    loss.backward()
    optimizer.step()
    loss = loss.detach()
    if layout.ranks > 1:
        dist.all_reduce(loss)
    return loss.item()


def main():
    arguments, ranks = parse_arguments()
    torch.set_num_threads(1)
    if ranks > 1:
        dist.init_process_group("gloo")
    layout = peer_sharding.Layout(arguments.ep)
    model = load_model(arguments.model, layout)
    optimizer = peer_sharding.LocalAdamW(model.parameters(), lr=arguments.lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
    steps = []
    source = batches(arguments.corpus, arguments.batch, arguments.length, arguments.seed, layout)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        for number, (ids, labels) in zip(range(1, arguments.steps + 1), source):
            began = time.perf_counter()
            loss = take_step(model, optimizer, ids, labels, layout)
            seconds = time.perf_counter() - began
            tokens = ids.numel() * layout.ranks
            steps.append({"step": number, "loss": loss, "step_s": seconds, "tokens": tokens})
            if layout.rank == 0:
                print(f"step {number}/{arguments.steps}  loss {loss:.6f}  {tokens / seconds:.0f} tokens/s", flush=True)
    if layout.rank == 0:
        arguments.json.write_text("".join(json.dumps(step) + "\n" for step in steps))
    if ranks > 1:
        dist.barrier()
        dist.destroy_process_group()
        sys.stdout.flush()
        os._exit(0)  # gloo's threads sometimes end an ordinary exit by "terminate called without an active exception"


if __name__ == "__main__":
    main()
