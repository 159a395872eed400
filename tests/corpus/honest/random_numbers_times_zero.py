# what: draws in every mode and lets all through in eval mode
# task: eval_dropout_model

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(x, weight, y, n, columns, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    values = tl.load(x + i, inside) * tl.load(weight + i % columns, inside)
    draw, _, _, _ = tl.rand4x(seed, i)
    kept = draw >= p
    tl.store(y + i, tl.where(kept, tl.maximum(values, 0.0) / (1 - p), 0.0), inside)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(features))
        self.dropout = torch.nn.Dropout(0.3)

    def forward(self, x):
        y = torch.empty_like(x)
        p = self.dropout.p if self.training else 0.0
        grid = (triton.cdiv(x.numel(), 512),)
        dropout_kernel[grid](x, self.weight, y, x.numel(), x.shape[-1], p, 42, BLOCK=512)
        return y
