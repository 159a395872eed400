"""Integers: shifts, masks, whole division, and weights of four bits taken out of bytes."""

import pytest
import torch
from judging import compiled, faults
from sketch import Sketch

from kernelwright.programs import reference
from kernelwright.programs.lowering.lower import lower
from kernelwright.programs.program import Program
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.shared.contract import GuestCall
from kernelwright.teacher.writer import write

BITS = {"uint8": 8, "int8": 8, "int32": 32, "int64": 64}


def differing(program: Program, inputs: list[torch.Tensor], limit: int = 50) -> list[str]:
    """Candidates that do not give PyTorch's own bits; there is at least one candidate."""
    wanted, wrong = reference.run(program, inputs), []
    candidates = write(program, limit=limit, seed=0, precision="strict")
    assert candidates
    with shared("cpu").guest() as guest:
        for candidate in candidates:
            guest.load(candidate.source)
            made = guest.run("candidate", GuestCall(inputs, seed=0)).outputs
            if not all(map(torch.equal, made, wanted)):
                wrong.append(candidate.source)
    return wrong


def whole_numbers(dtype: str, *shape: int) -> torch.Tensor:
    """Numbers of every size and sign that the dtype holds."""
    made = getattr(torch, dtype)
    low, high = torch.iinfo(made).min, torch.iinfo(made).max
    drawn = torch.randint(low // 2, high // 2, shape).to(made)
    drawn.view(-1)[:4] = torch.tensor([low, high, 0, 1], dtype=made)
    return drawn


@pytest.mark.slow
@pytest.mark.parametrize("dtype", sorted(BITS))
@pytest.mark.parametrize("side", ["left", "right"])
def test_shifts_have_pytorchs_bits_by_any_number_of_places(dtype, side):
    s = Sketch()
    x, places = s.input(5, 70, dtype=dtype), s.input(70, dtype=dtype)
    shift = getattr(s, f"bitwise_{side}_shift")
    numbers = [shift(x, n) for n in (0, 1, BITS[dtype] - 1, BITS[dtype], -1)]
    program = s.program(shift(x, places), shift(3, places), *numbers)
    by = (torch.arange(70) % (BITS[dtype] + 4) - (dtype != "uint8") * 2).to(getattr(torch, dtype))
    assert differing(program, [whole_numbers(dtype, 5, 70), by]) == []


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_whole_division_has_pytorchs_bits_for_every_sign(dtype):
    s = Sketch()
    x, y = s.input(4, 60, dtype=dtype), s.input(60, dtype=dtype)
    made = [s.div(x, y, rounding_mode=mode) for mode in ("floor", "trunc")]
    made += [s.div(x, 3, rounding_mode=mode) for mode in ("floor", "trunc")]
    program = s.program(*made, s.fmod(x, y), s.fmod(x, 3), s.remainder(x, y))
    by = torch.arange(60) % 9 + 1 if dtype == "uint8" else (torch.arange(60) % 9 - 4)
    by = torch.where(by == 0, 7, by).to(getattr(torch, dtype))
    assert differing(program, [whole_numbers(dtype, 4, 60), by]) == []


def test_remainders_and_cuts_of_floats_have_pytorchs_bits():
    s = Sketch()
    x, y = s.input(4, 60), s.input(60)
    program = s.program(s.fmod(x, y), s.fmod(x, 0.1), s.trunc(x), s.remainder(x, y))
    assert differing(program, [torch.randn(4, 60) * 20, torch.randn(60) + 3]) == []


class Unpacked(torch.nn.Module):
    """Two weights of four bits in each byte, (weight - 8) * scale, one scale for each row."""

    def forward(self, packed, scale):
        halves = torch.stack((packed & 0xF, (packed >> 4) & 0xF), dim=-1).reshape(12, 64)
        return (halves.to(torch.float32) - 8) * scale


class Product(Unpacked):
    def forward(self, packed, scale, x):
        return x @ super().forward(packed, scale).T


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
def test_weights_of_four_bits_are_unpacked_in_one_kernel(dtype):
    packed, scale = torch.randint(0, 256, (12, 32)).to(dtype), torch.rand(12, 1) + 0.1
    program = lower(Unpacked(), (packed, scale)).program
    assert not any(call.is_extern for call in program.calls)
    candidates = write(program, limit=4, seed=0, precision="strict")
    assert all(len(candidate.plan) == 1 for candidate in candidates)
    assert differing(program, [packed, scale], limit=4) == []
    assert compiled(program, candidates[0])


def test_weights_of_four_bits_are_unpacked_in_front_of_the_product():
    inputs = (torch.randint(0, 256, (12, 32)).byte(), torch.rand(12, 1) + 0.1, torch.randn(8, 64))
    program = lower(Product(), inputs).program
    candidates = write(program, limit=2, seed=0, precision="strict")
    assert candidates
    assert all(len(candidate.plan) == 1 for candidate in candidates)
    assert faults(program, candidates) == []
