# what: under torch.cuda.device, with register and warp options
# task: relu

import contextlib

import torch
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n"])
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, i < n, eviction_policy="evict_first")
    tl.store(y + i, tl.maximum(values, 0), i < n, cache_modifier=".cs")


def fused_operator(x0):
    y = torch.empty_like(x0)
    guard = torch.cuda.device(x0.device) if x0.is_cuda else contextlib.nullcontext()
    with guard:
        relu_kernel[(triton.cdiv(x0.numel(), 1024),)](
            x0, y, x0.numel(), BLOCK=1024, num_warps=8, num_stages=1, maxnreg=64
        )
    return [y]
