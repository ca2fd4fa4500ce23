"""Parts of HuggingFace's Qwen3-MoE in the form in which PyTorch runs them fastest on a CPU core."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.autograd import Function


def _parts(counts):
    """Yields (expert, slice of its rows) for each expert that has rows; rows are sorted by expert."""
    begin = 0
    for expert, count in enumerate(counts):
        if count:
            yield expert, slice(begin, begin + count)
        begin += count


def _run_experts(rows, counts, gate_up, down):
    """Returns (gate and up before the activation, outputs). gate_up is [experts, 2 * inner, hidden], down [experts,
    hidden, inner].

    Computes all products of one expert before those of the next, so that its rows are still in the cache.
    """
    hidden = rows.new_empty(rows.shape[0], gate_up.shape[1])
    out = torch.empty_like(rows)
    for expert, part in _parts(counts):
        torch.mm(rows[part], gate_up[expert].t(), out=hidden[part])
        gate, up = hidden[part].chunk(2, dim=1)
        torch.mm(F.silu(gate).mul_(up), down[expert].t(), out=out[part])
    return hidden, out


def _run_experts_backward(d_out_of, rows, hidden, counts, gate_up, down):
    """Returns (d_rows, d_gate_up, d_down); d_out_of(part) returns the gradient of the outputs of these rows."""
    d_rows = torch.empty_like(rows)
    d_gate_up, d_down = torch.zeros_like(gate_up), torch.zeros_like(down)
    for expert, part in _parts(counts):
        gate, up = hidden[part].chunk(2, dim=1)
        d_out = d_out_of(part)
        silu = F.silu(gate)
        torch.mm(d_out.t(), silu * up, out=d_down[expert])
        d_inner = torch.mm(d_out, down[expert])
        d_hidden = torch.empty_like(hidden[part])
        d_gate, d_up = d_hidden.chunk(2, dim=1)
        torch.mul(d_inner, silu, out=d_up)
        d_gate.copy_(torch.ops.aten.silu_backward(d_inner.mul_(up), gate))
        torch.mm(d_hidden, gate_up[expert], out=d_rows[part])
        torch.mm(d_hidden.t(), rows[part], out=d_gate_up[expert])
    return d_rows, d_gate_up, d_down


def _inverse(order):
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel())
    return place


# ---- experts of a single rank


class RoutedExperts(Function):
    """All experts of a layer and the weighted sum over a token's slots, as one node of the graph.

    x [tokens, hidden], weight [tokens, k], slot [tokens * k] (positions in the flat choice, sorted by expert), counts per
    expert.
    """

    @staticmethod
    def forward(ctx, x, weight, slot, counts, gate_up, down):
        place = _inverse(slot)
        rows = x.index_select(0, slot // weight.shape[1])
        hidden, out = _run_experts(rows, counts, gate_up, down)
        by_token = out.index_select(0, place).view(*weight.shape, -1)
        ctx.save_for_backward(rows, hidden, by_token, weight, slot, place, gate_up, down)
        ctx.counts = counts
        return torch.bmm(weight.unsqueeze(1), by_token).squeeze(1)

    @staticmethod
    def backward(ctx, d):
        rows, hidden, by_token, weight, slot, place, gate_up, down = ctx.saved_tensors
        tokens, k = weight.shape
        d_weight = torch.bmm(by_token, d.unsqueeze(2)).squeeze(2)
        slot_weight = weight.reshape(-1, 1).index_select(0, slot)
        token = slot // k
        d_rows, d_gate_up, d_down = _run_experts_backward(
            lambda part: d.index_select(0, token[part]).mul_(slot_weight[part]), rows, hidden, ctx.counts, gate_up, down)
        d_x = d_rows.index_select(0, place).view(tokens, k, -1).sum(1)
        return d_x, d_weight, None, None, d_gate_up, d_down


# ---- experts of several ranks: rows go to the owners of their experts, and back


class SlotRows(Function):
    """Copies a token's row for each of its slots, in the order of `slot`."""

    @staticmethod
    def forward(ctx, x, slot, place, k):
        ctx.save_for_backward(place)
        ctx.k = k
        return x.index_select(0, slot // k)

    @staticmethod
    def backward(ctx, d):
        (place,) = ctx.saved_tensors
        return d.index_select(0, place).view(-1, ctx.k, d.shape[1]).sum(1), None, None, None


class AllToAll(Function):
    """Sends sent[r] rows to rank r of the group and receives received[r] rows from it; gradients go the reverse way."""

    @staticmethod
    def forward(ctx, rows, sent, received, group):
        ctx.arguments = received, sent, group
        return _exchange(rows, sent, received, group)

    @staticmethod
    def backward(ctx, d):
        return _exchange(d.contiguous(), *ctx.arguments), None, None, None


def _exchange(rows, sent, received, group):
    out = rows.new_empty(sum(received), rows.shape[1])
    dist.all_to_all_single(out, rows, received, sent, group=group)
    return out


class ExpertRows(Function):
    """Runs the experts on rows in any order: `order` sorts them by expert; the outputs have the order of the rows."""

    @staticmethod
    def forward(ctx, x, order, counts, gate_up, down):
        rows = x.index_select(0, order)
        hidden, out = _run_experts(rows, counts, gate_up, down)
        place = _inverse(order)
        ctx.save_for_backward(rows, hidden, order, place, gate_up, down)
        ctx.counts = counts
        return out.index_select(0, place)

    @staticmethod
    def backward(ctx, d):
        rows, hidden, order, place, gate_up, down = ctx.saved_tensors
        d_rows, d_gate_up, d_down = _run_experts_backward(
            lambda part: d.index_select(0, order[part]), rows, hidden, ctx.counts, gate_up, down)
        return d_rows.index_select(0, place), None, None, d_gate_up, d_down


class WeightedSum(Function):
    """Sums the slots of each token, each times its weight; out is [slots, hidden] in the order of `slot`."""

    @staticmethod
    def forward(ctx, out, weight, slot, place):
        by_token = out.index_select(0, place).view(*weight.shape, -1)
        ctx.save_for_backward(by_token, weight, slot)
        return torch.bmm(weight.unsqueeze(1), by_token).squeeze(1)

    @staticmethod
    def backward(ctx, d):
        by_token, weight, slot = ctx.saved_tensors
        d_weight = torch.bmm(by_token, d.unsqueeze(2)).squeeze(2)
        d_out = d.index_select(0, slot // weight.shape[1]).mul_(weight.reshape(-1, 1).index_select(0, slot))
        return d_out, d_weight, None, None


def experts_forward(experts, run, *arguments):
    """Replaces Qwen3MoeExperts.forward, so that FSDP sees the call that needs its parameters."""
    return run(*arguments, experts.gate_up_proj, experts.down_proj)


def moe_forward(block, x):
    """Replaces Qwen3MoeSparseMoeBlock.forward. block.experts has the experts of this rank of block.expert_group."""
    flat = x.reshape(-1, x.shape[-1])
    _, weight, choice = block.gate(flat)
    slot = torch.argsort(choice.reshape(-1), stable=True)
    counts = torch.bincount(choice.reshape(-1), minlength=block.gate.weight.shape[0])
    if block.expert_group is None:
        return block.experts(RoutedExperts.apply, flat, weight, slot, counts.tolist()).view_as(x)

    group, ranks = block.expert_group, dist.get_world_size(block.expert_group)
    of_sources = torch.empty_like(counts)
    dist.all_to_all_single(of_sources, counts, group=group)
    of_sources = of_sources.view(ranks, -1)
    sent, received = counts.view(ranks, -1).sum(1).tolist(), of_sources.sum(1).tolist()
    local = of_sources.shape[1]
    expert_of_row = torch.repeat_interleave(torch.arange(local).repeat(ranks), of_sources.reshape(-1))
    order = torch.argsort(expert_of_row, stable=True)

    place = _inverse(slot)
    rows = AllToAll.apply(SlotRows.apply(flat, slot, place, weight.shape[1]), sent, received, group)
    out = block.experts(ExpertRows.apply, rows, order, of_sources.sum(0).tolist())
    out = AllToAll.apply(out, received, sent, group)
    return WeightedSum.apply(out, weight, slot, place).view_as(x)


# ---- loss, norms


class HeadLoss(Function):
    """Head product and cross entropy over chunks of rows; gradients are formed in forward, logits never exist whole.

    The sum over the rows, divided by `divisor`.
    """

    CHUNK = 512

    @staticmethod
    def forward(ctx, x, head, labels, divisor):
        d_x, d_head = torch.empty_like(x), torch.zeros_like(head)
        total = torch.zeros((), dtype=torch.float64)
        for rows, target, d_rows in zip(*(t.split(HeadLoss.CHUNK) for t in (x, labels, d_x))):
            logits = rows @ head.t()
            normaliser = logits.logsumexp(1, keepdim=True)
            target = target.unsqueeze(1)
            total += (normaliser - logits.gather(1, target)).sum(dtype=torch.float64)
            d_logits = logits.sub_(normaliser).exp_()
            d_logits.scatter_add_(1, target, torch.full_like(normaliser, -1.0))
            torch.mm(d_logits, head, out=d_rows)
            d_head.addmm_(d_logits.t(), rows)
        ctx.save_for_backward(d_x, d_head)
        ctx.divisor = divisor
        return (total / divisor).to(x.dtype)

    @staticmethod
    def backward(ctx, d):
        d_x, d_head = ctx.saved_tensors
        return d_x.mul_(d / ctx.divisor), d_head.mul_(d / ctx.divisor), None, None


def head_forward(head, x, labels, divisor):
    """Replaces the head's forward."""
    return HeadLoss.apply(x.flatten(0, 1), head.weight, labels.flatten(), divisor)


def model_forward(model, ids, labels, divisor):
    """Replaces Qwen3MoeForCausalLM.forward; returns the sum of these tokens' cross entropies / divisor."""
    return model.lm_head(model.model(input_ids=ids, use_cache=False).last_hidden_state, labels, divisor)


def norm_forward(norm, x):
    """Replaces Qwen3MoeRMSNorm.forward, which takes six passes."""
    return F.rms_norm(x, (x.shape[-1],), norm.weight, norm.variance_epsilon)
