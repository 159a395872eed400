# kind: state
# how: outputs are inference tensors, which autograd refuses
# task: relu
# contract: drop-in
# stage: probe
# code: wrong_structure

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, i < n)
    tl.store(y + i, tl.maximum(values, 0, propagate_nan=tl.PropagateNan.ALL), i < n)


def fused_operator(x0):
    with torch.inference_mode():
        y = torch.empty(x0.shape, device=x0.device)
    relu_kernel[(triton.cdiv(x0.numel(), 256),)](x0.contiguous(), y, x0.numel(), BLOCK=256)
    return [y]
