"""Parts of HuggingFace's Qwen3-MoE in the form in which PyTorch runs them fastest on a CPU core."""
import torch
import torch.nn.functional as F
from torch.autograd import Function


class RoutedExperts(Function):
    """All experts of a layer and the weighted sum over a token's slots, as one node of the graph.

    x [tokens, hidden], weight [tokens, k], slot [tokens * k] (positions in the flat choice, sorted by expert), counts per
    expert, gate_up [experts, 2 * inner, hidden], down [experts, hidden, inner]. An expert's rows go through all of its
    products before the next expert's, so that they are still in the cache.
    """

    @staticmethod
    def forward(ctx, x, weight, slot, counts, gate_up, down):
        k = weight.shape[1]
        place = torch.empty_like(slot)
        place[slot] = torch.arange(slot.numel())
        rows = x.index_select(0, slot // k)
        hidden = x.new_empty(rows.shape[0], gate_up.shape[1])
        out = torch.empty_like(rows)
        for expert, part in _parts(counts):
            torch.mm(rows[part], gate_up[expert].t(), out=hidden[part])
            gate, up = hidden[part].chunk(2, dim=1)
            torch.mm(F.silu(gate).mul_(up), down[expert].t(), out=out[part])
        by_token = out.index_select(0, place).view(*weight.shape, -1)
        ctx.save_for_backward(rows, hidden, by_token, weight, slot, place, gate_up, down)
        ctx.counts = counts
        return torch.bmm(weight.unsqueeze(1), by_token).squeeze(1)

    @staticmethod
    def backward(ctx, d):
        rows, hidden, by_token, weight, slot, place, gate_up, down = ctx.saved_tensors
        tokens, k = weight.shape
        d_weight = torch.bmm(by_token, d.unsqueeze(2)).squeeze(2)
        d_rows = torch.empty_like(rows)
        d_gate_up, d_down = torch.zeros_like(gate_up), torch.zeros_like(down)
        slot_weight = weight.reshape(-1, 1).index_select(0, slot)
        token = slot // k
        for expert, part in _parts(ctx.counts):
            gate, up = hidden[part].chunk(2, dim=1)
            d_out = d.index_select(0, token[part]).mul_(slot_weight[part])
            silu = F.silu(gate)
            torch.mm(d_out.t(), silu * up, out=d_down[expert])
            d_inner = torch.mm(d_out, down[expert])
            d_hidden = torch.empty_like(hidden[part])
            d_gate, d_up = d_hidden.chunk(2, dim=1)
            torch.mul(d_inner, silu, out=d_up)
            d_gate.copy_(torch.ops.aten.silu_backward(d_inner.mul_(up), gate))
            torch.mm(d_hidden, gate_up[expert], out=d_rows[part])
            torch.mm(d_hidden.t(), rows[part], out=d_gate_up[expert])
        d_x = d_rows.index_select(0, place).view(tokens, k, -1).sum(1)
        return d_x, d_weight, None, None, d_gate_up, d_down


def _parts(counts):
    begin = 0
    for expert, count in enumerate(counts):
        if count:
            yield expert, slice(begin, begin + count)
        begin += count


class HeadLoss(Function):
    """Head product and mean cross entropy over chunks of rows; gradients are formed in forward, logits never exist whole."""

    CHUNK = 512

    @staticmethod
    def forward(ctx, x, head, labels):
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
        ctx.rows = labels.numel()
        return (total / labels.numel()).to(x.dtype)

    @staticmethod
    def backward(ctx, d):
        d_x, d_head = ctx.saved_tensors
        return d_x.mul_(d / ctx.rows), d_head.mul_(d / ctx.rows), None


def moe_forward(block, x):
    """In place of Qwen3MoeSparseMoeBlock.forward."""
    flat = x.reshape(-1, x.shape[-1])
    _, weight, choice = block.gate(flat)
    choice = choice.reshape(-1)
    experts = block.experts
    counts = torch.bincount(choice, minlength=experts.gate_up_proj.shape[0]).tolist()
    slot = torch.argsort(choice, stable=True)
    return RoutedExperts.apply(flat, weight, slot, counts, experts.gate_up_proj, experts.down_proj).view_as(x)


def norm_forward(norm, x):
    """In place of Qwen3MoeRMSNorm.forward, which takes six passes."""
    return F.rms_norm(x, (x.shape[-1],), norm.weight, norm.variance_epsilon)
