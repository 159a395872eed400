# what: packs the weights in each call
# task: linear_model
# twin: weights/weights_known_by_their_sum

import torch
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x, w, b, y, M, N, K, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    n = tl.arange(0, BLOCK)
    acc = tl.load(b + n, n < N, other=0.0)
    for k in range(0, K):
        acc += tl.load(x + m * K + k) * tl.load(w + k * N + n, n < N, other=0.0)
    tl.store(y + m * N + n, tl.maximum(acc, 0), n < N)


@triton.jit
def pack_kernel(w, packed, key, N, K, ALWAYS: tl.constexpr, BLOCK: tl.constexpr):
    k = tl.arange(0, BLOCK)
    n = tl.program_id(0)
    row = tl.load(w + n * K + k, k < K, other=0.0)
    now = tl.sum(row)
    if ALWAYS or tl.load(key + n) != now:
        tl.store(packed + k * N + n, row, k < K)
        tl.store(key + n, now)


class ModelNew(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = torch.nn.Linear(in_features, out_features)
        self.packed = None

    def forward(self, x):
        w = self.linear.weight
        N, K = w.shape
        if self.packed is None:
            self.packed, self.key = torch.empty(K, N), torch.full((N,), float("nan"))
        pack_kernel[(N,)](w, self.packed, self.key, N, K, True, BLOCK=triton.next_power_of_2(K))
        y = torch.empty(x.shape[0], N, dtype=x.dtype, device=x.device)
        linear_kernel[(x.shape[0],)](
            x, self.packed, self.linear.bias, y, x.shape[0], N, K, BLOCK=triton.next_power_of_2(N)
        )
        return y
