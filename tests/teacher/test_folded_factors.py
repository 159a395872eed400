"""What moves elements in front of a product, or beside its result, is part of its kernel."""

from collections.abc import Callable

import pytest
from judging import SHARED_LIMIT_BYTES, compiled, faults_here_and_at_other_sizes
from sketch import Sketch

from kernelwright.programs.program import Program, Ref
from kernelwright.teacher.ways import written
from kernelwright.teacher.writer import family, ways, write


def wrong(program: Program) -> list[str]:
    """What is wrong with two candidates here, and at other sizes of the same attributes."""
    return faults_here_and_at_other_sizes(program, write(program, limit=2))


def by(s: Sketch, x: Ref, k: int, n: int = 24) -> Program:
    """The product of a factor with an input."""
    return s.program(s.relu(s.matmul(x, s.input(k, n))))


def joined_along_the_sum() -> Program:
    s = Sketch()
    return by(s, s.cat(tensors=(s.input(20, 33), s.mul(s.input(20, 9), other=2.0)), dim=1), 42)


def joined_rows() -> Program:
    s = Sketch()
    return by(s, s.cat(tensors=(s.input(13, 30), s.input(8, 30), s.input(4, 30)), dim=0), 30)


def stacked_heads() -> Program:
    s = Sketch()
    t = s.stack(tensors=(s.input(9, 20), s.input(9, 20)), dim=0)
    return s.program(s.matmul(t, s.input(2, 20, 17)))


def padded_with_ones() -> Program:
    s = Sketch()
    return by(s, s.pad(s.input(21, 30), pad=(2, 3), value=1.0), 35)


def every_second_column() -> Program:
    s = Sketch()
    return by(s, s.slice(s.input(18, 64), dim=1, start=3, end=60, step=2), 29)


def a_head_of_a_joint_projection() -> Program:
    s = Sketch()
    qkv = s.reshape(s.input(2, 12, 90), shape=(2, 12, 3, 5, 6))
    parts = s.permute(qkv, dims=(2, 0, 3, 1, 4))
    q, k = s.select(parts, dim=0, index=0), s.select(parts, dim=0, index=1)
    return s.program(s.matmul(q, s.transpose(k, dim0=-2, dim1=-1)))


def embedded_tokens() -> Program:
    s = Sketch()
    t = s.embedding(s.input(3, 7, dtype="int64"), s.input(11, 40))
    return s.program(s.linear(t, s.input(16, 40)))


def weights_flipped_and_repeated() -> Program:
    s = Sketch()
    w = s.repeat(s.flip(s.input(8, 20), dims=(0,)), repeats=(3, 1))
    return s.program(s.matmul(s.input(19, 24), w))


def half_joined() -> Program:
    s = Sketch()
    a, b = s.input(20, 32, dtype="float16"), s.input(20, 16, dtype="float16")
    w = s.input(48, 24, dtype="float16")
    return s.program(s.mm(s.cat(tensors=(a, b), dim=1), w))


def bias_and_residual_moved() -> Program:
    s = Sketch()
    bias = s.cat(tensors=(s.input(10), s.input(14)), dim=0)
    residual = s.slice(s.input(30, 24), dim=0, start=4, end=23)
    t = s.linear(s.input(19, 40), s.input(24, 40), bias)
    return s.program(s.add(s.tanh(t), residual))


def joined_by_a_vector() -> Program:
    s = Sketch()
    return s.program(s.mv(s.cat(tensors=(s.input(20, 33), s.input(20, 9)), dim=1), s.input(42)))


PROGRAMS: tuple[Callable[[], Program], ...] = (
    joined_along_the_sum,
    joined_rows,
    stacked_heads,
    padded_with_ones,
    every_second_column,
    a_head_of_a_joint_projection,
    embedded_tokens,
    weights_flipped_and_repeated,
    half_joined,
    bias_and_residual_moved,
    joined_by_a_vector,
)


@pytest.mark.slow
@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_what_moves_elements_is_folded_and_right(build):
    program = build()
    assert family(program) == "matmul"
    assert wrong(program) == []


def test_what_stays_in_the_loop_is_found_before_it():
    [candidate] = write(embedded_tokens(), limit=1, seed=0, precision="strict")
    before, _, _ = candidate.source.partition("for k in range")
    assert "picked_a_0 = " in before


def test_a_joined_factor_of_a_large_product_fits_hopper():
    s = Sketch()
    joined = s.cat(tensors=(s.input(2048, 1024), s.input(2048, 1024)), dim=1)
    program = by(s, joined, 2048, 4096)
    [candidate] = write(program, limit=1, seed=0, precision="strict")
    [usage] = compiled(program, candidate)
    assert usage.spills <= 128
    assert usage.shared_bytes <= SHARED_LIMIT_BYTES


@pytest.mark.parametrize(("shape", "stages"), [((2048,), {2}), ((2048, 2048), set())])
def test_stages_are_cut_to_what_fills_tiles(shape, stages):
    """A vector beside the factor takes next to nothing, a second matrix as much as the first."""
    s = Sketch()
    scaled = s.mul(s.input(2048, 2048), s.input(*shape))
    found = [c.plan[0].tiles for c in written(ways(by(s, scaled, 2048, 4096)))]
    large = [t for t in found if (t["BLOCK_M"], t["BLOCK_N"], t["BLOCK_K"]) == (128, 128, 64)]
    assert {tiles["num_stages"] for tiles in large} == stages


def test_sizes_of_joined_factors_are_read_from_all_of_them():
    [candidate] = write(joined_rows(), limit=1, seed=0, precision="strict")
    assert " = x0.shape[0] + x1.shape[0] + x2.shape[0]\n" in candidate.source


def by_a_number(s: Sketch) -> Ref:
    return s.full(size=(9, 5), fill_value=0.5, dtype="float32")


def by_one_repeated_column(s: Sketch) -> Ref:
    return s.repeat(s.input(9, 1), repeats=(1, 6))


@pytest.mark.parametrize("factor", [by_a_number, by_one_repeated_column])
def test_a_factor_without_one_of_its_axes_is_no_part_of_the_product(factor):
    s = Sketch()
    assert write(s.program(s.matmul(s.input(7, 9), factor(s)))) == []
