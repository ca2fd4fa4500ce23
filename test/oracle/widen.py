"""HuggingFace's Qwen3-MoE with its casts to float32 widened to float64.

The router's softmax, RMSNorm, the eager attention's softmax, the rotary tables, the balance loss and the cross entropy
compute in float32 whatever the model's type. For the float64 fixtures the same source is loaded a second time with
those casts replaced; nothing else of it changes.
"""

import importlib.util
import inspect
import re
import sys
import types

import transformers.loss.loss_utils as loss_utils
import transformers.models.qwen3_moe.modeling_qwen3_moe as modeling

CASTS = [
    (r"torch\.float32\b", "torch.float64"),
    (r"torch\.float\b", "torch.float64"),
    (r"\.float\(\)", ".double()"),
]


def widened_source(module):
    """The module's source, and how many casts were replaced."""
    source = inspect.getsource(module)
    replaced = 0
    for pattern, wide in CASTS:
        source, count = re.subn(pattern, wide, source)
        replaced += count
    return source, replaced


def load_widened(module, expected_casts):
    """A copy of `module` from its widened source; fails if another version of it has other casts."""
    source, replaced = widened_source(module)
    if replaced != expected_casts:
        raise SystemExit(f"{module.__name__}: {replaced} casts to float32, expected {expected_casts}: read its source again")
    name = module.__name__ + "_float64"
    copy = types.ModuleType(name)
    copy.__spec__ = importlib.util.spec_from_loader(name, loader=None)
    copy.__file__ = module.__file__
    copy.__package__ = module.__package__
    sys.modules[name] = copy
    exec(compile(source, module.__file__, "exec"), copy.__dict__)
    return copy


def float64_model_class():
    """Qwen3MoeForCausalLM of the widened source, with the widened loss."""
    wide_modeling = load_widened(modeling, expected_casts=13)
    wide_loss = load_widened(loss_utils, expected_casts=3)

    class Float64Qwen3Moe(wide_modeling.Qwen3MoeForCausalLM):
        @property
        def loss_function(self):
            return wide_loss.ForCausalLMLoss

    return Float64Qwen3Moe, wide_modeling, wide_loss
