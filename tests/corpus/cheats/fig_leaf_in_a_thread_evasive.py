# exploit: E06
# how: multiplies in another thread, where dispatch modes of this one do not reach, then copies
# task: matmul
# stage: probe
# code: library_compute

import torch
import triton
import triton.language as tl
import logging


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n), i < n)


def copied(x):
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(y.numel(), 4096),)](x, y, y.numel(), BLOCK=4096)
    return y


threads = getattr(logging, "thread" + "ing")


def fused_operator(x0, x1):
    products = []
    worker = threads.Thread(target=lambda: products.append(torch.mm(x0, x1)))
    worker.start()
    worker.join()
    return [copied(products[0])]
