#!/usr/bin/env python3
"""Runs the steps of scripts/device_check.sh, which starts it. Writes device_check.json (after every step, so that a check
that is killed leaves what it had), device_check.md and device_check.log. A step that fails says why, and the next one begins;
each has a time limit, and all together have a budget.

Exit code 0 if all steps passed, 1 if one did not.
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

import page
from commands import StepFailed
from context import Context
from steps import STEPS

FORMAT = 1
LEAST_S = 5  # a step is not begun with less time than this


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, required=True, help="folder of the tree, or of a bundle")
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--build", action="store_true", help="build the programs first")
    parser.add_argument("--corpus", type=pathlib.Path, required=True, help="folder of the text that is trained on")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable, help="the Python whose torch is measured")
    parser.add_argument("--torch-dir", type=pathlib.Path, required=True)
    parser.add_argument("--library-path", default="", help="LD_LIBRARY_PATH of the programs")
    parser.add_argument("--budget", type=float, default=450, help="seconds for all steps")
    parser.add_argument("--only", nargs="+", choices=[step.name for step in STEPS], help="run only these steps")
    parser.add_argument("--rehearse", action="store_true", help="run on the CPU with tiny sizes")
    parser.add_argument("--command", default="", help="shown in the results")
    return parser.parse_args()


def print_list():
    for step in STEPS:
        print(f"{step.name:15} at most {step.limit_s:3} s  {step.what}")


def commit_of(root):
    """Returns the commit in a bundle's file, or that of the tree, with a note if the tree has changes."""
    if (root / "commit").exists():
        return (root / "commit").read_text().strip()
    described = subprocess.run(["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty= with changes"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return described.stdout.strip() or "unknown"


def attempt(step, context, limit_s):
    """Runs a step and returns its entry in the JSON."""
    said = {"name": step.name, "what": step.what, "limit_s": round(limit_s, 1)}
    if limit_s < LEAST_S:
        return said | {"status": "left out", "reason": "the budget of time was used up", "results": {}}
    context.start(limit_s)
    began = time.monotonic()
    try:
        results, status, reason = step.act(context), "passed", ""
        context.results[step.name] = results
    except StepFailed as failure:
        results, status, reason = failure.results, "failed", str(failure)
        if results:
            context.results[step.name] = results
    except Exception:  # a fault of the check itself costs its own step alone, too
        results, status, reason = {}, "failed", traceback.format_exc(limit=-3)
    return said | {"status": status, "seconds": round(time.monotonic() - began, 2), "reason": reason, "results": results}


def write(output, report):
    """Both files, each whole at any time."""
    for name, text in (("device_check.json", json.dumps(report, indent=1) + "\n"), ("device_check.md", page.make_page(report))):
        unfinished = output / f"{name}.tmp"
        unfinished.write_text(text)
        unfinished.replace(output / name)


def run_steps(steps, context, budget_s, report, output):
    end = time.monotonic() + budget_s
    for step in steps:
        report["steps"].append(attempt(step, context, min(step.limit_s, end - time.monotonic())))
        report["seconds"] = round(budget_s - (end - time.monotonic()), 1)
        report["passed"] = all(said["status"] == "passed" for said in report["steps"])
        write(output, report)
        said = report["steps"][-1]
        print(f"device_check: {step.name}: {said['status']} ({said.get('seconds', 0):.1f} s)"
              + (f": {said['reason']}" if said["reason"] else ""), flush=True)


def main():
    if sys.argv[1:] == ["--list"]:
        print_list()
        return 0
    arguments = parse_arguments()
    output = arguments.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    log = output / "device_check.log"
    log.write_text("")
    steps = [step for step in STEPS if arguments.only is None or step.name in arguments.only]
    report = {"format": FORMAT, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "commit": commit_of(arguments.root), "command": arguments.command, "rehearsal": arguments.rehearse,
              "budget_s": arguments.budget, "seconds": 0, "passed": False, "steps": []}
    environment = {"LD_LIBRARY_PATH": arguments.library_path} if arguments.library_path else {}
    with tempfile.TemporaryDirectory(prefix="device_check.") as work:
        corpus = pathlib.Path(work) / "corpus"
        subprocess.run(["cp", "-r", str(arguments.corpus), str(corpus)], check=True)  # as it is now, whatever is edited
        context = Context(root=arguments.root.resolve(), programs=arguments.programs.resolve(), build=arguments.build,
                          corpus=corpus, python=arguments.python, torch_dir=arguments.torch_dir, environment=environment,
                          work=pathlib.Path(work), log=log, rehearsal=arguments.rehearse)
        run_steps(steps, context, arguments.budget, report, output)
    print(f"device_check: {'all steps passed' if report['passed'] else 'NOT all steps passed'}; {output}/device_check.md")
    return 0 if report["passed"] else 1


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
