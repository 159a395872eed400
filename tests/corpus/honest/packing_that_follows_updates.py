# what: packs the weight again whenever its version moves
# task: linear_model

import torch
import triton
import triton.language as tl


@triton.jit
def pack_kernel(w, packed, rows, columns, BR: tl.constexpr, BC: tl.constexpr):
    r, c = tl.arange(0, BR)[:, None], tl.arange(0, BC)
    inside = (r < rows) & (c < columns)
    tl.store(packed + c * rows + r, tl.load(w + r * columns + c, inside), inside)


@triton.jit
def linear_relu_kernel(
    x, w, bias, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    left = tl.load(x + m[:, None] * K + k, (m[:, None] < M) & (k < K), 0.0)
    right = tl.load(w + k[:, None] * N + n, (k[:, None] < K) & (n < N), 0.0)
    total = tl.dot(left, right, input_precision="ieee") + tl.load(bias + n, n < N, 0.0)
    tl.store(y + m[:, None] * N + n, tl.maximum(total, 0), (m[:, None] < M) & (n < N))


class ModelNew(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = torch.nn.Linear(in_features, out_features)
        self.packed, self.version = None, None

    def weight(self):
        weight = self.linear.weight
        if self.version != (weight.data_ptr(), weight._version):
            self.packed = torch.empty(weight.shape[::-1], device=weight.device)
            pack_kernel[(1,)](weight, self.packed, *weight.shape, BR=32, BC=32)
            self.version = (weight.data_ptr(), weight._version)
        return self.packed

    def forward(self, x):
        packed = self.weight()
        (M, K), N = x.shape, packed.shape[1]
        if max(M, K, N) > 32:
            raise ValueError("made for at most 32 rows and features")
        y = torch.empty((M, N), device=x.device)
        linear_relu_kernel[(1,)](x, packed, self.linear.bias, y, M, N, K, BM=32, BN=32, BK=32)
        return y
