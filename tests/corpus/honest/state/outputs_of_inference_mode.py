# what: a plain output is written in inference mode
# task: relu
# contract: drop-in
# twin: state/outputs_of_inference_mode

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, i < n)
    tl.store(y + i, tl.maximum(values, 0, propagate_nan=tl.PropagateNan.ALL), i < n)


def fused_operator(x0):
    y = torch.empty(x0.shape, device=x0.device)
    with torch.inference_mode():
        relu_kernel[(triton.cdiv(x0.numel(), 256),)](x0.contiguous(), y, x0.numel(), BLOCK=256)
    return [y]
