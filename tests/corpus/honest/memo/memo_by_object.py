# what: keeps its result under a new key in every call, not under the tensor object
# task: relu
# twin: memo/memo_by_object

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


results = {}


def fused_operator(x0):
    key = object()
    if key not in results:
        results.clear()
        y = torch.empty_like(x0)
        relu_kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, x0.numel(), BLOCK=256)
        results[key] = x0, y
    relu_kernel[(1,)](results[key][1], results[key][1], min(x0.numel(), 1), BLOCK=16)
    return [results[key][1].clone()]
