"""No grid has more blocks along y and z than CUDA allows."""

from unittest.mock import Mock

import pytest
import torch
import triton
from judging import faults
from sketch import Sketch

from kernelwright.core.candidate import Candidate
from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.program import Program
from kernelwright.programs.tensors import torch_dtype
from kernelwright.teacher.text import scope
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.text.scope import MAX_BLOCKS, launch_order
from kernelwright.teacher.writer import write


def wide_columns() -> Program:
    s = Sketch()
    return s.program(s.sum(s.input(2, 8, 5_000_000), dim=1))


def shared_wide_columns() -> Program:
    s = Sketch()
    return s.program(s.softmax(s.input(2, 3000, 2_000_000), dim=1))


def many_matrices() -> Program:
    s = Sketch()
    turned = s.permute(s.input(100_000, 33, 35), dims=(0, 2, 1))
    return s.program(s.add(turned, s.input(100_000, 35, 33)))


def tall_matrix() -> Program:
    s = Sketch()
    return s.program(s.add(s.t(s.input(40, 5_000_000)), s.input(5_000_000, 40)))


def wide_matrix() -> Program:
    s = Sketch()
    return s.program(s.add(s.t(s.input(5_000_000, 40)), s.input(40, 5_000_000)))


def long_rows() -> Program:
    s = Sketch()
    return s.program(s.add(s.input(3, 140_000_000), s.input(3, 1)))


def many_channels() -> Program:
    s = Sketch()
    x = s.builder.input(TensorType((1, 9_000_000, 4, 4), layout=Layout.CHANNELS_LAST))
    return s.program(s.max_pool2d(x, kernel_size=(2, 2)))


PROGRAMS = (
    wide_columns, shared_wide_columns, many_matrices, tall_matrix, wide_matrix, long_rows,
    many_channels,
)  # fmt: skip


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_no_grid_is_too_large_along_y_and_z(build):
    program = build()
    candidates = write(program, limit=20, draw="uniform")
    assert any(len(grid) > 1 for one in candidates for grid in grids(program, one))
    for candidate in candidates:
        for grid in grids(program, candidate):
            assert max(grid[1:], default=1) <= MAX_BLOCKS, candidate.source


def grids(program: Program, candidate: Candidate) -> list[tuple[int, ...]]:
    """The grids that the candidate's wrapper launches, at the program's own sizes."""
    launched: list[tuple[int, ...]] = []

    class Recorder:
        def __getitem__(self, grid: tuple[int, ...]):
            launched.append(grid)
            return Mock()

    names = {plan.kernel: Recorder() for plan in candidate.plan} | {
        "torch": torch,
        "triton": triton,
    }
    exec(candidate.source[candidate.source.index("def fused_operator") :], names)
    inputs = [
        torch.empty(value.type.shape, device="meta", dtype=torch_dtype(value.type.dtype))
        for value in program.inputs
    ]
    names["fused_operator"](*inputs)
    return launched


def summed_columns() -> Program:
    s = Sketch()
    return s.program(s.softmax(s.input(2, 8, 300), dim=1))


def turned_matrices() -> Program:
    s = Sketch()
    turned = s.permute(s.input(20, 33, 35), dims=(0, 2, 1))
    return s.program(s.add(turned, s.input(20, 35, 33)))


def cut_rows() -> Program:
    s = Sketch()
    return s.program(s.add(s.input(2, 5000), s.input(2, 1)))


def pooled_channels() -> Program:
    s = Sketch()
    x = s.builder.input(TensorType((1, 300, 5, 4), layout=Layout.CHANNELS_LAST))
    return s.program(s.max_pool2d(x, kernel_size=(2, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("build", [summed_columns, turned_matrices, cut_rows, pooled_channels])
def test_results_are_right_where_the_longest_dimension_is_moved_to_x(build, monkeypatch):
    usual = {candidate.source for candidate in write(build(), limit=60)}
    monkeypatch.setattr(scope, "MAX_BLOCKS", 4)
    moved = [c for c in write(build(), limit=60) if c.source not in usual]
    assert moved
    assert faults(build(), moved[:3]) == []


def test_two_dimensions_too_large_for_y_have_no_grid():
    assert launch_order(MAX_BLOCKS + 1, 2, 3) == [0, 1, 2]
    assert launch_order(2, 3, MAX_BLOCKS + 1) == [2, 0, 1]
    with pytest.raises(NotWritable):
        launch_order(MAX_BLOCKS + 1, MAX_BLOCKS + 1)
