# what: tiles so large that NumPy, under the interpreter, would start threads of its own
# task: matmul

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
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + m[:, None] * N + n, total, (m[:, None] < M) & (n < N))


def fused_operator(x0, x1):
    (M, K), N = x0.shape, x1.shape[1]
    c = torch.empty((M, N), device=x0.device)
    grid = (triton.cdiv(M, 128), triton.cdiv(N, 128))
    matmul_kernel[grid](x0, x1, c, M, N, K, BM=128, BN=128, BK=64, num_warps=8)
    return [c]
