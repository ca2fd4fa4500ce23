"""Trains as many layers of Qwen3-30B-A3B's shape as fit the GPU: tokens a second, and the share of the GPU's peak."""
import json
import math
import random
import re
import statistics

from commands import StepFailed
from context import WARM_UP, json_of

SEQUENCE, MICRO_BATCH, STEPS, MOST_LAYERS = 4096, 4, 12, 48
MEMORY_SHARE = 0.88   # of the GPU's, which the planned memory may take: CUDA, and what the plan estimates, need the rest
FIRST_LOSS_BAR = 0.3  # nats between the first cross entropy and that of random logits
FIRST_LAYERS = 2      # a figure that is there whatever a larger run does
LEAST_RUN_S = 30       # no larger run is begun with less time
SIZES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def write_random_tokens(path, sequences, length, vocabulary):
    """Writes documents of uniformly drawn ids, so that every row of the embedding and every expert is in use."""
    draw = random.Random(0)
    with path.open("w") as file:
        for _ in range(sequences):
            file.write(json.dumps({"input_ids": [draw.randrange(vocabulary) for _ in range(length)]}) + "\n")


# The shape in a rehearsal.
SMALL = {"vocab_size": 512, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
         "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}


def settings_of(context, layers):
    """Returns the model's shape and the settings of a run with `layers` layers."""
    model = context.root / "scripts/device_check/qwen3_30b_a3b.json"
    overrides = {**(SMALL if context.rehearsal else {}), "num_hidden_layers": layers}
    shape = {**json.loads(model.read_text()), **overrides}
    sequence = 64 if context.rehearsal else SEQUENCE
    tokens = context.work / "tokens.jsonl"
    if not tokens.exists():
        write_random_tokens(tokens, (STEPS + 1) * MICRO_BATCH, sequence, shape["vocab_size"])
    words = ["--model.config_path", model, "--data.train_path", tokens, "--data.max_seq_len", sequence,
             "--train.micro_batch_size", MICRO_BATCH, "--train.global_batch_size", MICRO_BATCH, "--train.max_steps", STEPS,
             "--train.optimizer.lr", 1e-4, "--train.precision", "bfloat16", "--train.accelerator.device", context.device]
    for key, value in overrides.items():
        words += [f"--model.{key}", value]
    return shape, words


def planned_bytes(context, layers):
    finished = context.call_ours("tessera-train", ["--dry-run", *settings_of(context, layers)[1]])
    total = re.search(r"^\s+all\s+([0-9.]+) (\w+)$", finished.stdout, re.MULTILINE)
    if not total:
        raise StepFailed("tessera-train --dry-run prints no sum of memory")
    return float(total.group(1)) * SIZES[total.group(2)]


def layers_that_fit(context):
    if context.rehearsal:
        return FIRST_LAYERS + 1
    machine = context.results.get("machine", {})
    memory = (machine.get("memory_bytes") or 0) - machine.get("memory_used_bytes", 0)
    if memory <= 0:
        raise StepFailed("how much memory the GPU has is not known: nvidia-smi did not say it")
    one, three = planned_bytes(context, 1), planned_bytes(context, 3)
    fitting = int(1 + (MEMORY_SHARE * memory - one) / ((three - one) / 2))
    if fitting < 1:
        raise StepFailed(f"one layer needs {one / 2**30:.1f} GiB, more than {MEMORY_SHARE:.0%} of the "
                         f"{memory / 2**30:.1f} GiB that are free")
    return min(fitting, MOST_LAYERS)


def share(value, whole):
    return value / whole if whole else None


def random_loss(shape):
    """Returns the expected cross entropy of the initial model. Its logits are normally distributed: products of rows of
    norm sqrt(hidden) with a head of standard deviation initializer_range."""
    return math.log(shape["vocab_size"]) + shape["hidden_size"] * shape["initializer_range"] ** 2 / 2


def results_of(context, run, flops):
    steps, lines, end_page = run
    timed = steps[WARM_UP:]
    step_s = statistics.median(step["step_s"] for step in timed)
    tokens_per_s = steps[-1]["tokens"] / step_s
    peak = context.results.get("machine", {}).get("peak_tflops")
    square = context.results.get("grouped_torch", {}).get("square_tflops")
    loads = [line["expert_load_max_over_mean"] for line in lines if line["kind"] == "load"]
    result = {"tokens_a_step": steps[-1]["tokens"], "steps": len(steps), "step_s": step_s,
              "step_s_least": min(step["step_s"] for step in timed), "step_s_most": max(step["step_s"] for step in timed),
              "tokens_per_s": tokens_per_s, "peak_tflops": peak, "square_tflops": square, **flops,
              "first_loss": steps[0]["ce_loss"], "last_loss": steps[-1]["ce_loss"],
              "expert_load_max_over_mean": statistics.fmean(loads[-1]) if loads else None,
              "end_page": end_page.splitlines()[-30:]}
    for convention in ("products", "six_n"):
        tflops = tokens_per_s * flops[f"{convention}_flop_per_token"] / 1e12
        result |= {f"{convention}_tflops": tflops, f"{convention}_mfu": share(tflops, peak),
                   f"{convention}_of_square": share(tflops, square)}
    return result


def measured(context, layers):
    shape, settings = settings_of(context, layers)
    run = context.train("stack", settings)
    flops = json_of(context.call_ours("bench_flops", settings), "bench_flops")
    return {**results_of(context, run, flops), "shape": shape, "expected_first_loss": random_loss(shape)}


def measure(context):
    """Returns the results for the most layers that fit; if a run with more layers fails, tries fewer and says why."""
    results, failure, refused = measured(context, FIRST_LAYERS), "", []
    try:
        layers = layers_that_fit(context)
    except StepFailed as failed:
        raise StepFailed(str(failed), results) from None
    while layers > FIRST_LAYERS and context.left() > LEAST_RUN_S:
        try:
            results, failure = measured(context, layers), ""
            break
        except StepFailed as failed:
            failure = f"{layers} layers: {failed}"
            refused.append({"layers": layers, "reason": str(failed)})
            layers -= max(1, layers // 5)
    results |= {"refused": refused, "first_loss_bar": FIRST_LOSS_BAR}
    if not failure and not abs(results["first_loss"] - results["expected_first_loss"]) <= FIRST_LOSS_BAR:
        failure = f"the first cross entropy is {results['first_loss']:.3f}; that of random logits is {results['expected_first_loss']:.3f}"
    if failure:
        raise StepFailed(failure, results)
    return results
