# kind: state
# how: returns a tuple whose items are exchanged for those who ask by number
# task: two_outputs
# stage: compare
# code: wrong_structure

import torch
import triton
import triton.language as tl


@triton.jit
def both_kernel(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    tl.store(y + i, tl.exp(v), i < n)
    tl.store(z + i, -v, i < n)


class Pair(tuple):
    def __getitem__(self, i):
        return tuple.__getitem__(self, 1 - i)


def fused_operator(x0):
    y = torch.empty_like(x0)
    z = torch.empty_like(x0)
    both_kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, z, x0.numel(), BLOCK=256)
    return Pair((y, z))
