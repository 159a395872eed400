# what: an operator of its own, defined with torch.library.Library
# task: relu

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


LIB = torch.library.Library("honest_relu", "DEF")
LIB.define("relu(Tensor x) -> Tensor")


def relu(x):
    y = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


LIB.impl("relu", relu, "CPU")
LIB.impl("relu", relu, "CUDA")
LIB.impl("relu", relu, "Meta")


def fused_operator(x0):
    return [torch.ops.honest_relu.relu(x0)]
