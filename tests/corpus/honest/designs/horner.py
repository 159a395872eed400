# what: a polynomial from its highest coefficient down
# task: polynomial_model

import torch
import triton
import triton.language as tl


@triton.jit
def horner_kernel(x, coefficients, y, n, degree, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n, 0.0)
    value = tl.div_rn(value, 1 + tl.abs(value)).to(tl.float64)
    total = tl.zeros((BLOCK,), tl.float64)
    for k in range(degree, -1, -1):
        total = total * value + tl.load(coefficients + k)
    tl.store(y + i, total.to(tl.float32), i < n)


class ModelNew(torch.nn.Module):
    def __init__(self, degree):
        super().__init__()
        self.coefficients = torch.nn.Parameter(torch.randn(degree + 1))

    def forward(self, x):
        x, n = x.contiguous(), x.numel()
        y = torch.empty_like(x)
        degree = self.coefficients.numel() - 1
        horner_kernel[(triton.cdiv(n, 128),)](x, self.coefficients, y, n, degree, BLOCK=128)
        return y
