# what: sums 32-bit integers in 64 bits
# task: integers
# twin: constants/sums_in_32_bits

import torch
import triton
import triton.language as tl


@triton.jit
def sums_kernel(x, sums, bits, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    at = row * columns + i
    values = tl.load(x + at, i < columns, 0)
    tl.store(sums + row, tl.sum(values.to(tl.int64)))
    tl.store(bits + at, (values << 2) ^ values, i < columns)


def fused_operator(x0):
    x0, (rows, columns) = x0.contiguous(), x0.shape
    sums = torch.empty(rows, dtype=torch.int64, device=x0.device)
    bits = torch.empty_like(x0)
    block = triton.next_power_of_2(columns)
    sums_kernel[(rows,)](x0, sums, bits, columns, BLOCK=block)
    return [sums, bits]
