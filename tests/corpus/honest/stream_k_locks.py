# what: parts of a tile wait for each other on a lock in memory
# task: matmul
# device: cuda

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a,
    b,
    c,
    locks,
    M,
    N,
    K,
    PARTS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    part = tl.program_id(0)  # fastest: the parts of one tile run together
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n = tl.program_id(2) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(part * BK, K, PARTS * BK):
        k = start + tl.arange(0, BK)
        left = tl.load(a + m[:, None] * K + k, (m[:, None] < M) & (k < K), 0.0)
        right = tl.load(b + k[:, None] * N + n, (k[:, None] < K) & (n < N), 0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    lock = locks + tl.program_id(1) * tl.num_programs(2) + tl.program_id(2)
    at = c + m[:, None] * N + n
    inside = (m[:, None] < M) & (n < N)
    while tl.atomic_cas(lock, part, part) != part:
        pass
    if part == 0:
        tl.store(at, total, inside)
    else:
        tl.store(at, tl.load(at, inside, cache_modifier=".cg") + total, inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, part + 1)


def fused_operator(x0, x1):
    (M, K), N = x0.shape, x1.shape[1]
    tiles = triton.cdiv(M, 32), triton.cdiv(N, 32)
    c = torch.empty((M, N), device=x0.device)
    locks = torch.zeros(tiles, dtype=torch.int32, device=x0.device)
    matmul_kernel[(2, *tiles)](x0, x1, c, locks, M, N, K, PARTS=2, BM=32, BN=32, BK=32)
    return [c]
