# what: stops at the diagonal of a matrix that is triangular by construction
# task: triangular_product

import torch
import triton
import triton.language as tl


@triton.jit
def product_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    start = tl.program_id(0) * BM
    m, n = start + tl.arange(0, BM)[:, None], tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, tl.minimum(start + BM, K), BK):
        k = first + tl.arange(0, BK)
        left = tl.load(a + m * K + k[None, :], (m < M) & (k[None, :] < K), 0.0)
        right = tl.load(b + k[:, None] * N + n, (k[:, None] < K) & (n < N), 0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + m * N + n, total, (m < M) & (n < N))


def fused_operator(lower, b):
    (M, K), N = lower.shape, b.shape[1]
    if M != K:
        raise ValueError("a square matrix is needed")
    c = torch.empty((M, N), device=b.device)
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
    product_kernel[grid](lower.contiguous(), b.contiguous(), c, M, N, K, BM=16, BN=16, BK=16)
    return [c]
