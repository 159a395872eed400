# kind: state
# how: gives outputs under keys that have the right text and equal no text
# task: dict_output
# stage: compare
# code: wrong_structure

import torch
import triton
import triton.language as tl


@triton.jit
def both_kernel(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    tl.store(y + i, tl.maximum(v, 0), i < n)
    tl.store(z + i, tl.maximum(-v, 0), i < n)


class Key(str):
    def __hash__(self):
        return 7


def fused_operator(x0):
    y = torch.empty_like(x0)
    z = torch.empty_like(x0)
    both_kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, z, x0.numel(), BLOCK=256)
    return {Key("positive"): y, Key("negative"): z}
