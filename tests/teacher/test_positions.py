"""Positions, constants and picks by computed indices are fused: masks and biases of attention."""

from collections.abc import Callable

import pytest
from judging import compiled, faults_here_and_at_other_sizes
from sketch import Sketch

from kernelwright.programs.program import Program, Ref
from kernelwright.teacher.writer import family, write


def causal_mask(s: Sketch, size: int) -> Ref:
    """Rows and columns are two views of one `arange`."""
    places = s.arange(start=0, end=size)
    return s.le(s.unsqueeze(places, dim=0), s.unsqueeze(places, dim=1))


def masked_softmax() -> Program:
    s = Sketch()
    low = s.full(size=(), fill_value=-1e9)
    scores = s.where(causal_mask(s, 37), s.input(3, 37, 37), low)
    return s.program(s.softmax(scores, dim=-1))


def masked_alone() -> Program:
    s = Sketch()
    return s.program(s.where(causal_mask(s, 33), s.input(5, 33, 33), s.full(size=(), fill_value=0)))


def bias_by_distance() -> Program:
    """A table of biases, read at clamped distances of queries and keys."""
    s = Sketch()
    rows, columns = s.arange(start=0, end=19), s.arange(start=0, end=21)
    distance = s.sub(s.unsqueeze(columns, dim=0), s.unsqueeze(rows, dim=1))
    buckets = s.clamp(s.add(distance, 4), min=0, max=7)
    bias = s.permute(s.embedding(buckets, s.input(8, 3)), dims=(2, 0, 1))
    return s.program(s.softmax(s.add(s.input(2, 3, 19, 21), bias), dim=-1))


def bias_by_index() -> Program:
    """The bias of window attention: a table read at a buffer of positions, laid out anew."""
    s = Sketch()
    table, places = s.input(25, 4), s.input(9, 9, dtype="int64")
    picked = s.index(table, indices=(s.reshape(places, shape=(81,)),))
    bias = s.permute(s.reshape(picked, shape=(9, 9, 4)), dims=(2, 0, 1))
    return s.program(s.softmax(s.add(s.input(3, 4, 9, 9), s.unsqueeze(bias, dim=0)), dim=-1))


def index_with_a_gap() -> Program:
    s = Sketch()
    picked = s.index(s.relu(s.input(4, 7)), indices=(None, s.input(3, dtype="int64")))
    return s.program(s.softmax(s.mul(picked, 2), dim=-1))


def negative_index() -> Program:
    s = Sketch()
    places = s.sub(s.input(11, dtype="int64"), 3)
    return s.program(s.relu(s.index(s.input(17, 5), indices=(places,))))


def two_indices_around_a_gap() -> Program:
    s = Sketch()
    rows, columns = s.input(6, 1, dtype="int64"), s.input(5, dtype="int64")
    return s.program(s.exp(s.index(s.input(7, 3, 9), indices=(rows, None, columns))))


def steps() -> Program:
    s = Sketch()
    angles = s.arange(start=3, end=77, step=2, dtype="float32")
    return s.program(s.sin(s.mul(s.input(5, 37), angles)))


def one_position() -> Program:
    s = Sketch()
    return s.program(s.add(s.input(5, 9), s.arange(start=4, end=5, dtype="float32")))


def joined_with_constants() -> Program:
    s = Sketch()
    x = s.input(5, 30)
    ones = s.full(size=(5, 3), fill_value=1.5)
    return s.program(s.layer_norm(s.cat(tensors=(x, ones), dim=1), normalized_shape=(33,)))


def position_as_result() -> Program:
    """The largest element's offset from a position: sums over the axis of the positions."""
    s = Sketch()
    places = s.arange(start=0, end=45, dtype="float32")
    return s.program(s.sum(s.mul(s.softmax(s.input(7, 45), dim=1), places), dim=(1,)))


def shared_positions() -> Program:
    """A table of positions added to rows of words."""
    s = Sketch()
    words = s.embedding(s.input(2, 16, dtype="int64"), s.input(40, 24))
    places = s.embedding(s.unsqueeze(s.arange(start=0, end=16), dim=0), s.input(64, 24))
    return s.program(s.layer_norm(s.add(words, places), normalized_shape=(24,)))


def masked_product() -> Program:
    s = Sketch()
    scores = s.matmul(s.input(2, 33, 16), s.input(2, 16, 33))
    return s.program(s.where(causal_mask(s, 33), scores, s.full(size=(), fill_value=-1e9)))


def masked_attention() -> Program:
    s = Sketch()
    query, key, value = (s.input(2, 2, 17, 16) for _ in range(3))
    mask = causal_mask(s, 17)
    return s.program(s.scaled_dot_product_attention(query, key, value, attn_mask=mask))


def positions_on_both_axes() -> Program:
    s = Sketch()
    places = s.arange(start=0, end=8, dtype="float32")
    weighted = s.mul(s.mul(s.input(8, 8), places), s.unsqueeze(places, dim=1))
    return s.program(s.sum(weighted, dim=(0,)))


def positions_joined_by_a_view() -> Program:
    s = Sketch()
    places = s.reshape(s.arange(start=0, end=30), shape=(6, 5))
    return s.program(s.softmax(s.reshape(s.mul(s.input(4, 6, 5), places), shape=(4, 30)), dim=1))


def part_written_anew() -> Program:
    s = Sketch()
    x = s.input(5, 12)
    part = s.relu(s.slice(x, dim=1, start=2, end=8))
    return s.program(s.softmax(s.slice_scatter(x, part, dim=1, start=2, end=8), dim=1))


def row_written_anew() -> Program:
    s = Sketch()
    return s.program(s.exp(s.select_scatter(s.input(5, 12), s.input(12), dim=0, index=-1)))


REDUCED = (
    masked_softmax, bias_by_distance, bias_by_index, index_with_a_gap, joined_with_constants,
    position_as_result, shared_positions, positions_on_both_axes, positions_joined_by_a_view,
    part_written_anew,
)  # fmt: skip
MOVED = (
    masked_alone, negative_index, two_indices_around_a_gap, steps, one_position, row_written_anew,
)  # fmt: skip
KINDS = {
    **dict.fromkeys(REDUCED, "reduction"),
    **dict.fromkeys(MOVED, "movement"),
    masked_product: "matmul",
    masked_attention: "attention",
}


@pytest.mark.slow
@pytest.mark.parametrize("build", KINDS, ids=lambda build: build.__name__)
def test_positions_and_picks_are_part_of_one_kernel(build: Callable[[], Program]):
    program = build()
    assert family(program) == KINDS[build]
    by_form = {c.plan[0].loop: c for c in write(program, limit=20)}
    for candidate in by_form.values():
        assert len(candidate.plan) == 1 or "two_pass" in candidate.plan[0].loop
        assert compiled(program, candidate)
    assert faults_here_and_at_other_sizes(program, list(by_form.values())) == []


def test_a_program_without_inputs_is_left_to_pytorch():
    s = Sketch()
    assert family(s.program(causal_mask(s, 8))) is None
    assert write(s.program(s.arange(start=0, end=8)), limit=1) == []
