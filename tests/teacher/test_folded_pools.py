"""What moves elements in front of a pool, or beside its result, is part of its kernel."""

from collections.abc import Callable

import pytest
from judging import faults_here_and_at_other_sizes
from sketch import Sketch

from kernelwright.programs.program import Program
from kernelwright.teacher.writer import family, write

HALVES = {"kernel_size": (3, 3), "stride": (2, 2)}


def joined_channels() -> Program:
    s = Sketch()
    joined = s.cat(tensors=(s.input(2, 3, 9, 10), s.input(2, 2, 9, 10)), dim=1)
    return s.program(s.relu(s.max_pool2d(joined, padding=(1, 1), **HALVES)))


def padded_with_ones() -> Program:
    s = Sketch()
    padded = s.pad(s.input(2, 3, 9, 10), pad=(1, 2, 0, 1), value=1.0)
    return s.program(s.avg_pool2d(padded, **HALVES))


def every_second() -> Program:
    s = Sketch()
    cut = s.slice(s.relu(s.input(2, 3, 19)), dim=2, start=2, step=2)
    return s.program(s.avg_pool1d(cut, kernel_size=(3,), stride=(1,)))


def a_crop_added() -> Program:
    s = Sketch()
    t = s.max_pool2d(s.input(2, 3, 9, 10), **HALVES)
    return s.program(s.add(t, s.slice(s.input(2, 3, 8, 4), dim=2, start=4)))


def rolled() -> Program:
    s = Sketch()
    t = s.roll(s.input(2, 3, 9, 10), shifts=(2,), dims=(3,))
    return s.program(s.max_pool2d(t, **HALVES))


PROGRAMS: tuple[Callable[[], Program], ...] = (
    joined_channels,
    padded_with_ones,
    every_second,
    a_crop_added,
    rolled,
)


@pytest.mark.slow
@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_what_moves_elements_is_folded_and_right(build):
    program = build()
    assert family(program) == "pooling"
    assert faults_here_and_at_other_sizes(program, write(program, limit=2)) == []
