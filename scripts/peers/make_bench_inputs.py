#!/usr/bin/env python3
"""Makes the inputs of both sides of scripts/bench.sh: a HuggingFace folder with initial weights, and tokens.

    make_bench_inputs.py FOLDER [--tokens N]

FOLDER/model    config.json and model.safetensors: transformers' own initial values, seed 0, float32.
FOLDER/spread   the same with the embedding times 50 (rows of about unit size). With transformers' own values nearly all
                tokens choose the same experts from the second layer on, and a run that splits the experts over ranks would
                measure this imbalance; here the choices are spread.
FOLDER/corpus   .bin and .idx (Megatron-Core's format, int32, one document): the C++ standard library's headers. Words,
                runs of blanks and single other characters are pieces; the most frequent 8191 pieces are tokens 1 to
                8191 in the order of their frequency, every other piece is token 0.
The result depends on the headers, the arguments and the packages' versions alone. Keeps inputs that are complete.
"""
import argparse
import collections
import os
import pathlib
import re
import struct

ARCHITECTURE = dict(
    vocab_size=8192, hidden_size=256, intermediate_size=768, moe_intermediate_size=192, num_hidden_layers=4,
    num_attention_heads=8, num_key_value_heads=2, head_dim=64, num_experts=16, num_experts_per_tok=4,
    decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True, router_aux_loss_coef=0.0,
    tie_word_embeddings=False, attention_bias=False, attention_dropout=0.0, rms_norm_eps=1e-6,
    max_position_embeddings=4096, initializer_range=0.02, rope_theta=1000000.0)
SPREAD = 50.0  # times the embedding
PIECE = re.compile(r"\w+|\s+|[^\w\s]")


def write_models(folder, spread_folder):
    import torch
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    torch.manual_seed(0)
    model = Qwen3MoeForCausalLM(Qwen3MoeConfig(**ARCHITECTURE)).float()
    model.save_pretrained(folder)
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(SPREAD)
    model.save_pretrained(spread_folder)


def pieces_of_headers(count):
    roots = sorted(pathlib.Path("/usr/include/c++").glob("*"))
    if not roots:
        raise SystemExit("make_bench_inputs.py: no C++ headers under /usr/include/c++; install g++")
    pieces = []
    for path in sorted(p for p in roots[-1].rglob("*") if p.is_file()):
        pieces += PIECE.findall(path.read_text(encoding="utf-8", errors="replace"))
        if len(pieces) >= count:
            return pieces[:count]
    raise SystemExit(f"make_bench_inputs.py: {roots[-1]} has {len(pieces)} tokens only, {count} are asked for")


def write_corpus(prefix, count):
    pieces = pieces_of_headers(count)
    frequency = collections.Counter(pieces)
    ranked = sorted(frequency, key=lambda piece: (-frequency[piece], piece))[:ARCHITECTURE["vocab_size"] - 1]
    token = {piece: number for number, piece in enumerate(ranked, start=1)}
    ids = [token.get(piece, 0) for piece in pieces]
    prefix.with_suffix(".bin").write_bytes(struct.pack(f"<{count}i", *ids))
    int32 = 4  # Megatron-Core's code of the type
    header = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, int32, 1, 2)
    prefix.with_suffix(".idx").write_bytes(header + struct.pack("<iqqq", count, 0, 0, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=300_000)
    arguments = parser.parse_args()
    folder = arguments.folder
    done = folder / f"made-{arguments.tokens}"
    if done.exists():
        return
    os.makedirs(folder, exist_ok=True)
    write_models(folder / "model", folder / "spread")
    write_corpus(folder / "corpus", arguments.tokens)
    done.touch()


if __name__ == "__main__":
    main()
