# what: a compensated sum carried over blocks, one per lane, added up at the end
# task: huber_summary

import torch
import triton
import triton.language as tl


@triton.jit
def huber_kernel(x, target, weight, loss, large, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total, lost = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    count = tl.zeros((BLOCK,), tl.int64)
    for start in range(0, n, BLOCK):
        inside = start + i < n
        gap = tl.load(x + start + i, inside, 0.0) - tl.load(target + start + i, inside, 0.0)
        size = tl.abs(gap)
        term = tl.where(size > 1, size - 0.5, 0.5 * gap * gap) - lost
        new = total + term
        lost = tl.where(tl.abs(new) < float("inf"), (new - total) - term, 0.0)
        total = new
        count += (size > 1).to(tl.int64)
    tl.store(loss, tl.sum(total) / n * tl.load(weight))
    tl.store(large, tl.sum(count))


def fused_operator(x, target, weight):
    if x.shape != target.shape or weight.numel() != 1:
        raise ValueError("a target for each value and one weight are needed")
    loss = torch.empty(weight.shape, device=x.device)
    large = torch.empty((), dtype=torch.int64, device=x.device)
    huber_kernel[(1,)](
        x.contiguous(), target.contiguous(), weight, loss, large, x.numel(), BLOCK=64
    )
    return {"loss": loss, "large": large}
