# kind: state
# how: scratch memory lies in the input's storage, beside the input
# task: relu
# stage: probe
# code: input_changed

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def scratch(x):
    end = x.storage_offset() + x.numel()
    room = x.untyped_storage().nbytes() // x.itemsize - end
    if room > 0:
        return x.as_strided((min(room, x.numel()),), (1,), end)
    return torch.empty_like(x)


def fused_operator(x0):
    beside, y = scratch(x0), torch.empty_like(x0)
    relu_kernel[(triton.cdiv(beside.numel(), 256),)](x0, beside, beside.numel(), BLOCK=256)
    relu_kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, x0.numel(), BLOCK=256)
    y.view(-1)[: beside.numel()].copy_(beside.view(-1))
    return [y]
