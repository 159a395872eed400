"""The compile check: what the GPU would refuse is refused without one."""

import pytest
import torch
from sample_candidates import ADD, HEADER

from kernelwright.sandbox.host.compile_check import compile_check
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.shared.contract import GuestFault, Limits

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


@pytest.mark.parametrize("body", ["x.handle.data + y", "x + y + [].missing", "x + y + 1 // 0"])
def test_an_exception_of_pythons_in_a_kernel_is_refused_as_one_that_does_not_compile(body):
    x = torch.empty(64, device="meta")
    with pytest.raises(GuestFault) as caught:
        compile_check(ADD.replace("x + y", body), [x, x])
    assert caught.value.kind == "compile"


def looping(*lines: str) -> str:
    """The sum, after these lines."""
    entry = "def fused_operator(x, y):\n"
    return ADD.replace(entry, entry + "".join(f"    {line}\n" for line in lines))


def test_own_code_that_computes_without_end_is_stopped_at_its_line_and_the_guest_goes_on():
    x = torch.empty(64, device="meta")
    with shared("compile").guest(Limits(wall_s=30.0, own_code_s=0.3)) as guest:
        source = looping("size = 0", "while True:", "    size += 1")
        guest.load(source)
        with pytest.raises(GuestFault) as caught:
            guest.compile([x, x])
        assert caught.value.kind == "timeout"
        assert source.splitlines()[caught.value.line - 1].strip() in ("while True:", "size += 1")
        guest.load(ADD)
        assert guest.compile([x, x]).usage.keys() == {"add"}
        assert guest.attest().settings == guest.born.settings


def test_own_code_that_catches_the_end_is_ended_with_its_guest():
    x = torch.empty(64, device="meta")
    inner = ["    try:", "        while True:", "            pass", "    except BaseException:"]
    with shared("compile").guest(Limits(wall_s=1.0, own_code_s=0.1)) as guest:
        guest.load(looping("while True:", *inner, "        pass"))
        with pytest.raises(GuestFault, match="no answer to 'compile'"):
            guest.compile([x, x])
        assert not guest.alive


def test_compiling_is_not_own_code():
    x = torch.empty(64, device="meta")
    with shared("compile").guest(Limits(wall_s=30.0, own_code_s=0.02)) as guest:
        guest.load(ADD)  # takes some 40 ms to compile
        assert guest.compile([x, x]).usage.keys() == {"add"}
