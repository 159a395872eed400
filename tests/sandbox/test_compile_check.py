"""The compile check: what the GPU would refuse is refused without one."""

import pytest
import torch
from sample_candidates import ADD, HEADER

from kernelwright.sandbox.compile_check import compile_check
from kernelwright.sandbox.guest import GuestFault

DOT = (
    HEADER
    + """
@triton.jit
def mm(x_ptr, y_ptr, out_ptr, B: tl.constexpr):
    at = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    tl.store(out_ptr + at, tl.dot(tl.load(x_ptr + at), tl.load(y_ptr + at)))


def fused_operator(x, y):
    out = torch.empty_like(x)
    mm[(1,)](x, y, out, B=x.shape[0])
    return [out]
"""
)


def test_a_good_kernel_compiles_and_its_needs_are_known():
    x = torch.empty(1 << 20, device="meta")
    (usage,) = compile_check(ADD, [x, x]).kernels.values()
    assert 8 <= usage.registers <= 64
    assert usage.shared_bytes == 0
    assert usage.spills == 0


def test_a_dot_of_legal_size_uses_shared_memory():
    x = torch.empty(32, 32, device="meta")
    assert compile_check(DOT, [x, x]).kernels["mm"].shared_bytes > 0


def test_a_dot_of_eight_is_refused_with_its_line():
    x = torch.empty(8, 8, device="meta")
    with pytest.raises(GuestFault) as caught:
        compile_check(DOT, [x, x])
    assert caught.value.kind == "compile"
    assert "tl.dot" in DOT.splitlines()[caught.value.line - 1]


def test_an_undefined_name_in_a_kernel_is_refused():
    x = torch.empty(64, device="meta")
    source = ADD.replace("x + y", "np.abs(x)")
    with pytest.raises(GuestFault) as caught:
        compile_check(source, [x, x])
    assert caught.value.kind == "compile"
    assert "np.abs" in source.splitlines()[caught.value.line - 1]
