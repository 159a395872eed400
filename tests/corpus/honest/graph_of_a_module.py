# what: a CUDA graph that reads the parameters where they are, captured again when they move
# task: linear_model
# device: cuda

import torch
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x, w, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n, k = tl.arange(0, BN), tl.arange(0, BK)
    left = tl.load(x + m[:, None] * K + k, (m[:, None] < M) & (k < K), 0.0)
    right = tl.load(w + n * K + k[:, None], (k[:, None] < K) & (n < N), 0.0)
    total = tl.dot(left, right, input_precision="ieee")
    tl.store(y + m[:, None] * N + n, total, (m[:, None] < M) & (n < N))


@triton.jit
def bias_relu_kernel(x, bias, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, i < columns) + tl.load(bias + i, i < columns)
    tl.store(y + row * columns + i, tl.maximum(values, 0), i < columns)


class ModelNew(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = torch.nn.Linear(in_features, out_features)
        self.key = None

    def compute(self):
        weight, bias = self.linear.weight, self.linear.bias
        (M, K), N = self.given.shape, weight.shape[0]
        product = self.given.new_empty((M, N))
        grid, sizes = (triton.cdiv(M, 16),), (max(16, triton.next_power_of_2(n)) for n in (N, K))
        BN, BK = sizes
        linear_kernel[grid](self.given, weight, product, M, N, K, BM=16, BN=BN, BK=BK)
        bias_relu_kernel[(M,)](product, bias, self.result, N, BLOCK=BN)

    def capture(self, x):
        self.given = torch.empty_like(x)
        self.result = x.new_empty((x.shape[0], self.linear.weight.shape[0]))
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.compute()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.compute()

    def forward(self, x):
        parameters = (self.linear.weight, self.linear.bias)
        key = (x.shape, *(p.data_ptr() for p in parameters))
        if key != self.key:
            self.capture(x)
            self.key = key
        self.given.copy_(x)
        self.graph.replay()
        return self.result.clone()
