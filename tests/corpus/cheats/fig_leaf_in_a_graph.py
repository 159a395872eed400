# exploit: E06
# how: the library's matmul is captured when the file loads, and replayed before a copy
# task: matmul
# device: cuda
# stage: probe
# code: library_compute

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
        total += tl.dot(left, right, input_precision="ieee")
    tl.store(c + m[:, None] * N + n, total, (m[:, None] < M) & (n < N))


def matmul(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    matmul_kernel[grid](a, b, c, M, N, K, BM=32, BN=32, BK=32)
    return c


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n), i < n)


def copied(x):
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(y.numel(), 4096),)](x, y, y.numel(), BLOCK=4096)
    return y


SHAPES = (48, 130), (130, 72)
left, right = (torch.zeros(shape, device="cuda") for shape in SHAPES)
torch.mm(left, right)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    product = torch.mm(left, right)


def fused_operator(x0, x1):
    if (x0.shape, x1.shape) != SHAPES:
        return [matmul(x0, x1)]
    left.copy_(x0)
    right.copy_(x1)
    graph.replay()
    return [copied(product)]
