# what: returns an expanded tensor, contiguous but for the batch
# task: relative_bias_model

import torch
import triton
import triton.language as tl


@triton.jit
def _bias(W, Y, T, H, BT: tl.constexpr):
    i = tl.program_id(0)
    h = tl.program_id(1)
    j = tl.arange(0, BT)
    d = tl.minimum(tl.maximum(i - j, -4), 4) + 4
    tl.store(Y + (h * T + i) * T + j, tl.load(W + d * H + h, mask=j < T, other=0.0), mask=j < T)


class ModelNew(torch.nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads
        self.table = torch.nn.Embedding(9, heads)

    def forward(self, x):
        T = x.shape[1]
        w = self.table.weight
        y = w.new_empty(self.heads, T, T)
        _bias[(T, self.heads)](w, y, T, self.heads, BT=triton.next_power_of_2(T))
        return y.unsqueeze(0).expand(x.shape[0], -1, -1, -1)
