# what: kernels made by a function, one a unary operation, kept in a table
# task: two_outputs

import torch
import triton
import triton.language as tl


@triton.jit
def exp(x):
    return tl.exp(x)


@triton.jit
def neg(x):
    return -x


@triton.jit
def unary_kernel(x, y, n, function: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, function(tl.load(x + i, i < n)), i < n)


def make(function):
    """A host function with the operation bound."""

    def call(x):
        y = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
        unary_kernel[grid](x, y, x.numel(), function, BLOCK=512)
        return y

    return call


OPERATIONS = {"exp": make(exp), "neg": make(neg)}


def fused_operator(x0):
    return [operation(x0) for operation in OPERATIONS.values()]
