#!/usr/bin/env python3
"""Makes the readable page device_check.md from device_check.json:    page.py device_check.json > device_check.md"""
import json
import sys

PRODUCTS = [("forward", "forward"), ("to_rows", "back to rows"), ("to_weights", "to weights")]


def number(value, form, absent="-"):
    return absent if value is None else form.format(value)


def percent(value):
    return number(value, "{:.1%}")


def table(rows):
    """Returns the lines of a Markdown table; the first row is its header."""
    lines = ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |" for cells in rows]
    return [lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]]


def first_line(text):
    return text.strip().splitlines()[0] if text.strip() else ""


# ---- parts of the page; each takes the results of all steps, by name, and returns lines


def machine(results):
    found = results.get("machine")
    if not found:
        return []
    memory = found.get("memory_bytes")
    rows = [("GPU", found.get("gpu") or "none"),
            ("compute capability", found.get("compute_capability") or "-"),
            ("memory of the GPU", "-" if memory is None else f"{memory / 2**30:.1f} GiB"),
            ("driver", f"{found.get('driver') or '-'} (for CUDA up to {found.get('driver_cuda') or '-'})"),
            ("torch", f"{found.get('torch') or '-'} (CUDA {found.get('torch_cuda') or '-'})"),
            ("power limit, greatest clock", f"{found.get('power_limit_w', '-')} W, {found.get('max_sm_mhz', '-')} MHz"),
            ("peak by its maker, dense bfloat16", number(found.get("peak_tflops"), "{:.1f} TFLOP/s", "not in our table")),
            ("processor", f"{found.get('processor')}, {found.get('cores')} cores"),
            ("kernel, C library", f"{found.get('kernel')}, {found.get('libc')}")]
    return ["## Machine", *table([("", ""), *rows])]


def checks(steps):
    rows = [("step", "what it does", "result", "seconds", "limit")]
    for step in steps:
        rows.append((step["name"], step["what"], step["status"], number(step.get("seconds"), "{:.1f}"),
                     f"{step['limit_s']:.0f} s"))
    lines = ["## Checks", *table(rows)]
    for step in steps:
        if step["reason"]:
            lines += ["", f"**{step['name']}** {step['status']}:", "```", *step["reason"].splitlines(), "```"]
    return lines


def gpu_tests(results):
    tests = results.get("gpu_tests", {}).get("tests")
    if not tests:
        return []
    return ["## Tests labelled gpu", *table([("program", "result", "seconds"),
                                             *((t["program"], t["state"], f"{t['seconds']:.1f}") for t in tests)])]


def demo(results, device):
    runs = [(title, results[name]) for title, name in (("CPU, float32", "demo_cpu"), (f"{device}, float32", "demo_float32"),
                                                       (f"{device}, bfloat16", "demo_bfloat16")) if results.get(name)]
    if not runs:
        return []
    rows = [("run", "tokens/s", "first loss", "last loss", "largest difference: early", "bar", "of all steps", "bar")]
    for title, run in runs:
        rows.append((title, f"{run['tokens_per_s']:.0f}", f"{run['losses'][0]:.5f}", f"{run['losses'][-1]:.5f}",
                     number(run.get("largest_early"), "{:.1e}"), number(run.get("early_bar"), "{:g}"),
                     number(run.get("largest"), "{:.1e}"), number(run.get("bar"), "{:g}")))
    return ["## The demo against the CPU",
            "`scripts/demo/config.json` on the C++ sources of `lib/`; loss is the cross entropy of a step in nats, a difference "
            "is |loss - the CPU's| / the CPU's; early are the first 10 steps. So small a model shows whether the numbers are right, not how fast the GPU is.",
            "", *table(rows)]


