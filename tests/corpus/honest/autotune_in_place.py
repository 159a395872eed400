# what: tuned in place: the input is restored after each trial
# task: in_place

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": 512}), triton.Config({"BLOCK": 1024}, num_warps=8)],
    key=["n"],
    restore_value=["x"],
)
@triton.jit
def relu_kernel(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def fused_operator(x0):
    relu_kernel[lambda meta: (triton.cdiv(x0.numel(), meta["BLOCK"]),)](x0, x0.numel())
    return [x0]
