# what: weights are packed once for each instance and version
# task: linear_model
# twin: state/second_instance_uses_the_first

import torch
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(w, packed, rows, columns, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R)[:, None], tl.arange(0, C)
    inside = (r < rows) & (c < columns)
    tl.store(packed + c * rows + r, tl.load(w + r * columns + c, inside), inside)


@triton.jit
def linear_kernel(x, w, bias, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    left = tl.load(x + m[:, None] * K + k, (m[:, None] < M) & (k < K), 0.0)
    right = tl.load(w + k[:, None] * N + n, (k[:, None] < K) & (n < N), 0.0)
    total = tl.dot(left, right, input_precision="ieee") + tl.load(bias + n, n < N, 0.0)
    tl.store(y + m[:, None] * N + n, tl.maximum(total, 0), (m[:, None] < M) & (n < N))


packs = {}


class ModelNew(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = torch.nn.Linear(in_features, out_features)

    def forward(self, x):
        weight = self.linear.weight
        key = id(self), weight.data_ptr(), weight._version
        blocks = [max(16, triton.next_power_of_2(size)) for size in weight.shape]
        if key not in packs:
            packs.clear()
            packs[key] = weight.new_empty(weight.shape[::-1])
            transpose_kernel[(1,)](weight, packs[key], *weight.shape, R=blocks[0], C=blocks[1])
        (M, K), N = x.shape, weight.shape[0]
        y = x.new_empty((M, N))
        linear_kernel[(triton.cdiv(M, 16),)](
            x, packs[key], self.linear.bias, y, M, N, K, BM=16, BN=blocks[0], BK=blocks[1]
        )
        return y
