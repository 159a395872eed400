"""The scan family: cumulative operators along any dimension, over rows of any length."""

from collections.abc import Callable

import pytest
from judging import compiled, faults

from kernelwright.core.candidate import Candidate
from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Program
from kernelwright.programs.resizing.variants import shape_variants
from kernelwright.teacher.reduction import scan
from kernelwright.teacher.writer import write
from kernelwright.verify.static import findings


def program(
    op: str, of: tuple[int, ...], kind: str = "float32", dim: int = -1, **given: object
) -> Program:
    b = Builder()
    return b.program(b.call(op, input=b.input(TensorType(of, kind)), dim=dim, **given))


def best(made: Program) -> list[Candidate]:
    return write(made, limit=1, seed=0, precision="strict")


@pytest.mark.parametrize("op", scan.SCANS)
@pytest.mark.parametrize(
    ("of", "dtype", "dim"),
    [((3, 21), "float32", 1), ((2, 5, 3, 4), "bfloat16", 1), ((17,), "float16", 0)],
    ids=["rows", "planes", "vector"],
)
def test_rows_anywhere_in_memory(op, of, dtype, dim):
    made = program(op, of, dtype, dim)
    assert faults(made, best(made)) == []


@pytest.mark.parametrize("op", scan.SCANS)
def test_long_rows_are_walked_in_blocks(op):
    made = program(op, (3, 200))
    tile = (2, 32, 4)
    assert faults(made, [scan._Written(made).candidate(tile)]) == []


@pytest.mark.parametrize("op", ["cummax", "cummin"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_of_equal_values_the_last_counts(op, dtype):
    made = program(op, (4, 40), dtype)
    assert faults(made, best(made)) == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16"])
def test_narrow_integers_compile_too(dtype):
    """The interpreter does not mind that a loop changes a variable's type."""
    made = program("cummin", (3, 300), dtype, -1)
    assert compiled(made, best(made)[0])
    assert faults(made, best(made)) == []


@pytest.mark.parametrize("op", scan.SCANS)
def test_values_of_very_different_sizes(op):
    made = program(op, (6, 33))
    assert faults(made, best(made), family="spikes") == []


def fused() -> Program:
    """Both sides pointwise, the input joined from two, the result of both kinds used."""
    b = Builder()
    x, y = b.input(TensorType((3, 7, 5))), b.input(TensorType((3, 4, 5)))
    [t] = b.call("cat", tensors=(b.call("mul", input=x, other=0.5)[0], y), dim=1)
    values, places = b.call("cummax", input=t, dim=1)
    scale = b.input(TensorType((11, 1)))
    [u] = b.call("relu", input=b.call("add", input=values, other=scale)[0])
    return b.program([u, places, *b.call("mul", input=places, other=2)])


def channels_last() -> Program:
    b = Builder()
    x = b.input(TensorType((2, 6, 3, 4), "float32", Layout.CHANNELS_LAST))
    [t] = b.call("to_layout", input=x, memory_format="channels_last")
    [t] = b.call("cumsum", input=b.call("relu", input=t)[0], dim=1)
    return b.program(b.call("sigmoid", input=t))


def broadcast() -> Program:
    b = Builder()
    [t] = b.call("broadcast_to", input=b.input(TensorType((5, 1))), size=(5, 12))
    return b.program(b.call("cumsum", input=t, dim=1))


def backwards() -> Program:
    """From the end, and scaled there."""
    b = Builder()
    [t] = b.call("flip", input=b.input(TensorType((3, 2, 17))), dims=(2,))
    [t] = b.call("flip", input=b.call("cumsum", input=t, dim=2)[0], dims=(2,))
    return b.program(b.call("mul", input=t, other=b.input(TensorType((17,)))))


def exclusive() -> Program:
    """Sums of what comes before."""
    b = Builder()
    x = b.input(TensorType((4, 30)))
    [first] = b.call("zeros_like", input=b.call("slice", input=x, dim=1, end=1)[0])
    [t] = b.call("cat", tensors=(first, x), dim=1)
    [t] = b.call("slice", input=t, dim=1, end=-1)
    return b.program(b.call("cumsum", input=t, dim=1))


CASES: dict[str, Callable[[], Program]] = {
    "fused": fused,
    "channels-last": channels_last,
    "widened": lambda: program("cumsum", (3, 9), "int32"),
    "in another dtype": lambda: program("cumprod", (3, 9), "int32", dtype="float32"),
    "a column broadcast": broadcast,
    "backwards": backwards,
    "exclusive": exclusive,
}


@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_what_surrounds_a_scan_is_fused(build):
    made = build()
    candidates = best(made)
    assert [len(candidate.plan) for candidate in candidates] == [1]
    assert faults(made, candidates) == []


def test_candidates_hold_at_odd_sizes_they_were_not_written_for():
    made = program("cumsum", (4, 64, 32), dim=1)
    [variant] = shape_variants(made, 1, seed=2, max_elements=1 << 11)
    assert faults(variant, best(made)) == []


def test_candidates_are_distinct_legal_and_repeat_with_the_seed():
    made = program("logcumsumexp", (64, 4096))
    one, same = (write(made, limit=4, seed=3, precision="strict") for _ in range(2))
    assert one == same
    assert len({candidate.source for candidate in one}) == 4
    for candidate in one:
        assert all(f.is_hint for f in findings(candidate.source, "pure", "fused_operator"))


def test_tensors_of_2_to_the_31_elements_use_64_bit_offsets():
    [candidate] = best(program("cumsum", (1 << 10, 1 << 12, 1 << 9), dim=1))
    assert "pid, num_m = tl.program_id(0).to(tl.int64), " in candidate.source
    assert "ValueError" not in candidate.source


def test_two_scans_are_not_claimed():
    b = Builder()
    [t] = b.call("cumsum", input=b.input(TensorType((4, 5))), dim=0)
    assert not scan.classify(b.program(b.call("cumsum", input=t, dim=1)))
    assert not scan.classify(program("cumsum", (5, 1)))
