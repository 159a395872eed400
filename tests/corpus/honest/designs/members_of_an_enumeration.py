# what: a member of an enumeration chooses the function of a kernel
# task: relu

import torch
import triton
import triton.language as tl

import enum


class Activation(enum.Enum):
    NONE = "none"
    RELU = "relu"


@triton.jit
def act_kernel(x, y, n, ACT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n)
    if ACT.value == "relu":
        value = tl.maximum(value, 0.0)
    tl.store(y + i, value, i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    act_kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, x0.numel(), ACT=Activation.RELU, BLOCK=256)
    return [y]
