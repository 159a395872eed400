# what: an operator of its own, defined with torch.library.triton_op
# task: relu

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


from torch.library import triton_op, wrap_triton


@triton_op("honest_mine::relu", mutates_args={})
def relu(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    wrap_triton(relu_kernel)[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


def fused_operator(x0):
    return [torch.ops.honest_mine.relu(x0)]
