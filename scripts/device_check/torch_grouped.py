#!/usr/bin/env python3
"""Times torch._grouped_mm and torch's dense product where bench_grouped timed ours: reads its JSON, prints one of its own.

    python torch_grouped.py GROUPED.json

Of each case the three products of a forward and a backward pass, in bfloat16; seconds are medians. On a GPU also one large
square product, which shows what the machine reaches at best.
"""
import json
import statistics
import sys
import time

import torch

WARM_UP = 3
SQUARE = 8192


def seconds_of(body, repeats, device):
    for _ in range(WARM_UP):
        body()
    if device.type == "cpu":
        points = [time.perf_counter()]
        for _ in range(repeats):
            body()
            points.append(time.perf_counter())
        return statistics.median(b - a for a, b in zip(points, points[1:]))
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    events[0].record()
    for event in events[1:]:
        body()
        event.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) / 1e3 for a, b in zip(events, events[1:]))


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        ours = json.load(file)
    device = torch.device("cpu" if ours["device"] == "CPU" else "cuda")
    repeats = ours["repeats"]

    def random(*shape):
        return torch.randn(*shape, device=device).to(torch.bfloat16)

    def times(forward, to_rows, to_weights):
        return {"forward": seconds_of(forward, repeats, device), "to_rows": seconds_of(to_rows, repeats, device),
                "to_weights": seconds_of(to_weights, repeats, device)}

    x, d = random(ours["rows"], ours["inner"]), random(ours["rows"], ours["outer"])
    weight = random(ours["groups"], ours["outer"], ours["inner"]) * 0.02
    result = {"torch": torch.__version__, "cases": []}
    for case in ours["cases"]:
        ends = torch.tensor(case["counts"], device=device).cumsum(0).to(torch.int32)
        grouped_s = times(lambda: torch._grouped_mm(x, weight.transpose(1, 2), offs=ends),
                          lambda: torch._grouped_mm(d, weight, offs=ends),
                          lambda: torch._grouped_mm(d.t(), x, offs=ends))
        result["cases"].append({"name": case["name"], "torch_s": grouped_s})
    matrix = weight[0]
    result["dense_s"] = times(lambda: x @ matrix.t(), lambda: d @ matrix, lambda: d.t() @ x)
    if device.type == "cuda":
        a, b = random(SQUARE, SQUARE), random(SQUARE, SQUARE)
        result["square"] = SQUARE
        result["square_tflops"] = 2e-12 * SQUARE**3 / seconds_of(lambda: a @ b, repeats, device)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
