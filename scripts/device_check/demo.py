"""The demo's first steps on the GPU, in both number formats, against those on the CPU in float32."""
import math
import statistics

from commands import StepFailed
from context import WARM_UP

STEPS = 30
EARLY = 10  # until then small differences have hardly grown
# Largest relative differences of a step's cross entropy from the CPU's in float32, in the early steps and in all. On a CPU
# the largest are 2e-8 and 2e-4 in float64, 7e-4 and 9e-3 in bfloat16.
FLOAT32_BARS, BFLOAT16_BARS = (1e-5, 2e-3), (2e-3, 2e-2)


# Settings of a rehearsal.
SMALL = {"train.max_steps": 4, "data.max_seq_len": 32, "train.micro_batch_size": 1, "train.global_batch_size": 2,
         "model.num_hidden_layers": 1}


def settings(context, precision, device):
    values = {"data.train_path": context.corpus, "train.max_steps": STEPS, "train.eval_steps": 0,
              "train.checkpoint.save_steps": 0, "train.checkpoint.save_async": "false", "train.checkpoint.keep_last": 0,
              "train.precision": precision, "train.accelerator.device": device, **(SMALL if context.rehearsal else {})}
    return [context.root / "scripts/demo/config.json", *(word for key, value in values.items() for word in (f"--{key}", value))]


def losses_of(context, name, precision, device):
    steps, _, _ = context.train(name, settings(context, precision, device))
    timed = steps[WARM_UP:] or steps[-1:]
    return {"losses": [step["ce_loss"] for step in steps],
            "tokens_per_s": statistics.median(step["tokens_per_s"] for step in timed)}


def largest_of(differences):
    """Returns the largest value and the number of its step; NaN counts as the largest."""
    index = max(range(len(differences)), key=lambda k: (math.isnan(differences[k]), differences[k]))
    return differences[index], index + 1


def against_cpu(context, results, bars):
    expected = context.results.get("demo_cpu", {}).get("losses")
    if expected is None:
        raise StepFailed("the run went through, but there are no losses of the CPU to compare with", results)
    if len(expected) != len(results["losses"]):
        raise StepFailed(f"{len(results['losses'])} steps instead of the CPU's {len(expected)}", results)
    differences = [abs(a - b) / abs(b) for a, b in zip(results["losses"], expected)]
    found = [largest_of(differences[:EARLY]), largest_of(differences)]
    results |= {"early_steps": EARLY, "largest_early": found[0][0], "early_bar": bars[0], "largest": found[1][0], "bar": bars[1]}
    for (difference, step), bar in zip(found, bars):
        if not difference <= bar:
            raise StepFailed(f"the loss of step {step} differs from the CPU's by {difference:.1e} of it; allowed are {bar:g}",
                             results)
    return results


def on_cpu(context):
    return losses_of(context, "demo_cpu", "float32", "cpu")


def in_float32(context):
    return against_cpu(context, losses_of(context, "demo_float32", "float32", context.device), FLOAT32_BARS)


def in_bfloat16(context):
    return against_cpu(context, losses_of(context, "demo_bfloat16", "bfloat16", context.device), BFLOAT16_BARS)
