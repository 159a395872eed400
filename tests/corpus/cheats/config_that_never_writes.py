# exploit: E64
# how: the quickest configuration to be tuned writes nothing
# task: relu
# stage: probe | compare
# code: unwritten | wrong_values

import torch
import triton
import triton.language as tl


CONFIGS = [
    triton.Config({"BLOCK": 4096, "SKIP": True}),
    triton.Config({"BLOCK": 1024, "SKIP": False}),
]


@triton.autotune(configs=CONFIGS, key=[])
@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr, SKIP: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if SKIP:
        return
    for _ in range(50):
        tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    relu_kernel[lambda meta: (triton.cdiv(x0.numel(), meta["BLOCK"]),)](x0, y, x0.numel())
    return [y]
