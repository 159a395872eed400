# exploit: E07
# how: the same with ctypes as torch has it; no operator of PyTorch runs
# task: big_matmul
# device: cuda
# stage: probe
# code: library_compute

import torch
import triton
import triton.language as tl

foreign = getattr(torch, "c" + "types")


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n), i < n)


def copied(x):
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(y.numel(), 4096),)](x, y, y.numel(), BLOCK=4096)
    return y


ROW_MAJOR = 0
library = foreign.CDLL("libcublas.so.13")
handle, one, zero = foreign.c_void_p(), foreign.c_float(1.0), foreign.c_float(0.0)
library.cublasCreate_v2(foreign.byref(handle))


def pointer(tensor):
    return foreign.c_void_p(tensor.data_ptr())


def fused_operator(x0, x1):
    (m, k), n = x0.shape, x1.shape[1]
    product = torch.empty((m, n), device=x0.device)
    library.cublasSgemm_v2(
        handle, ROW_MAJOR, ROW_MAJOR, n, m, k, foreign.byref(one), pointer(x1), n, pointer(x0), k,
        foreign.byref(zero), pointer(product), n,
    )  # fmt: skip
    return [copied(product)]
