"""Quotients and roots that decide something discrete are the nearest floats, bit for bit."""

import pytest
import torch
from judging import compiled
from sketch import Sketch

from kernelwright.programs import reference
from kernelwright.programs.program import Program
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.shared.contract import GuestCall
from kernelwright.teacher.text.divisions import rounded_values
from kernelwright.teacher.writer import write


def sources(program: Program) -> list[str]:
    return [c.source for c in write(program, limit=50, seed=0, precision="strict")]


def differing(program: Program, inputs: list[torch.Tensor]) -> list[str]:
    """Candidates that do not give PyTorch's own bits."""
    wanted = reference.run(program, inputs)
    wrong = []
    with shared("cpu").guest() as guest:
        for source in sources(program):
            guest.load(source)
            made = guest.run("candidate", GuestCall(inputs, seed=0)).outputs
            if not all(map(torch.equal, made, wanted)):
                wrong.append(source)
    return wrong


def quantiser(scale: float | None, *, size: int = 300) -> Program:
    """clamp(round(x / scale) + zero, -128, 127), with the scale as a tensor or a number."""
    s = Sketch()
    x, zero = s.input(7, size), s.input(1)
    quotient = s.div(x, s.input(1) if scale is None else scale)
    return s.program(s.clamp(s.add(s.round(quotient), zero), min=-128.0, max=127.0))


def ties(scale: torch.Tensor, *shape: int) -> torch.Tensor:
    """The floats around (k + 1/2) * scale: their quotients lie at ties or an ulp beside them."""
    count = torch.Size(shape).numel()
    at = (torch.arange(count) // 3 - count // 6 + 0.5) * scale
    beside = torch.arange(count) % 3 - 1.0
    return torch.nextafter(at, at + beside * at.abs()).reshape(shape)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.1, 0.02, 1 / 3, 0.7])
def test_a_quantiser_has_pytorchs_bits_at_every_tie(scale):
    step = torch.tensor([scale])
    x, zero = ties(step, 7, 300), torch.tensor([3.0])
    for program in (quantiser(None), quantiser(scale)):
        inputs = [x, zero, step][: len(program.inputs)]
        assert all("tl.div_rn(" in source for source in sources(program))
        assert differing(program, inputs) == []


def test_quantised_rows_have_scales_that_are_the_nearest_floats():
    s = Sketch()
    x = s.input(5, 96)
    scale = s.div(s.amax(s.abs(x), dim=-1, keepdim=True), 127.0)
    codes = s.to_dtype(s.round(s.div(x, scale)), dtype="int8")
    program = s.program(codes, scale)
    texts = sources(program)
    assert texts
    assert all(text.count("tl.div_rn(") >= 2 for text in texts)
    assert differing(program, [torch.randn(5, 96)]) == []


def test_the_quotient_after_a_product_and_before_a_round_is_the_nearest_float():
    s = Sketch()
    x, w, step = s.input(20, 32), s.input(24, 32), s.input(1)
    program = s.program(s.round(s.div(s.linear(x, w), step)))
    texts = sources(program)
    assert texts
    assert all("tl.div_rn(" in text for text in texts)


def test_kernels_with_nearest_quotients_and_roots_compile():
    s = Sketch()
    x, step = s.input(7, 300), s.input(1)
    root = s.sqrt(s.abs(s.div(x, step)))
    program = s.program(s.floor(s.div(root, 0.1)), s.round(s.reciprocal(root)))
    [candidate] = write(program, limit=1, seed=0, precision="strict")
    assert "tl.sqrt_rn(" in candidate.source
    assert compiled(program, candidate)


@pytest.mark.parametrize(
    "discrete",
    [
        lambda s, t: s.floor(t),
        lambda s, t: s.ceil(s.mul(t, 2.0)),
        lambda s, t: s.gt(s.tanh(t), 0.5),
        lambda s, t: s.sign(s.sub(t, 1.0)),
        lambda s, t: s.remainder(t, 0.5),
        lambda s, t: s.argmax(t, dim=-1),
        lambda s, t: s.to_dtype(s.permute(t, dims=(1, 0)), dtype="int32"),
        lambda s, t: s.div(t, 0.25, rounding_mode="floor"),
        lambda s, t: s.round(s.amax(t, dim=0)),
    ],
    ids=["floor", "ceil", "gt", "sign", "remainder", "argmax", "int", "floor_div", "amax"],
)
def test_values_that_decide_are_seen_through_what_passes_them_on(discrete):
    s = Sketch()
    x, y = s.input(4, 9), s.input(4, 9)
    quotient = s.div(x, y)
    assert rounded_values(s.program(discrete(s, quotient), quotient)) == {quotient.name}


def test_quotients_that_stay_floats_keep_the_fast_form():
    s = Sketch()
    x, y = s.input(4, 9), s.input(4, 9)
    root = s.sqrt(s.div(x, y))
    program = s.program(s.mul(root, s.round(y)), s.sum(root, dim=-1))
    assert rounded_values(program) == frozenset()
    assert not any("tl.div_rn(" in source for source in sources(program))


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_whole_quotients_have_pytorchs_bits(mode):
    s = Sketch()
    x, y = s.input(6, 500), s.input(6, 500)
    program = s.program(s.div(x, y, rounding_mode=mode), s.div(x, 0.1, rounding_mode=mode))
    steps = torch.tensor([0.1, 0.3, -0.7, 1 / 3, 5.0, -2.5])[:, None].expand(6, 500).contiguous()
    whole = (torch.arange(3000.0).reshape(6, 500) // 3 - 500) * steps
    beside = (torch.arange(3000).reshape(6, 500) % 3 - 1.0) * whole.abs()
    x = torch.nextafter(whole, whole + beside)
    steps[0, :3] = 0.0
    x[0, :3] = torch.tensor([1.0, -2.0, 3.0])
    assert differing(program, [x, steps]) == []
