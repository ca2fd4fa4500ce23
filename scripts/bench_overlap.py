#!/usr/bin/env python3
"""Measures how much of the communication runs during computation, on simulated nodes with links of a limited rate.

    scripts/bench_overlap.py [--bin build/bin] [--steps N] [--repeats N] [--rates 200mbit ...] [-- setting value ...]

Needs root (scripts/simulated_nodes.sh) and the inputs of scripts/bench.sh in output/bench/inputs. Two nodes of one rank and
one thread each train the bench model in these layouts: FSDP alone; experts split (ep 2), one micro-step after the other;
the same with micro-steps that take turns (overlap_exchange). Each layout runs as it is, and with --train.debug.only
compute and comm, which run the two halves one after the other. The repeats alternate between all of these; the table has
their medians on rank 0:

  compute, comm   seconds of a step's computation, and of its communication, alone
  step            seconds of the overlapped step; / max: divided by the larger of the two
  hidden          for each group: 1 - time blocked on its collectives / time of the same collectives alone
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess

LAYOUTS = {
    "fsdp": [],
    "ep 2": ["--train.accelerator.extra_parallel_names", "ep", "--train.accelerator.extra_parallel_sizes", "2"],
}
LAYOUTS["ep 2, taking turns"] = LAYOUTS["ep 2"] + ["--train.accelerator.overlap_exchange", "true"]
WARM_UP = 2


def run(arguments, layout, half, rate):
    folder = pathlib.Path("output/bench/overlap")
    inputs = pathlib.Path("output/bench/inputs")
    command = ["scripts/simulated_nodes.sh", "--rate", rate, "--", str(arguments.bin / "tessera-train")]
    settings = {
        "model.model_path": inputs / "model", "data.train_path": inputs / "corpus.idx", "data.max_seq_len": 512,
        "train.global_batch_size": 32, "train.micro_batch_size": 8, "train.max_steps": arguments.steps, "train.seed": 0,
        "train.threads": 1, "train.optimizer.lr": 3e-4, "train.optimizer.max_grad_norm": 0,
        "train.checkpoint.output_dir": folder, "train.checkpoint.save_last": "false", "train.debug.only": half,
    }
    for name, value in settings.items():
        command += ["--" + name, str(value)]
    subprocess.run(command + LAYOUTS[layout] + arguments.settings, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                   env={**os.environ, "OMP_NUM_THREADS": "1"})
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [line["step_s"] for line in lines if line["kind"] == "step"][WARM_UP:]
    last = next(line for line in lines if line["kind"] == "traffic")
    names = {key.split("/")[1] for key in last if key.startswith("traffic/")}
    groups = {name: {key: last[f"traffic/{name}/{key}"] / arguments.steps for key in ("bytes", "s", "exposed_s")}
              for name in sorted(names)}
    return statistics.median(steps), groups


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rates", nargs="+", default=["200mbit"])
    parser.add_argument("--layouts", nargs="+", choices=list(LAYOUTS), default=list(LAYOUTS))
    parser.add_argument("settings", nargs="*", help="for tessera-train")
    arguments = parser.parse_args()
    print(f"{datetime.date.today()}, 2 nodes x 1 rank, {arguments.steps} steps, medians of {arguments.repeats} {' '.join(arguments.settings)}; "
          f"load {os.getloadavg()[0]:.1f}\n")
    print("| layout | rate | compute, s | comm, s | step, s | / max | hidden |\n| --- | --- | --- | --- | --- | --- | --- |")
    for rate in arguments.rates:
        runs = {layout: {half: [] for half in ("none", "compute", "comm")} for layout in arguments.layouts}
        for _ in range(arguments.repeats):
            for layout, halves in runs.items():
                for half, results in halves.items():
                    results.append(run(arguments, layout, half, rate))
        for layout, halves in runs.items():
            step, compute, comm = (statistics.median(seconds for seconds, _ in halves[h]) for h in ("none", "compute", "comm"))
            hidden = []
            for name in halves["none"][0][1]:
                if name == "world":
                    continue
                exposed = statistics.median(groups[name]["exposed_s"] for _, groups in halves["none"])
                alone = statistics.median(groups[name]["s"] for _, groups in halves["comm"])
                sent = halves["none"][0][1][name]["bytes"] / 2**20
                hidden.append(f"{name} {100 * (1 - exposed / alone):.0f} % of {alone:.2f} s ({sent:.0f} MiB)")
            print(f"| {layout} | {rate} | {compute:.2f} | {comm:.2f} | {step:.2f} | {step / max(compute, comm):.2f} | "
                  f"{'; '.join(hidden)} |", flush=True)


if __name__ == "__main__":
    main()
