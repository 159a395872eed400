# what: divides by the norms after the product, with parameters under names of its own
# task: weight_normed_model

import torch
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x, v, g, b, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total, squares = tl.zeros((BM, BN), tl.float32), tl.zeros((BN,), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        left = tl.load(x + m * K + k[None, :], (m < M) & (k[None, :] < K), 0.0)
        right = tl.load(v + n * K + k[:, None], (n < N) & (k[:, None] < K), 0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
        squares += tl.sum(right * right, 0)
    factor = tl.load(g + n, n < N, 0.0) / tl.sqrt(tl.where(n < N, squares, 1.0))
    total = total * factor + tl.load(b + n, n < N, 0.0)
    tl.store(y + m * N + n, total, (m < M) & (n < N))


class Directions(torch.nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.v = torch.nn.Parameter(torch.randn(outputs, features))
        self.g = torch.nn.Parameter(torch.rand(outputs, 1) + 0.5)


class ModelNew(torch.nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.weight = Directions(features, outputs)
        self.offset = torch.nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        v, g = self.weight.v, self.weight.g
        (M, K), N = x.shape, v.shape[0]
        if K != v.shape[1]:
            raise ValueError(f"made for {v.shape[1]} features")
        y = torch.empty((M, N), device=x.device)
        grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
        linear_kernel[grid](x.contiguous(), v, g, self.offset, y, M, N, K, BM=16, BN=16, BK=16)
        return y
