"""The steps of scripts/device_check.sh in their order. Each returns results for the JSON, or raises StepFailed."""
import dataclasses
import json
import typing

import demo
import machine
import stack
from commands import StepFailed
from context import json_of

SKIPPED = 77  # the code of a test that found no GPU


def read_machine(context):
    facts = machine.host_facts(context.torch_dir)
    if not context.rehearsal:
        try:
            facts |= machine.gpu_facts(context)
        except StepFailed as failure:
            raise StepFailed(str(failure), facts) from None
    return facts


def build(context):
    if context.build:
        context.call([context.root / "scripts/build.sh", "--cuda", "--target", "device_check"], "scripts/build.sh")
    missing = [name for name in ("tessera-train", "bench_grouped", "bench_flops") if not (context.programs / name).exists()]
    if missing:
        raise StepFailed(f"{context.programs} lacks {', '.join(missing)}; build the target device_check")
    return {"built": context.build}


def test_state(code):
    return {0: "passed", SKIPPED: "skipped", None: "out of time"}.get(code, "failed")


def gpu_tests(context):
    listed = context.programs / "gpu_tests.txt"
    names = listed.read_text().split() if listed.exists() else []
    if not names:
        raise StepFailed(f"{listed} names no test: this build has none that is labelled gpu")
    tests, reasons = [], []
    for name in names:
        finished = context.attempt_ours(name, [])
        state = test_state(finished.code)
        tests.append({"program": name, "state": state, "seconds": finished.seconds})
        if state != "passed":
            reasons.append(f"{name} {state}:\n{finished.tail()}")
    if reasons:
        raise StepFailed("\n".join(reasons), {"tests": tests})
    return {"tests": tests}


def grouped_ours(context):
    small = ["--groups", 8, "--rows", 256, "--inner", 64, "--outer", 32, "--repeats", 3] if context.rehearsal else []
    return json_of(context.call_ours("bench_grouped", ["--device", context.device, *small]), "bench_grouped")


def grouped_torch(context):
    ours = context.results.get("grouped_ours")
    if ours is None:
        raise StepFailed("bench_grouped gave no cases to time")
    cases = context.work / "grouped.json"
    cases.write_text(json.dumps(ours))
    script = context.root / "scripts/device_check/torch_grouped.py"
    return json_of(context.call([context.python, script, cases], "torch_grouped.py"), "torch_grouped.py")


@dataclasses.dataclass
class Step:
    name: str
    limit_s: int
    what: str
    act: typing.Callable


STEPS = [
    Step("machine", 20, "names the GPU, its driver, CUDA and torch", read_machine),
    Step("build", 240, "builds the target device_check, unless a bundle or --build has it", build),
    Step("gpu_tests", 90, "runs the tests labelled gpu", gpu_tests),
    Step("demo_cpu", 60, "trains the demo's first 30 steps on the CPU in float32", demo.on_cpu),
    Step("demo_float32", 45, "the same on the GPU in float32; losses near the CPU's", demo.in_float32),
    Step("demo_bfloat16", 45, "the same on the GPU in bfloat16; losses near the CPU's", demo.in_bfloat16),
    Step("grouped_ours", 45, "times our grouped products and dense ones of as much work", grouped_ours),
    Step("grouped_torch", 60, "times torch._grouped_mm and torch's dense products", grouped_torch),
    Step("stack", 200, "trains layers shaped as Qwen3-30B-A3B's: tokens/s, share of the GPU's peak", stack.measure),
]
