# what: logging, a warning and print in host code; assertions on shapes
# task: relu

import logging
import warnings

import torch
import triton
import triton.language as tl

logger = logging.getLogger(__name__)
logger.info("kernels of relu")


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK % 128 == 0, "whole warps")
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def fused_operator(x0):
    assert x0.is_contiguous() and x0.dtype == torch.float32, "a contiguous fp32 tensor"
    if x0.numel() % 128:
        warnings.warn("the last block is not full", stacklevel=1)
    y = torch.empty_like(x0)
    logger.debug("launching on %s", tuple(x0.shape))
    print("relu of", tuple(x0.shape))
    relu_kernel[(triton.cdiv(x0.numel(), 1024),)](x0, y, x0.numel(), BLOCK=1024)
    return [y]
