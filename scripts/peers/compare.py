#!/usr/bin/env python3
"""Runs tessera-train and the PyTorch peer in turn, at one layout, and compares them; started by scripts/bench.sh.

Both train a model of make_bench_inputs.py from the same weights on the same tokens in the same order with the same global
batch, one thread a rank. With --ep N both split the experts over groups of N ranks; they start from the model whose router
spreads its choices, with a learning rate at which it goes on to do so. Speeds are medians over the steps after the third,
then over the runs; peak memory and time to the first step are medians over the runs. Fails if the losses of a step differ by
more than 1e-4.
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

from training_runs import BATCH, LENGTH, Subject, run_peer, run_tessera

LOSS_TOLERANCE = 1e-4
LR, SPREAD_LR = 3e-4, 3e-5
TABLE_ROW = re.compile(r"\s{2,}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder for logs, losses and results")
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of tessera-train and bench_sgemm")
    parser.add_argument("--python", default=sys.executable, help="of an environment with the peer's packages")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--ep", type=int, default=1, help="ranks that share the experts")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--command", default="scripts/bench.sh", help="shown in the result")
    parser.add_argument("settings", nargs="*", help="after --: further settings for tessera-train")
    arguments = parser.parse_args()
    if arguments.ranks % arguments.ep or BATCH % arguments.ranks:
        parser.error(f"--ep {arguments.ep} must divide --ranks {arguments.ranks}, which must divide {BATCH}, the sequences of a step")
    return arguments


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


def row(name, ours, theirs, form, words):
    """words(ratio of the medians, ours / theirs)"""
    ratio = statistics.median(ours) / statistics.median(theirs)
    return f"| {name} | {spread(ours, form)} | {spread(theirs, form)} | {words(ratio)} |"


def result_table(arguments, ours, theirs):
    def values(read):
        return [[read(run) for run in runs] for runs in (ours, theirs)]

    times, mib = "{:.2f} x".format, 2**20
    difference = max(abs(a - b) for x, y in zip(ours, theirs) for a, b in zip(x.losses(), y.losses()))
    lines = ["| | tessera-train | PyTorch | ratio |", "| --- | --- | --- | --- |",
             row("tokens/s", *values(lambda run: run.tokens_per_s()), "{:.0f}".format, times)]
    if arguments.ranks == 1:
        lines.append(row("peak memory, MiB", *values(lambda run: run.peaks[0] / mib), "{:.0f}".format, times))
    else:
        lines.append(row("peak memory, MiB, greatest of the ranks", *values(lambda run: max(run.peaks) / mib),
                         "{:.0f}".format, times))
        lines.append(row("peak memory, MiB, sum of the ranks", *values(lambda run: sum(run.peaks) / mib),
                         "{:.0f}".format, times))
    lines.append(row("start to end of first step, s", *values(lambda run: run.first_step_s), "{:.2f}".format,
                     lambda ratio: f"{1 / ratio:.1f} x sooner"))
    lines.append(f"| largest difference of losses | {difference:.1e} | | |")
    return "\n".join(lines)


def share_of_sgemm(arguments, ours, theirs, sgemm):
    config = json.loads((arguments.inputs / "model" / "config.json").read_text())
    gflop = flop_of_step(config, BATCH * LENGTH, LENGTH) / 1e9
    share = [[gflop / run.step_s() / statistics.median(sgemm) for run in runs] for runs in (ours, theirs)]
    return (f"\nsgemm of this core {spread(sgemm, '{:.1f}'.format)} GFLOP/s; {gflop:.1f} GFLOP a step: tessera-train reaches "
            f"{spread(share[0], '{:.2f}'.format)} of it, PyTorch {spread(share[1], '{:.2f}'.format)}.\n")


def table_of_end_page(log, first_title):
    """The rows of the end page's table with this title over its first column, title first."""
    lines = iter(log.splitlines())
    for line in lines:
        title = TABLE_ROW.split(line.strip())
        if title[0] != first_title or len(title) < 3:
            continue
        next(lines)
        rows = [title]
        for line in lines:
            cells = TABLE_ROW.split(line.strip())
            if len(cells) not in (len(title), len(title) - 1):
                break
            rows.append(cells + [""] * (len(title) - len(cells)))
        return rows
    return []


def markdown(rows):
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [rows[0], ["---"] * len(rows[0]), *rows[1:]])


def end_page_tables(log, steps):
    """Where rank 0's time went: the kinds of instructions from 0.5 % on, and the groups' traffic."""
    kinds = table_of_end_page(log, "instruction")
    tables = [markdown(kinds[:1] + [cells for cells in kinds[1:] if float(cells[2].rstrip(" %")) >= 0.5])]
    groups = table_of_end_page(log, "group")
    if groups:
        tables.append(f"Traffic of rank 0 in {steps} steps; *exposed* is the time in which it computed nothing because it "
                      "waited for this group.\n\n" + markdown(groups))
    return "\n\n".join(tables)


def busiest_rank(loads, ep):
    """Slots of a layer's busiest rank / mean over the ranks of an expert group, on average over layers and steps."""
    ratios = []
    for layer in (layer for load in loads for layer in load):
        share = len(layer) // ep
        ratios.append(max(sum(layer[first:first + share]) for first in range(0, len(layer), share)) * ep / sum(layer))
    return statistics.fmean(ratios)


def title(arguments):
    ranks = "one rank" if arguments.ranks == 1 else f"{arguments.ranks} ranks"
    return f"### {ranks}, ep {arguments.ep}" if arguments.ranks > 1 else f"### {ranks}"


def main():
    arguments = parse_arguments()
    folder = arguments.output / f"ranks{arguments.ranks}-ep{arguments.ep}"
    model, lr = ("spread", SPREAD_LR) if arguments.ep > 1 else ("model", LR)
    subject = Subject(arguments.inputs / model, arguments.inputs / "corpus", arguments.steps, arguments.ranks, arguments.ep, lr)
    load_before = os.getloadavg()[0]
    ours, theirs, sgemm = [], [], []
    for number in range(1, arguments.repeats + 1):
        if arguments.ranks == 1:
            sgemm.append(measure_sgemm(arguments))
        ours.append(run_tessera(subject, arguments.bin / "tessera-train", folder / f"tessera-{number}", arguments.settings))
        theirs.append(run_peer(subject, arguments.python, folder / f"peer-{number}"))
        require_equal_losses(ours[-1], theirs[-1])
        print(f"{arguments.ranks} ranks, ep {arguments.ep}, run {number}/{arguments.repeats}: tessera-train "
              f"{ours[-1].tokens_per_s():.0f} tokens/s, PyTorch {theirs[-1].tokens_per_s():.0f} tokens/s", flush=True)
    parts = [
        title(arguments),
        f"{datetime.date.today()}, {processor()}, {os.cpu_count()} cores; load before {load_before:.1f}, at the end "
        f"{os.getloadavg()[0]:.1f}; `{arguments.command}`. Medians of {arguments.repeats} alternated runs of "
        f"{arguments.steps} steps (least to greatest).\n",
        result_table(arguments, ours, theirs),
        share_of_sgemm(arguments, ours, theirs, sgemm) if sgemm else "",
        f"\nThe busiest rank's experts have {busiest_rank(ours[-1].loads, arguments.ep):.2f} times the mean's rows.\n"
        if arguments.ep > 1 else "",
        end_page_tables(ours[-1].log, arguments.steps),
    ]
    result = "\n".join(parts) + "\n"
    (folder / "result.md").write_text(result)
    print("\n" + result)


if __name__ == "__main__":
    main()
