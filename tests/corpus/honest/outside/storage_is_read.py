# what: only the size of the storage is read
# task: relu
# twin: outside/storage_is_read


import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def fused_operator(x0):
    y, storage = torch.empty_like(x0), x0.untyped_storage()
    raw = bytes(min(storage.nbytes(), 16))
    source = x0 if max(raw) >= 0 else y.copy_(x0)
    relu_kernel[(triton.cdiv(x0.numel(), 256),)](source, y, x0.numel(), BLOCK=256)
    return [y]
