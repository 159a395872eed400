"""Pointwise calls without a record fall apart where all of their parts have one."""

import pytest
import torch
import torch.nn.functional as F
from functions_as_modules import lowered

from kernelwright.programs import reference
from kernelwright.programs.lowering.lower import lower

APART = {
    "angle": torch.angle,
    "clamp": lambda x, y: x.clamp(y, y + 1),
    "fix": torch.fix,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "frac": torch.frac,
    "isclose": torch.isclose,
    "isfinite": torch.isfinite,
    "isinf": torch.isinf,
    "isneginf": torch.isneginf,
    "ldexp": torch.ldexp,
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "nan_to_num": torch.nan_to_num,
    "prelu": F.prelu,
    "round": lambda x: x.round(decimals=2),
}
BINARY = ("clamp", "fmax", "fmin", "isclose", "ldexp", "logaddexp", "logaddexp2")
WHOLE = {
    "aten.nextafter.default": torch.nextafter,
    "aten.copysign.Tensor": torch.copysign,
    "aten.i0.default": lambda x, _: torch.i0(x),
}
"""Their decompositions end in calls that have no record."""


def operands(name: str) -> list[torch.Tensor]:
    x, y = torch.randn(4, 6) * 3, torch.randn(4, 6)
    if name == "prelu":
        return [x, torch.rand(6)]
    x[0, :3] = torch.tensor([float("inf"), float("-inf"), float("nan")])
    return [x, y] if name in BINARY else [x]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(APART))
def test_calls_fall_apart_into_operators_and_compute_the_same(name):
    given = operands(name)
    program = lowered(APART[name], *given)
    assert [call.op for call in program.calls if call.is_extern] == []
    [made], wanted = reference.run(program, given), APART[name](*given)
    torch.testing.assert_close(made, wanted, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fmax", "isfinite", "nan_to_num"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_calls_on_other_floats_compute_the_same(name, dtype):
    given = [x.to(dtype) for x in operands(name)]
    [made] = reference.run(lowered(APART[name], *given), given)
    torch.testing.assert_close(made, APART[name](*given), equal_nan=True)


@pytest.mark.parametrize("overload", sorted(WHOLE))
def test_calls_whose_parts_have_no_record_stay_whole(overload):
    program = lowered(WHOLE[overload], torch.randn(4), torch.randn(4))
    assert [call.op for call in program.calls] == [overload]


def test_a_call_stays_whole_where_its_parts_would_round_oftener():
    program = lowered(APART["round"], torch.randn(4, dtype=torch.float16))
    assert [call.op for call in program.calls] == ["aten.round.decimals"]


def test_a_call_stays_whole_where_its_dtype_is_left_to_pytorch():
    x = torch.randn(4, dtype=torch.complex64)
    assert [call.op for call in lowered(lambda x: torch.angle(x), x).calls if call.is_extern]


def test_what_comes_up_in_a_decomposition_falls_apart_too():
    program = lowered(lambda x: F.prelu(torch.nan_to_num(x), x[0, 0]), torch.randn(4, 6))
    assert not any(call.is_extern for call in program.calls)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inv", "cholesky", "solve", "lu_factor"])
def test_functions_that_check_their_results_stay_whole(name):
    """Apart, the check would be an effect, which needs a token as input."""
    wanted = getattr(torch.linalg, name)

    class Checked(torch.nn.Module):
        def forward(self, x):
            x = x @ x.mT + torch.eye(4)
            return wanted(x, x) if name == "solve" else wanted(x)

    x = torch.randn(2, 4, 4)
    program = lower(Checked(), (x,), {}).program
    assert any(call.op.startswith(f"aten.linalg_{name}") for call in program.calls)
    [result, *_] = reference.run(program, [x])
    expected = Checked()(x)
    torch.testing.assert_close(result, expected if name != "lu_factor" else expected[0])


@pytest.mark.parametrize("sizes", [(300,), (7, 300), (70_000, 2)])
def test_an_identity_matrix_falls_apart_into_calls_with_records(sizes):
    """PyTorch's decomposition counts in uint8 or uint16, which no CUDA kernel of `arange` knows."""
    program = lowered(lambda x: x + torch.eye(*sizes), torch.randn(sizes[0], sizes[-1]))
    assert not any(call.is_extern for call in program.calls)
    x = torch.randn(sizes[0], sizes[-1])
    assert torch.equal(reference.run(program, [x])[0], x + torch.eye(*sizes))
