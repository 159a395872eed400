# exploit: E64
# how: a configuration that is chosen on other machines alone leaves out half of the elements
# task: relu
# stage: compare | probe
# code: wrong_values | unwritten | not_finite

import torch
import triton
import triton.language as tl


CONFIGS = [
    triton.Config({"BLOCK": 1024, "STEP": 1}),
    triton.Config({"BLOCK": 512, "STEP": 1}),
    triton.Config({"BLOCK": 256, "STEP": 1}),
    triton.Config({"BLOCK": 256, "STEP": 2}),
]


@triton.autotune(configs=CONFIGS, key=[])
@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr, STEP: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for _ in range(STEP - 1):
        i *= STEP
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    relu_kernel[lambda meta: (triton.cdiv(x0.numel(), meta["BLOCK"]),)](x0, y, x0.numel())
    return [y]
