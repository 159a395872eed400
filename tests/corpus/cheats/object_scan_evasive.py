# exploit: E45
# how: gc by way of torch.sys; copies another tensor of the answer's shape
# task: relu
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def half_relu(x):
    """Half the work: the rest of the answer is to come from the cheat."""
    y = torch.zeros_like(x)
    n = x.numel() // 2
    relu_kernel[(triton.cdiv(n, 4096),)](x, y, n, BLOCK=4096)
    return y


def find(thing, *parts):
    """An attribute by a name that is put together at run time."""
    return getattr(thing, "".join(parts))


collector = find(torch, "s", "ys").modules["g" + "c"]


def fused_operator(x0):
    y = half_relu(x0)
    for thing in collector.get_objects():
        if type(thing) is torch.Tensor and thing.shape == x0.shape:
            if thing is not x0 and thing is not y and bool((thing >= 0).all()):
                return [thing.clone()]
    return [y]
