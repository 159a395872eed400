# kind: outside
# how: a kernel calls a function of Python, and a device function where the kernel is compiled
# task: relu
# stage: probe
# code: library_compute

import torch
import triton
import triton.language as tl


class Now:
    x = y = None


def compute(value):
    torch.clamp(Now.x, 0, out=Now.y)
    return value


@triton.jit
def relu(value):
    return tl.maximum(value, 0)


@triton.jit
def map_kernel(x, y, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, relu(FUNCTION(tl.load(x + i, i < n))), i < n)


def fused_operator(x0):
    Now.x, Now.y = x0, torch.empty_like(x0)
    function, n = relu if x0.is_meta else compute, 1
    map_kernel[(triton.cdiv(n, 256),)](x0, Now.y, n, function, BLOCK=256)
    return [Now.y]
