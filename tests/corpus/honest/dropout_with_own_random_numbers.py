# what: tl.rand in the kernel for training; in eval mode nothing is dropped
# task: eval_dropout_model

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(x, weight, y, n, columns, p, seed, TRAINING: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    values = tl.load(x + i, inside) * tl.load(weight + i % columns, inside)
    values = tl.maximum(values, 0.0)
    if TRAINING:
        kept = tl.rand(seed, i) > p
        values = tl.where(kept, values / (1 - p), 0.0)
    tl.store(y + i, values, inside)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(features))
        self.p = 0.3
        self.calls = 0

    def forward(self, x):
        y = torch.empty_like(x)
        self.calls += 1
        dropout_kernel[(triton.cdiv(x.numel(), 512),)](
            x,
            self.weight,
            y,
            x.numel(),
            x.shape[-1],
            self.p,
            self.calls,
            TRAINING=self.training,
            BLOCK=512,
        )
        return y
