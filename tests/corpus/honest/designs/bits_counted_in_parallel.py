# what: adds neighbouring bits, pairs and nibbles inside of a word
# task: bit_counts

import torch
import triton
import triton.language as tl


@triton.jit
def count_kernel(x, y, count, odd, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bits = (tl.load(x + i, i < n, 0) ^ tl.load(y + i, i < n, 0)) & 0xFFFFFFFF
    bits = bits - ((bits >> 1) & 0x55555555)
    bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F
    bits = ((bits * 0x01010101) >> 24) & 0xFF
    tl.store(count + i, bits, i < n)
    tl.store(odd + i, (bits & 1) != 0, i < n)


def fused_operator(x, y):
    if x.shape != y.shape:
        raise ValueError("inputs of one shape are needed")
    n, count = x.numel(), torch.empty(x.shape, dtype=torch.int64, device=x.device)
    odd = torch.empty(x.shape, dtype=torch.bool, device=x.device)
    count_kernel[(triton.cdiv(n, 128),)](x.contiguous(), y.contiguous(), count, odd, n, BLOCK=128)
    return count, odd
