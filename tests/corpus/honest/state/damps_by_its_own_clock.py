# what: counts every call, in an attribute of the reference's name
# task: counting_model
# twin: state/damps_by_its_own_clock

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, y, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n) * factor, i < n)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1
        y = torch.empty_like(x)
        factor = min(1.0, self.step / 4)
        scale_kernel[(triton.cdiv(x.numel(), 256),)](x, y, factor, x.numel(), BLOCK=256)
        return y
