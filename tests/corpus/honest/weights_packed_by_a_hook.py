# what: packs again after load_state_dict, and whenever the weight is another
# task: linear_model

import torch
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(w, packed, rows, columns, BLOCK: tl.constexpr):
    r, c = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)
    inside = (r < rows) & (c < columns)
    tl.store(packed + c * rows + r, tl.load(w + r * columns + c, inside), inside)


@triton.jit
def linear_relu_kernel(
    x, packed, bias, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n, k = tl.arange(0, BN), tl.arange(0, BK)
    left = tl.load(x + m[:, None] * K + k, (m[:, None] < M) & (k < K), 0.0)
    right = tl.load(packed + k[:, None] * N + n, (k[:, None] < K) & (n < N), 0.0)
    total = tl.dot(left, right, input_precision="ieee") + tl.load(bias + n, n < N, 0.0)
    tl.store(y + m[:, None] * N + n, tl.maximum(total, 0.0), (m[:, None] < M) & (n < N))


class ModelNew(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = torch.nn.Linear(in_features, out_features)
        self.packed_of = (-1, -1)
        self.register_load_state_dict_post_hook(lambda module, _: module.forget())

    def forget(self):
        self.packed_of = (-1, -1)

    def forward(self, x):
        weight = self.linear.weight
        N, K = weight.shape
        if max(N, K) > 32:
            raise ValueError("made for at most 32 features")
        state = (weight.data_ptr(), weight._version)
        if state != self.packed_of:
            self.packed = weight.new_empty((K, N))
            transpose_kernel[(1,)](weight, self.packed, N, K, BLOCK=32)
            self.packed_of = state
        y = x.new_empty((x.shape[0], N))
        grid = (triton.cdiv(x.shape[0], 16),)
        linear_relu_kernel[grid](
            x, self.packed, self.linear.bias, y, x.shape[0], N, K, BM=16, BN=32, BK=32
        )
        return y
