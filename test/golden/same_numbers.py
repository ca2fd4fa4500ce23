#!/usr/bin/env python3
"""Records the numbers and programs of a tessera-train, so that a change that should alter neither can be compared.

    test/golden/same_numbers.py record build/bin/tessera-train FOLDER     # before and after the change
    test/golden/same_numbers.py compare FOLDER OTHER_FOLDER

`record` trains a small model for three steps in each configuration below, in float64 and float32, and writes a text
file per run: the program of the step as --dry-run prints it, the lines of metrics.jsonl without times, and the hashes
of the checkpoint of every step. SGD with momentum keeps the first step's gradient itself in its state, so equal hashes
mean equal gradients. `compare` prints the first different line of each file. Bits are equal on one type of CPU only:
both recordings must come from the same machine. Exit codes: 0 equal, 1 different, 2 bad use or a run that failed.
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MODEL = {
    "model_type": "qwen3_moe", "vocab_size": 31, "hidden_size": 15, "intermediate_size": 17, "num_hidden_layers": 3,
    "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 4, "moe_intermediate_size": 11, "num_experts": 5,
    "num_experts_per_tok": 2, "norm_topk_prob": True, "mlp_only_layers": [0], "initializer_range": 0.3,
    "router_aux_loss_coef": 0.02, "max_position_embeddings": 64}


def groups(names, sizes, *more):
    return ["--train.accelerator.extra_parallel_names", *names.split(),
            "--train.accelerator.extra_parallel_sizes", *sizes.split(), *more]


def mode(name):
    return ["--train.accelerator.fsdp_config.fsdp_mode", name]


RECOMPUTE = ["--train.gradient_checkpointing.enable", "true"]
OVERLAP = ["--train.accelerator.overlap_exchange", "true"]
OUTER = ["--train.accelerator.extra_parallel_placement_innermost", "false"]
TIED = ["--model.tie_word_embeddings", "true"]
# Name -> ranks, options.
CONFIGURATIONS = {
    "pooled": (1, ["--model.router_z_loss_coef", "0.01", "--model.mlp_only_layers", "[]"]),
    "sequence_tied": (1, TIED + RECOMPUTE + ["--model.balance_loss", "sequence", "--data.documents", "separate",
                                             "--train.micro_batch_size", "3", "--train.optimizer.norm_type", "inf"]),
    "ep": (2, groups("ep", "2")),
    "emb_tied": (2, groups("emb", "2") + TIED),
    "both": (4, groups("ep emb", "2 4")),
    "outer_overlap": (4, groups("ep", "2", *OUTER) + OVERLAP),
    "ddp": (2, mode("ddp")),
    "zero1_ep": (2, mode("zero1") + groups("ep", "2")),
    "zero2": (2, mode("zero2") + ["--model.balance_loss", "per_layer", "--model.router_z_loss_coef", "0.001"]),
    "recompute_ep": (4, groups("ep", "4") + RECOMPUTE + ["--train.optimizer.norm_type", "3"]),
    "recompute_experts": (2, groups("ep", "2") + RECOMPUTE + ["--train.gradient_checkpointing.scope", "experts"]),
    "dense_layers": (2, ["--model.mlp_only_layers", "0", "1", "2"] + groups("emb", "2")),
    "unequal_overlap": (3, groups("ep emb", "3 3") + OVERLAP + ["--model.balance_loss", "sequence"]),
    "replicas": (4, ["--train.accelerator.dp_replicate_size", "2"] + groups("ep", "2")),
    "unfused": (2, groups("ep", "2") + ["--train.debug.poison_freed", "true"]),
}


# Lines of the memory plan that are estimates, and their sum.
ESTIMATES = ("  activations (estimate)", "  all ")


def documents(count, first=0):
    for d in range(first, first + count):
        yield [(d * 11 + i * i * 3 + i) % 31 for i in range(3 + d * 7 % 17)]


def write_jsonl(path, texts):
    path.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in texts))


def fail(text):
    print(text, file=sys.stderr)
    sys.exit(2)


def run(words, ranks=1):
    launch = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run(launch + words, capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"{' '.join(launch + words)} ended with code {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


def metrics(file):
    for line in file.read_text().splitlines():
        values = {key: value for key, value in json.loads(line).items()
                  if key not in ("step_s", "tokens_per_s") and not key.endswith(("/s", "_s"))}
        yield json.dumps(values)


def record_one(train, name, precision, folder):
    ranks, options = CONFIGURATIONS[name]
    with tempfile.TemporaryDirectory() as temporary:
        files = pathlib.Path(temporary)
        (files / "config.json").write_text(json.dumps(MODEL))
        write_jsonl(files / "train.jsonl", documents(23))
        write_jsonl(files / "eval.jsonl", documents(7, 23))
        words = [train, "--model.config_path", f"{files}/config.json", "--data.train_path", f"{files}/train.jsonl",
                 "--data.eval_path", f"{files}/eval.jsonl", "--data.max_seq_len", "13",
                 "--train.global_batch_size", "12", "--train.max_steps", "3", "--train.threads", "1",
                 "--train.accelerator.fsdp_config.prefetch_depth", "2",
                 "--train.optimizer.type", "sgd", "--train.optimizer.momentum", "0.9", "--train.optimizer.lr", "0.05",
                 "--train.precision", precision, "--train.checkpoint.output_dir", f"{files}/output",
                 "--train.checkpoint.save_steps", "1", *options]
        size = ["--train.accelerator.world_size", str(ranks)]
        pages = [run(words + size + ["--dry-run", "--rank", str(rank)]) for rank in range(ranks)]
        run(words, ranks)
        text = [line.replace(temporary, "FILES") for page in pages for line in page.splitlines()
                if not line.startswith(ESTIMATES)]
        text += metrics(files / "output" / "metrics.jsonl")
        for shard in sorted((files / "output").glob("step_*/*.safetensors")):
            text.append(f"{shard.parent.name}/{shard.name} {hashlib.sha256(shard.read_bytes()).hexdigest()}")
    (folder / f"{name}.{precision}.txt").write_text("\n".join(text) + "\n")


def record(train, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name in CONFIGURATIONS:
        for precision in ("float64", "float32"):
            record_one(train, name, precision, folder)
    print(f"{2 * len(CONFIGURATIONS)} runs are recorded in {folder}")


def compare(folder, other):
    different = 0
    names = sorted({file.name for place in (folder, other) for file in place.glob("*.txt")})
    if not names:
        fail(f"{folder} has no recordings")
    for name in names:
        texts = [(place / name).read_text().splitlines() if (place / name).exists() else [] for place in (folder, other)]
        if texts[0] == texts[1]:
            continue
        different += 1
        length = max(map(len, texts))
        one, two = ([*text, *[None] * (length - len(text))] for text in texts)
        at, (line, other_line) = next((k, pair) for k, pair in enumerate(zip(one, two)) if pair[0] != pair[1])
        print(f"{name}:{at + 1}\n  {folder}: {line}\n  {other}: {other_line}")
    print(f"{len(names) - different} of {len(names)} recordings are equal")
    return 1 if different else 0


def main(words):
    os.environ.update(OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if len(words) == 3 and words[0] == "record":
        record(str(pathlib.Path(words[1]).resolve()), pathlib.Path(words[2]))
        return 0
    if len(words) == 3 and words[0] == "compare":
        return compare(pathlib.Path(words[1]), pathlib.Path(words[2]))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
