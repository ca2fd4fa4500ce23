#!/usr/bin/env python3
"""Draws a run's metrics.jsonl as one PNG: losses, gradient norm, tokens per second and expert load.

    scripts/plot_run.py output                     # writes output/metrics.png
    scripts/plot_run.py output/metrics.jsonl --output run.png

Needs the packages of scripts/requirements.txt; scripts/setup.sh puts them into .deps/python.
"""
import argparse
import json
import math
import pathlib
import sys

PURPOSE = "Draws a run's metrics.jsonl as one PNG: losses, gradient norm, tokens per second and expert load."


class Failure(Exception):
    """An error that the user can read."""


def read_run(path):
    """Returns (steps, evaluations, loads), each a dict from step to object; loads holds only the last one. Reads line by
    line, as the file may be larger than memory. After a resume a step may occur twice; the later one counts."""
    found = {"step": {}, "evaluation": {}, "load": {}}
    lines, broken = 0, []
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, start=1):
                lines = number
                value = parse(path, number, line, broken) if line.strip() else None
                if value is None:
                    continue
                kind = found.get(value["kind"])
                if value["kind"] == "load":
                    kind.clear()
                if kind is not None:
                    kind[value["step"]] = value
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}")
    if not any(found.values()):
        raise Failure(f"{path}: no complete line of JSON; the run has not finished a step yet, or this is another file")
    if broken:
        print(f"note: {path}: left out {len(broken)} of {lines} lines, the first of them {broken[0]}: not whole "
              "(a killed run leaves its last line unfinished)", file=sys.stderr)
    return tuple(dict(sorted(found[kind].items())) for kind in ("step", "evaluation", "load"))


def parse(path, number, line, broken):
    """Returns the object of a line. For a line that is not whole, returns None and adds its number to `broken`."""
    try:
        value = json.loads(line)
    except json.JSONDecodeError:
        broken.append(number)
        return None
    if not isinstance(value, dict) or not isinstance(value.get("step"), int) or not isinstance(value.get("kind"), str):
        raise Failure(f"{path}:{number}: not an object with a \"kind\" and a whole number \"step\"; is this a metrics.jsonl?")
    return value


def series(records, key):
    """Returns steps and values of a key; null (a number that was not finite, or not measured) becomes a gap."""
    steps = [step for step, value in records.items() if key in value]
    values = [records[step][key] for step in steps]
    return steps, [float(value) if isinstance(value, (int, float)) else math.nan for value in values]


def draw_lines(axes, records, keys, title, **style):
    for key, label in keys:
        steps, values = series(records, key)
        if steps:
            marker = "." if len(steps) < 60 else None
            axes.plot(steps, values, label=label, marker=marker, linewidth=1.2, **style)
    axes.set_title(title)
    axes.set_xlabel("step")
    axes.grid(alpha=0.3)
    show_legend(axes)


def show_legend(axes):
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    else:
        axes.text(0.5, 0.5, "nothing in this file yet", ha="center", va="center", transform=axes.transAxes)


def draw_losses(axes, steps, evaluations):
    x, y = series(evaluations, "eval/ce_loss")
    if x:
        axes.plot(x, y, "o-", color="black", markersize=4, linewidth=1, label="held-out cross entropy", zorder=3)
    draw_lines(axes, steps, [("loss", "loss"), ("ce_loss", "cross entropy")], "Loss")


def draw_norms(axes, steps):
    groups = sorted({key for value in steps.values() for key in value if key.startswith("grad_norm/") and not key.endswith("/text")})
    keys = [("grad_norm", "all")]
    if len(groups) > 1:  # a single group has the norm of all
        keys += [(key, key.split("/", 1)[1]) for key in groups]
    draw_lines(axes, steps, keys, "Gradient norm (before clipping)")
    if any(value > 0 for key, _ in keys for value in series(steps, key)[1]):
        axes.set_yscale("log")


def draw_speed(axes, steps):
    draw_lines(axes, steps, [("tokens_per_s", "tokens per second")], "Tokens per second")
    axes.set_ylim(bottom=0)


def draw_load(figure, axes, loads, path):
    import numpy

    if not loads:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "no expert load in this file\n(train.moe_load_balance_monitor_interval)", ha="center", va="center")
        return
    step, record = list(loads.items())[-1]
    rows = record["expert_load"]
    if not rows or len({len(row) for row in rows}) != 1 or not rows[0]:
        raise Failure(f"{path}: expert_load of step {step} is not a table [layer][expert]")
    load = numpy.array(rows, dtype=float)
    mean = load.mean(axis=1, keepdims=True)
    relative = numpy.divide(load, mean, out=numpy.zeros_like(load), where=mean > 0)
    image = axes.imshow(relative, aspect="auto", interpolation="nearest", cmap="viridis", vmin=0, vmax=max(2.0, relative.max()))
    axes.set_title(f"Expert load of step {step} (1 = mean of the layer)")
    axes.set_xlabel("expert")
    axes.set_ylabel("MoE layer")
    for axis, size in ((axes.xaxis, load.shape[1]), (axes.yaxis, load.shape[0])):
        axis.set_major_locator(ticks(size))
    figure.colorbar(image, ax=axes)


def ticks(size):
    from matplotlib.ticker import FixedLocator, MaxNLocator

    return FixedLocator(range(size)) if size <= 16 else MaxNLocator(8, integer=True)


def draw(path, output):
    try:
        import matplotlib
    except ImportError:
        raise Failure("matplotlib is not installed; use .deps/python/bin/python after scripts/setup.sh, "
                      "or: pip install -r scripts/requirements.txt")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps, evaluations, loads = read_run(path)
    figure, ((losses, norms), (speed, load)) = pyplot.subplots(2, 2, figsize=(14, 9), constrained_layout=True)
    draw_losses(losses, steps, evaluations)
    draw_norms(norms, steps)
    draw_speed(speed, steps)
    draw_load(figure, load, loads, path)
    figure.suptitle(str(path))
    try:
        figure.savefig(output, dpi=110)
    except OSError as error:
        raise Failure(f"cannot write {output}: {error.strerror}")


def main():
    parser = argparse.ArgumentParser(description=PURPOSE)
    parser.add_argument("run", type=pathlib.Path, help="metrics.jsonl, or the folder of a run that holds one")
    parser.add_argument("--output", type=pathlib.Path, help="PNG to write (default: beside metrics.jsonl, metrics.png)")
    arguments = parser.parse_args()
    path = arguments.run / "metrics.jsonl" if arguments.run.is_dir() else arguments.run
    output = arguments.output or path.with_suffix(".png")
    if output.suffix.lower() != ".png":
        parser.error(f"--output {output}: the file must end in .png")
    try:
        draw(path, output)
    except Failure as failure:
        print(f"plot_run: {failure}", file=sys.stderr)
        return 2
    print(output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
