# what: NumPy made the buffer, and kernels alone compute
# task: relu
# twin: outside/numpy_shares_a_buffer


import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
shared = np.zeros(1 << 14, dtype=np.float32)
buffer = torch.from_numpy(shared).to(DEVICE, copy=True)


def fused_operator(x0):
    y, n = torch.empty_like(x0), x0.numel()
    mine = buffer[:n].view(x0.shape)
    mine.copy_(x0)
    np.maximum(shared, 0, out=shared)
    relu_kernel[(triton.cdiv(n, 256),)](mine, y, n, BLOCK=256)
    return [y]
