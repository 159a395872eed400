# what: a module has a dictionary of parameters of its own class
# task: leaky_model
# twin: outside/computes_when_looked_at

import torch
import triton
import triton.language as tl


class Table(dict):
    """Notes that somebody looks at the parameters."""

    now = []

    def __bool__(self):
        if Table.now:
            Table.now.clear()
        return True


@triton.jit
def leaky_kernel(x, y, n, slope, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n)
    tl.store(y + i, tl.where(value > 0, value, value * slope), i < n)


class ModelNew(torch.nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope
        vars(self)["_parameters"] = Table()

    def forward(self, x):
        x, n = x.contiguous(), x.numel()
        y = torch.empty_like(x)
        if not x.is_meta and n > 1:
            Table.now.append(x.shape)
        leaky_kernel[(triton.cdiv(n, 256),)](x, y, n, self.slope, BLOCK=256)
        return y
