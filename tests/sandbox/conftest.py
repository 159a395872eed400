"""Guests for the tests of this folder, and the candidates several of them use."""

from collections.abc import Callable, Iterator

import pytest

from kernelwright.sandbox.forkserver import shared
from kernelwright.sandbox.guest import Guest, Limits

HEADER = """\
import torch
import triton
import triton.language as tl
"""

ADD = (
    HEADER
    + """
@triton.jit
def add(x_ptr, y_ptr, out_ptr, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < size)
    y = tl.load(y_ptr + at, mask=at < size)
    tl.store(out_ptr + at, x + y, mask=at < size)


def fused_operator(x, y):
    out = torch.empty_like(x)
    add[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), BLOCK=256)
    return [out]
"""
)


@pytest.fixture
def guest() -> Iterator[Guest]:
    with shared("cpu").guest(Limits(wall_s=30)) as made:
        yield made


@pytest.fixture
def call(guest: Guest) -> Callable[..., object]:
    """Load a source and call it once: `call(source, *inputs, **options)`."""

    def run(source: str, *inputs: object, **options: object) -> object:
        guest.load(HEADER + source)
        return guest.run("candidate", inputs, seed=1, **options)

    return run