def stack(results):
    found = results.get("stack")
    if not found or "tokens_per_s" not in found:
        return []
    shape = found["shape"]
    lines = ["## Layers shaped as Qwen3-30B-A3B's",
             f"{found['layers']} layers (the whole model has 48): hidden {shape['hidden_size']}, {shape['num_experts']} experts "
             f"of {shape['moe_intermediate_size']}, {shape['num_experts_per_tok']} for each token, "
             f"{shape['num_attention_heads']} heads of {shape['head_dim']} over {shape['num_key_value_heads']} key heads, "
             f"vocabulary {shape['vocab_size']}; {found['parameters'] / 1e9:.3g} billion parameters, "
             f"{found['active_parameters'] / 1e9:.3g} billion active. A step is {found['tokens_a_step']} random tokens in "
             f"sequences of {found['sequence']}, one micro-step, with AdamW's update; bfloat16 with float32 masters, no "
             "recomputation.", ""]
    step = f"{found['step_s']:.4f} ({found['step_s_least']:.4f} to {found['step_s_most']:.4f})"
    rows = [("", ""), ("tokens/s", f"{found['tokens_per_s']:.0f}"),
            (f"step, s: median of {found['steps'] - 3} (least to greatest)", step),
            ("first and last loss", f"{found['first_loss']:.3f} (random logits: {found['expected_first_loss']:.3f}), "
                                    f"{found['last_loss']:.3f}"),
            ("busiest expert / mean", number(found.get("expert_load_max_over_mean"), "{:.2f}"))]
    lines += table(rows)
    flops = [("floating-point operations counted", "GFLOP a token", "TFLOP/s", "MFU: of the peak", "of the dense product")]
    for title, key in (("products, causal attention halved", "products"), ("6N + 12 L H T, attention whole", "six_n")):
        flops.append((title, f"{found[f'{key}_flop_per_token'] / 1e9:.3f}", f"{found[f'{key}_tflops']:.1f}",
                      percent(found.get(f"{key}_mfu")), percent(found.get(f"{key}_of_square"))))
    lines += ["", *table(flops), "",
              "A multiply-add counts 2, backward twice the forward; the work of a recomputation would not count. The first way "
              "sums the products of `lib/architecture/cost.cpp`: projections, attention over the lower triangle, router, the "
              "chosen experts, head; the embedding's lookup is none. The second is 6 x the active parameters without the "
              "embedding's table (the head counts), and 12 x layers x (heads x head_dim) x sequence for attention over the whole "
              "square. *The dense product* is torch's square one, measured on this machine."
              + ("" if found.get("peak_tflops") else " There is no peak of this GPU in our table, so no MFU is given.")]
    if found.get("refused"):
        lines += ["", "Tried before, and ended: " + "; ".join(f"{r['layers']} layers ({first_line(r['reason'])})"
                                                               for r in found["refused"]) + "."]
    if found.get("end_page"):
        lines += ["", "The end of its log:", "```", *found["end_page"], "```"]
    return lines


def tflops(sizes, seconds):
    return 2e-12 * sizes["rows"] * sizes["inner"] * sizes["outer"] / seconds


def grouped(results):
    ours, torch = results.get("grouped_ours"), results.get("grouped_torch")
    if not ours:
        return []
    others = {case["name"]: case["torch_s"] for case in torch["cases"]} if torch else {}
    rows = [("rows of the experts", "product", "ours", "torch._grouped_mm", "torch / ours in time", "ours / one dense product")]
    for case in ours["cases"]:
        for key, title in PRODUCTS:
            mine, dense = case["ours_s"][key], ours["dense_s"][key]
            other = others.get(case["name"], {}).get(key)
            rows.append((case["name"], title, f"{tflops(ours, mine):.4g}", "-" if other is None else f"{tflops(ours, other):.4g}",
                         "-" if other is None else f"{other / mine:.2f}", f"{dense / mine:.2f}"))
    lines = ["## Grouped products",
             f"{ours['groups']} experts, {ours['rows']} rows, {ours['inner']} to {ours['outer']}, bfloat16, by {ours['path']}; "
             "TFLOP/s. *Ours* includes what the model needs around the product (the ends of the groups, results put where they "
             "belong, the gradient's sum in float32); torch's is the product alone. *One dense product* has as many operations "
             "and one weight.", "", *table(rows), "",
             "Dense, TFLOP/s: " + ", ".join(f"{title} {tflops(ours, ours['dense_s'][key]):.4g} (LibTorch)"
                                            + (f" and {tflops(ours, torch['dense_s'][key]):.4g} (torch)" if torch else "")
                                            for key, title in PRODUCTS) + "."]
    if torch and "square_tflops" in torch:
        lines += ["", f"A square product of {torch['square']} by torch: {torch['square_tflops']:.1f} TFLOP/s."]
    return lines


def make_page(report):
    results = {step["name"]: step["results"] for step in report["steps"]}
    name = results.get("machine", {}).get("gpu")
    title = "Rehearsal on the CPU: no figure here is a GPU's" if report["rehearsal"] else f"Device check: {name or 'GPU not read'}"
    passed = [step["name"] for step in report["steps"] if step["status"] == "passed"]
    head = [f"# {title}", "",
            f"{report['date']}, commit {report['commit']}; `{report['command']}`; {report['seconds']:.0f} s of "
            f"{report['budget_s']:.0f} s. {len(passed)} of {len(report['steps'])} steps passed"
            + (": all." if report["passed"] else "; see Checks.")]
    parts = [head, machine(results), checks(report["steps"]), gpu_tests(results),
             demo(results, "CPU for the GPU" if report["rehearsal"] else "GPU"), stack(results), grouped(results)]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write(make_page(json.load(file)))


if __name__ == "__main__":
    main()
