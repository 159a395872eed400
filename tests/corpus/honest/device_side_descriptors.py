# what: descriptors made in the kernel where strides allow; pointers where they do not
# task: matmul

import torch
import triton
import triton.language as tl


@triton.jit
def relu_sum_tile(a, b, total, precision: tl.constexpr):
    return tl.dot(a, b, total, input_precision=precision)


@triton.jit
def described_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        total = relu_sum_tile(left.load([row, start]), right.load([start, column]), total, "ieee")
    out.store([row, column], total)


@triton.jit
def pointer_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * K + k, (m[:, None] < M) & (k < K), 0.0)
        y = tl.load(b + k[:, None] * N + n, (k[:, None] < K) & (n < N), 0.0)
        total = relu_sum_tile(x, y, total, "ieee")
    tl.store(c + m[:, None] * N + n, total, (m[:, None] < M) & (n < N))


def workspace(size, alignment, stream):
    return torch.empty(size, device="cuda", dtype=torch.int8)


def fused_operator(x0, x1):
    (M, K), N = x0.shape, x1.shape[1]
    c = torch.empty((M, N), device=x0.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    if K % 4 == 0 and N % 4 == 0:  # 16 bytes
        triton.set_allocator(workspace)
        described_kernel[grid](x0, x1, c, M, N, K, BM=32, BN=32, BK=32)
    else:
        pointer_kernel[grid](x0, x1, c, M, N, K, BM=32, BN=32, BK=32)
    return [c]
