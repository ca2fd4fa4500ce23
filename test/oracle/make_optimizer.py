#!/usr/bin/env python3
"""Makes test/oracle/optimizer.json: three steps of torch.optim.AdamW and torch.optim.SGD with clipping.

Each case has the settings, and per parameter the first value, the gradient of each step, and the value after each step,
flat. Parameters of one dim are in a group without weight decay. Gradients are clipped by torch.nn.utils.clip_grad_norm_.

Run with torch 2.11:  python test/oracle/make_optimizer.py
"""
import json
import pathlib

import torch

SHAPES = {"matrix": (5, 7), "stack": (3, 2, 5), "norm": (7,)}
STEPS = 3
CASES = {
    "adamw": dict(type="adamw", dtype="float32", lr=3e-2, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.1, momentum=0.0, max_grad_norm=1.0),
    "adamw_float64": dict(type="adamw", dtype="float64", lr=3e-2, betas=[0.8, 0.99], eps=1e-6, weight_decay=0.2, momentum=0.0, max_grad_norm=1.0),
    "adamw_not_clipped": dict(type="adamw", dtype="float32", lr=1e-2, betas=[0.9, 0.999], eps=1e-8, weight_decay=0.0, momentum=0.0, max_grad_norm=1e9),
    "sgd_momentum": dict(type="sgd", dtype="float32", lr=1e-1, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.1, momentum=0.9, max_grad_norm=2.0),
    "sgd_float64": dict(type="sgd", dtype="float64", lr=1e-1, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.1, momentum=0.9, max_grad_norm=2.0),
    "sgd_plain": dict(type="sgd", dtype="float32", lr=1e-1, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.0, momentum=0.0, max_grad_norm=2.0),
}


def flat(tensor):
    return [float(x) for x in tensor.detach().reshape(-1)]


def run(case, seed):
    generator = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, case["dtype"])
    draw = lambda shape: torch.randn(shape, generator=generator, dtype=torch.float32).to(dtype)
    parameters = {name: torch.nn.Parameter(draw(shape)) for name, shape in SHAPES.items()}
    groups = [
        {"params": [p for p in parameters.values() if p.dim() > 1], "weight_decay": case["weight_decay"]},
        {"params": [p for p in parameters.values() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if case["type"] == "adamw":
        optimizer = torch.optim.AdamW(groups, lr=case["lr"], betas=tuple(case["betas"]), eps=case["eps"])
    else:
        optimizer = torch.optim.SGD(groups, lr=case["lr"], momentum=case["momentum"])
    result = {name: {"shape": list(SHAPES[name]), "first": flat(p), "gradients": [], "values": []} for name, p in parameters.items()}
    norms = []
    for _ in range(STEPS):
        for name, p in parameters.items():
            p.grad = draw(SHAPES[name])
            result[name]["gradients"].append(flat(p.grad))
        norms.append(float(torch.nn.utils.clip_grad_norm_(parameters.values(), case["max_grad_norm"])))
        optimizer.step()
        for name, p in parameters.items():
            result[name]["values"].append(flat(p))
    return {"settings": case, "norms": norms, "parameters": result}


def main():
    path = pathlib.Path(__file__).parent / "optimizer.json"
    cases = {name: run(case, seed) for seed, (name, case) in enumerate(CASES.items())}
    path.write_text(json.dumps(cases, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
