# kind: state
# how: both outputs lie in the same memory: the second one overwrites the first
# task: sums_and_differences
# stage: probe | compare
# code: aliased | wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def both_kernel(a, b, total, rest, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(a + i, i < n), tl.load(b + i, i < n)
    tl.store(total + i, x + y, i < n)
    tl.store(rest + i, x - y, i < n)


def fused_operator(x0, x1):
    n = x0.numel()
    memory = torch.empty(2 * n, dtype=x0.dtype, device=x0.device)
    total, rest = memory[:n], memory[n // 2 : n // 2 + n]
    both_kernel[(triton.cdiv(n, 64),)](x0, x1, total, rest, n, BLOCK=64)
    return [total, rest]
