# what: one program iterates and stores the factor, many apply it
# task: spectral_model

import torch
import triton
import triton.language as tl


@triton.jit
def iterate_kernel(
    weight, u, sigma, rows, columns, TRAINS: tl.constexpr, R: tl.constexpr, C: tl.constexpr
):
    r, c = tl.arange(0, R), tl.arange(0, C)
    inside = (r[:, None] < rows) & (c < columns)
    w = tl.load(weight + r[:, None] * columns + c, inside, 0.0)
    left = tl.load(u + r, r < rows, 0.0)
    right = tl.sum(w * left[:, None], 0)
    right = right / tl.maximum(tl.sqrt(tl.sum(right * right)), 1e-12)
    product = tl.sum(w * right[None, :], 1)
    if TRAINS:
        left = product / tl.maximum(tl.sqrt(tl.sum(product * product)), 1e-12)
        tl.store(u + r, left, r < rows)
    tl.store(sigma, tl.sum(left * product))


@triton.jit
def linear_kernel(
    x, weight, sigma, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM)[:, None], tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    scale = tl.load(sigma)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        left = tl.load(x + m * K + k[None, :], (m < M) & (k[None, :] < K), 0.0)
        right = tl.load(weight + n * K + k[:, None], (n < N) & (k[:, None] < K), 0.0)
        total = tl.dot(left, right / scale, total, input_precision="ieee")
    tl.store(y + m * N + n, total, (m < M) & (n < N))


class ModelNew(torch.nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(outputs, features))
        self.register_buffer("u", torch.nn.functional.normalize(torch.randn(outputs), dim=0))

    def forward(self, x):
        (M, K), (N, features) = x.shape, self.weight.shape
        if K != features:
            raise ValueError(f"made for {features} features")
        blocks = [max(16, triton.next_power_of_2(size)) for size in (N, K)]
        sigma, y = torch.empty(1, device=x.device), torch.empty((M, N), device=x.device)
        iterate_kernel[(1,)](
            self.weight, self.u, sigma, N, K, TRAINS=self.training, R=blocks[0], C=blocks[1]
        )
        linear_kernel[(triton.cdiv(M, 16),)](
            x.contiguous(), self.weight, sigma, y, M, N, K, BM=16, BN=blocks[0], BK=16
        )
        return y
