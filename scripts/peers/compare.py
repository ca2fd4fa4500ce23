#!/usr/bin/env python3
"""Runs tessera-train and the PyTorch peer in turn and compares them; started by scripts/bench.sh.

Both train the model of make_bench_inputs.py from the same weights on the same tokens in the same order, one thread each.
Speeds are medians over the steps after the third, then over the runs; peak memory and time to the first step are medians
over the runs. Fails if the losses of a step differ by more than 1e-4.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import threading
import time

BATCH, LENGTH, SEED, LR = 8, 512, 0, 3e-4
WARM_UP = 3  # steps that are not timed
LOSS_TOLERANCE = 1e-4
# What makes the peer fastest: freed memory stays with the process, in pages of 2 MiB. tessera-train sets the like for itself.
PEER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": "8589934592",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "67108864",
    "THP_MEM_ALLOC_ENABLE": "1",
    "HF_HUB_OFFLINE": "1",
}
FIRST_STEP = re.compile(r"\bstep\s+1/")
KIND_OF_INSTRUCTION = re.compile(r"^\s+(\S.*?)\s{2,}\S.*?\s{2,}([\d.]+) %$")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder for logs, losses and result.md")
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of tessera-train and bench_sgemm")
    parser.add_argument("--python", default=sys.executable, help="of an environment with the peer's packages")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--command", default="scripts/bench.sh", help="shown in the result")
    return parser.parse_args()


# ---- runs


class Run:
    """One training run of one side: steps [{loss, step_s, tokens}], seconds to the first step, peak bytes."""

    def __init__(self, command, environment, log_path, read_steps):
        self.first_step_s = None
        began = time.monotonic()
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace")
        reader = threading.Thread(target=self._read, args=(process.stdout, began, log_path))
        reader.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        reader.join()
        if process.returncode != 0 or self.first_step_s is None:
            raise SystemExit(f"compare.py: {command[0]} ended with code {process.returncode}; its output is in {log_path}")
        self.peak_bytes = usage.ru_maxrss * 1024
        self.steps = read_steps()
        self.log = log_path.read_text()

    def _read(self, stream, began, log_path):
        with open(log_path, "w") as log:
            for line in stream:
                if self.first_step_s is None and FIRST_STEP.search(line):
                    self.first_step_s = time.monotonic() - began
                log.write(line)

    def losses(self):
        return [step["loss"] for step in self.steps]

    def step_s(self):
        return statistics.median(step["step_s"] for step in self.steps[WARM_UP:])


def read_jsonl(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def run_tessera(arguments, number):
    folder = arguments.output / f"tessera-{number}"
    settings = {
        "model.model_path": arguments.inputs / "model", "data.train_path": arguments.inputs / "corpus.idx",
        "data.max_seq_len": LENGTH, "train.micro_batch_size": BATCH, "train.global_batch_size": BATCH,
        "train.max_steps": arguments.steps, "train.seed": SEED, "train.threads": 1, "train.optimizer.lr": LR,
        "train.optimizer.max_grad_norm": 0, "train.checkpoint.output_dir": folder,
    }
    command = [str(arguments.bin / "tessera-train")]
    for name, value in settings.items():
        command += ["--" + name, str(value)]
    return Run(command, {"OMP_NUM_THREADS": "1"}, arguments.output / f"tessera-{number}.log",
               lambda: [line for line in read_jsonl(folder / "metrics.jsonl") if "loss" in line])


def run_peer(arguments, number):
    steps = arguments.output / f"peer-{number}.jsonl"
    command = [arguments.python, str(pathlib.Path(__file__).parent / "pytorch_peer.py"), str(arguments.inputs), "--steps",
               str(arguments.steps), "--json", str(steps), "--batch", str(BATCH), "--length", str(LENGTH), "--lr", str(LR),
               "--seed", str(SEED)]
    return Run(command, PEER_ENVIRONMENT, arguments.output / f"peer-{number}.log", lambda: read_jsonl(steps))


def measure_sgemm(arguments):
    """GFLOP/s of one core."""
    output = subprocess.run([str(arguments.bin / "bench_sgemm")], env={**os.environ, "OMP_NUM_THREADS": "1"},
                            stdout=subprocess.PIPE, check=True, text=True).stdout
    return float(output.split()[0])


def require_equal_losses(ours, theirs):
    for number, (a, b) in enumerate(zip(ours.losses(), theirs.losses(), strict=True), start=1):
        if not abs(a - b) <= LOSS_TOLERANCE:
            raise SystemExit(f"compare.py: step {number}: tessera-train has loss {a:.7f}, PyTorch {b:.7f}: they differ by "
                             f"{abs(a - b):.1e}, allowed are {LOSS_TOLERANCE:g}; the two do not train the same model")


# ---- results


def flop_of_step(config, tokens, length):
    """2 x multiply-adds of all products of a step: forward once, backward twice; attention over the lower triangle."""
    c = config
    query, key = c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
    attention = 2 * query * (length + 1) / 2
    layer = c["hidden_size"] * (2 * query + 2 * key + c.get("num_experts", c.get("num_local_experts")))
    layer += 3 * c["num_experts_per_tok"] * c["hidden_size"] * c["moe_intermediate_size"] + attention
    return 3 * 2 * tokens * (c["num_hidden_layers"] * layer + c["hidden_size"] * c["vocab_size"])


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def spread(values, form):
    return f"{form(statistics.median(values))} ({form(min(values))} to {form(max(values))})"


def result_table(arguments, ours, theirs, sgemm):
    config = json.loads((arguments.inputs / "model" / "config.json").read_text())
    tokens = BATCH * LENGTH
    gflop = flop_of_step(config, tokens, LENGTH) / 1e9
    speed = [[tokens / run.step_s() for run in runs] for runs in (ours, theirs)]
    peak = [[run.peak_bytes / 2**20 for run in runs] for runs in (ours, theirs)]
    first = [[run.first_step_s for run in runs] for runs in (ours, theirs)]
    share = [[gflop / run.step_s() / statistics.median(sgemm) for run in runs] for runs in (ours, theirs)]

    def row(name, values, form, better_is_more):
        a, b = (statistics.median(side) for side in values)
        ratio = a / b if better_is_more else b / a
        words = f"{ratio:.2f} x" if better_is_more else f"{a / b:.2f} x" if name.startswith("peak") else f"{ratio:.1f} x sooner"
        return f"| {name} | {spread(values[0], form)} | {spread(values[1], form)} | {words} |"

    difference = max(abs(a - b) for x, y in zip(ours, theirs) for a, b in zip(x.losses(), y.losses()))
    lines = [
        f"{datetime.date.today()}, {processor()}, {os.cpu_count()} cores, one of them used; load at the end "
        f"{os.getloadavg()[0]:.1f}. `{arguments.command}`",
        "",
        f"Medians of {arguments.repeats} alternated runs of {arguments.steps} steps (least to greatest); sgemm of this core "
        f"{spread(sgemm, '{:.1f}'.format)} GFLOP/s; {gflop:.1f} GFLOP a step.",
        "",
        "| | tessera-train | PyTorch | ratio |",
        "| --- | --- | --- | --- |",
        row("tokens/s", speed, "{:.0f}".format, True),
        row("share of sgemm", share, "{:.2f}".format, True),
        row("peak memory, MiB", peak, "{:.0f}".format, False),
        row("start to end of first step, s", first, "{:.2f}".format, False),
        f"| largest difference of losses | {difference:.1e} | | |",
    ]
    return "\n".join(lines)


def kinds_table(log):
    """The end page's table of kinds of instructions, those above 0.5 %."""
    rows = [m.groups() for m in map(KIND_OF_INSTRUCTION.match, log.splitlines()) if m and float(m[2]) >= 0.5]
    rows.sort(key=lambda row: -float(row[1]))
    return "\n".join(["| instruction | share of the time, % |", "| --- | --- |"] + [f"| {k} | {s} |" for k, s in rows])


def main():
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    ours, theirs, sgemm = [], [], []
    for number in range(1, arguments.repeats + 1):
        sgemm.append(measure_sgemm(arguments))
        ours.append(run_tessera(arguments, number))
        theirs.append(run_peer(arguments, number))
        require_equal_losses(ours[-1], theirs[-1])
        tokens = BATCH * LENGTH
        print(f"run {number}/{arguments.repeats}: tessera-train {tokens / ours[-1].step_s():.0f} tokens/s, PyTorch "
              f"{tokens / theirs[-1].step_s():.0f} tokens/s, sgemm {sgemm[-1]:.1f} GFLOP/s", flush=True)
    result = result_table(arguments, ours, theirs, sgemm) + "\n\n" + kinds_table(ours[-1].log) + "\n"
    (arguments.output / "result.md").write_text(result)
    print("\n" + result)


if __name__ == "__main__":
    main()
