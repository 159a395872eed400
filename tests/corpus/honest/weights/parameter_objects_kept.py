# what: asks its layer for the parameters in each call
# task: linear_model
# contract: drop-in
# twin: weights/parameter_objects_kept

import torch
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x, w, b, y, M, N, K, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    n = tl.arange(0, BLOCK)
    acc = tl.load(b + n, n < N, other=0.0)
    for k in range(0, K):
        acc += tl.load(x + m * K + k) * tl.load(w + n * K + k, n < N, other=0.0)
    tl.store(y + m * N + n, tl.maximum(acc, 0, propagate_nan=tl.PropagateNan.ALL), n < N)


class ModelNew(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = torch.nn.Linear(in_features, out_features)
        self.own = (self.linear.weight, self.linear.bias)

    def forward(self, x):
        x = x.contiguous()
        w, b = self.linear.weight, self.linear.bias
        y = torch.empty(x.shape[0], w.shape[0], dtype=x.dtype, device=x.device)
        linear_kernel[(x.shape[0],)](
            x, w, b, y, x.shape[0], w.shape[0], x.shape[1], BLOCK=triton.next_power_of_2(w.shape[0])
        )
        return y
