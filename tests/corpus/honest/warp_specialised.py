# what: warp specialisation, clusters and pipeline flags on a TMA product
# task: half_matmul
# device: cuda

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def matmul_kernel(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for start in tl.range(0, K, BK, num_stages=2, warp_specialize=True):
        total = tl.dot(a.load([row, start]), b.load([start, column]), total)
    c.store([row, column], total.to(tl.float16))


def described(x, block):
    rows, columns = x.shape
    stride = triton.cdiv(columns, 8) * 8
    if stride != columns:
        padded = x.new_empty((rows, stride))[:, :columns]
        padded.copy_(x)
        x = padded
    return TensorDescriptor(x, [rows, columns], [stride, 1], block)


def fused_operator(x0, x1):
    (M, K), N = x0.shape, x1.shape[1]
    stride = triton.cdiv(N, 8) * 8
    c = x0.new_empty((M, stride))[:, :N]
    out = TensorDescriptor(c, [M, N], [stride, 1], [64, 64])
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
    matmul_kernel[grid](
        described(x0, [64, 32]),
        described(x1, [32, 64]),
        out,
        K,
        BM=64,
        BN=64,
        BK=32,
        num_warps=4,
        num_ctas=1,
    )
    return [c.contiguous()]
