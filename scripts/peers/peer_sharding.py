"""Distributes the PyTorch side over ranks: FSDP2 (fully_shard) and expert parallelism, on gloo, float32.

Rank = place in the expert FSDP group * ep + place in the expert group, so an expert group is adjacent ranks. With ep > 1
the experts are cut over ep on dim 0 and, by FSDP, over the ranks with the same experts on dim 1; all other parameters (with
ep 1 the experts too) by FSDP over all ranks on dim 0. Gradients are plain sums.

What makes FSDP2 fastest on gloo: gathered layers are kept until their backward, explicit prefetch, a reduce-scatter by
all-to-all and a sum (gloo's own takes ten times as long), one group per layer, AdamW over the local tensors.
"""
import torch
import torch.distributed as dist
from safetensors import safe_open
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter
from torch.distributed.tensor import DTensor, Shard


class Layout:
    """The groups of this rank; without torch.distributed, one rank."""

    def __init__(self, ep):
        self.ep, self.ranks, self.rank = ep, 1, 0
        self.all_ranks = self.expert_fsdp = self.expert_group = None
        self.expert_rank = 0
        if not dist.is_initialized():
            return
        self.ranks, self.rank = dist.get_world_size(), dist.get_rank()
        self.all_ranks = self.expert_fsdp = init_device_mesh("cpu", (self.ranks,), mesh_dim_names=("fsdp",))
        if ep > 1:
            grid = init_device_mesh("cpu", (self.ranks // ep, ep), mesh_dim_names=("expert_fsdp", "ep"))
            self.expert_fsdp, self.expert_group = grid["expert_fsdp"], grid["ep"].get_group()
            self.expert_rank = grid["ep"].get_local_rank()


class SumOfAllToAll(ReduceScatter):
    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        parts = torch.empty_like(input_tensor)
        dist.all_to_all_single(parts, input_tensor, group=group)
        torch.sum(parts.view(dist.get_world_size(group), -1), 0, out=output_tensor)


def keep_own_experts(model, layout):
    """Cuts the stacks of each layer to this rank's experts, on the meta device, before memory is allocated."""
    for layer in model.model.layers:
        experts = layer.mlp.experts
        for name in ("gate_up_proj", "down_proj"):
            whole = getattr(experts, name)
            shape = (whole.shape[0] // layout.ep, *whole.shape[1:])
            setattr(experts, name, nn.Parameter(torch.empty(shape, device="meta")))
        layer.mlp.expert_group = layout.expert_group


def shard(model, layout):
    base, layers = model.model, list(model.model.layers)
    keep, drop = dict(reshard_after_forward=False), set()
    if layout.ep == layout.ranks:
        drop = {p for layer in layers for p in layer.mlp.experts.parameters()}  # each expert is on one rank, whole
    elif layout.ep > 1:
        for layer in layers:
            fully_shard(layer.mlp.experts, mesh=layout.expert_fsdp, shard_placement_fn=lambda _: Shard(1), **keep)
    fully_shard(base.embed_tokens, mesh=layout.all_ranks, **keep)
    for layer in layers:
        fully_shard(layer, mesh=layout.all_ranks, ignored_params=drop, **keep)
    fully_shard([base.norm, model.lm_head], mesh=layout.all_ranks, **keep)
    fully_shard(model, mesh=layout.all_ranks, ignored_params=drop, **keep)

    for module in (m for m in model.modules() if isinstance(m, FSDPModule)):
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)  # gloo has no other
        if module._get_fsdp_state()._fsdp_param_group is not None:
            module.set_custom_reduce_scatter(SumOfAllToAll())
    prefetch(base, [[m for m in (layer, layer.mlp.experts) if isinstance(m, FSDPModule)] for layer in layers])


def prefetch(base, units):
    """`units` are the FSDP modules of each layer."""
    base.embed_tokens.set_modules_to_forward_prefetch(units[0])
    for unit, following in zip(units, units[1:] + [[base.norm]]):
        unit[0].set_modules_to_forward_prefetch(following)
        following[0].set_modules_to_backward_prefetch(unit[::-1])


def load(model, folder, layout):
    """Loads this rank's part of each parameter from HuggingFace's file."""
    with safe_open(folder / "model.safetensors", "pt") as file, torch.no_grad():
        for name, parameter in model.named_parameters():
            whole = own_experts(file, name, parameter, layout) if ".mlp.experts." in name else file.get_tensor(name)
            if isinstance(parameter, DTensor):
                mesh, (placement,) = parameter.device_mesh, parameter.placements
                whole = torch.chunk(whole, mesh.size(), placement.dim)[mesh.get_local_rank()]
                parameter = parameter.to_local()
            parameter.copy_(whole)


def own_experts(file, name, parameter, layout):
    """Reads a stack of experts from the file, which has one tensor per expert and projection."""
    stem, kind = name.rsplit(".", 1)
    projections = ["gate_proj", "up_proj"] if kind == "gate_up_proj" else ["down_proj"]
    first = layout.expert_rank * parameter.shape[0]
    return torch.stack([torch.cat([file.get_tensor(f"{stem}.{expert}.{p}.weight") for p in projections])
                        for expert in range(first, first + parameter.shape[0])])


class LocalAdamW:
    """Fused AdamW over the local tensors of all parameters, whatever their mesh."""

    def __init__(self, parameters, **options):
        self._pairs = [(p, nn.Parameter(_local(p.detach()))) for p in parameters]
        self._optimizer = torch.optim.AdamW([local for _, local in self._pairs], fused=True, **options)

    def step(self):
        for parameter, local in self._pairs:
            local.grad = None if parameter.grad is None else _local(parameter.grad)
        self._optimizer.step()
        for parameter, local in self._pairs:
            parameter.grad = local.grad = None


def _local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
