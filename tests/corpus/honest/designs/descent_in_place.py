# what: changes the parameters in place, as the reference does
# task: descent_step

import torch
import triton
import triton.language as tl


@triton.jit
def _sgd(P, G, N, BN: tl.constexpr):
    o = tl.program_id(0) * BN + tl.arange(0, BN)
    ok = o < N
    tl.store(P + o, tl.load(P + o, mask=ok) - 0.1 * tl.load(G + o, mask=ok), mask=ok)


def fused_operator(p, g):
    if not p.is_contiguous():
        raise ValueError
    n = p.numel()
    _sgd[(triton.cdiv(n, 32),)](p, g.contiguous(), n, BN=32)
    return [p]
