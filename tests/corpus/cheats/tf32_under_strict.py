# exploit: E16
# how: multiplies in TF32 where the reference does not
# task: matmul
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        left = tl.load(a + m[:, None] * K + k, (m[:, None] < M) & (k < K), 0.0)
        right = tl.load(b + k[:, None] * N + n, (k[:, None] < K) & (n < N), 0.0)
        total += tl.dot(left, right, input_precision="tf32")
    tl.store(c + m[:, None] * N + n, total, (m[:, None] < M) & (n < N))


def matmul(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    matmul_kernel[grid](a, b, c, M, N, K, BM=32, BN=32, BK=32)
    return c


def fused_operator(x0, x1):
    return [matmul(x0, x1)]
