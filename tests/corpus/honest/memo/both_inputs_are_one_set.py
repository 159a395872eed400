# what: keeps its result under a new key in every call, not under the pair of inputs
# task: difference
# mode: hybrid
# twin: memo/both_inputs_are_one_set

import torch
import triton
import triton.language as tl


@triton.jit
def difference_kernel(a, b, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(a + i, i < n) - tl.load(b + i, i < n)
    tl.store(y + i, tl.maximum(v, 0), i < n)


results = {}


def fused_operator(x0, x1):
    key = object()
    if key not in results:
        results.clear()
        y = torch.empty_like(x0)
        difference_kernel[(triton.cdiv(x0.numel(), 64),)](x0, x1, y, x0.numel(), BLOCK=64)
        results[key] = y
    return [results[key].clone()]
