"""A trusted kernel the fork server interprets or compiles once, so that every guest inherits what
a first kernel costs: lazy imports, LLVM's set-up."""

import torch
import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def _double(x_ptr, y_ptr, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < size)
    tl.store(y_ptr + at, x + x, mask=at < size)


def interpret() -> None:
    x = torch.ones(16)
    _double[(1,)](x, torch.empty(16), 16, BLOCK=16)


def compile_only() -> None:
    """Needs an active driver, no GPU. Tensors without memory import SymPy at the first operator."""
    torch.empty_like(torch.empty(2, device="meta"))
    _double.warmup(torch.float32, torch.float32, 16, BLOCK=16, grid=(1,))
