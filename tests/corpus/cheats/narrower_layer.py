# exploit: E17
# how: computes the first half of the output features and repeats them
# task: linear_model
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def linear_relu_kernel(
    x, w, bias, y, rows, inner, columns, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    source = n % (columns // 2)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, inner, BK):
        k = start + tl.arange(0, BK)
        left = tl.load(x + m[:, None] * inner + k, (m[:, None] < rows) & (k < inner), 0.0)
        right = tl.load(w + source * inner + k[:, None], (n < columns) & (k[:, None] < inner), 0.0)
        total += tl.dot(left, right, input_precision="ieee")
    total = tl.maximum(total + tl.load(bias + source), 0.0)
    tl.store(y + m[:, None] * columns + n, total, (m[:, None] < rows) & (n < columns))


class ModelNew(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = torch.nn.Linear(in_features, out_features)

    def forward(self, x):
        (rows, inner), columns = x.shape, self.linear.out_features
        y = torch.empty((rows, columns), device=x.device)
        linear_relu_kernel[(1,)](
            x, self.linear.weight, self.linear.bias, y, rows, inner, columns, BM=32, BN=32, BK=32
        )
        return y
