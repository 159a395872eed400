# what: one query row a program, slopes and causal mask from indices
# task: alibi_scores

import torch
import triton
import triton.language as tl


@triton.jit
def alibi_kernel(q, k, v, y, heads, tokens, width, scale, T: tl.constexpr, D: tl.constexpr):
    head, row = tl.program_id(0).to(tl.int64), tl.program_id(1)
    t, d = tl.arange(0, T), tl.arange(0, D)
    seen = (t <= row)[:, None] & (d < width)
    place = head * tokens * width + t[:, None] * width + d
    query = tl.load(q + (head * tokens + row) * width + d, d < width, 0.0)
    scores = tl.sum(tl.load(k + place, seen, 0.0) * query[None, :], 1) * scale
    slope = tl.exp2(-8.0 * ((head % heads) + 1).to(tl.float32) / heads)
    scores = tl.where(t <= row, scores + slope * (t - row).to(tl.float32), float("-inf"))
    weights = tl.exp(scores - tl.max(scores))
    total = tl.sum(weights[:, None] * tl.load(v + place, seen, 0.0), 0) / tl.sum(weights)
    tl.store(y + (head * tokens + row) * width + d, total, d < width)


def fused_operator(q, k, v):
    if not q.shape == k.shape == v.shape:
        raise ValueError("queries, keys and values of one shape are needed")
    batch, heads, tokens, width = q.shape
    y = torch.empty(q.shape, device=q.device)
    T, D = triton.next_power_of_2(tokens), triton.next_power_of_2(width)
    alibi_kernel[(batch * heads, tokens)](
        q.contiguous(),
        k.contiguous(),
        v.contiguous(),
        y,
        heads,
        tokens,
        width,
        width**-0.5,
        T=T,
        D=D,
    )
    return [y]
