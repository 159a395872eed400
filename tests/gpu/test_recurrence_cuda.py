"""Programs that wait for each other at every step of a recurrent layer, on a GPU."""

import pytest
import torch

from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.extern import RECURRENT
from kernelwright.programs.program import Init, Program
from kernelwright.teacher.writer import write
from kernelwright.verify.judge import Judge
from kernelwright.verify.program_task import program_task

STEPS, WIDTH, HIDDEN = 200, 64, 256
SMALL = Init("randn", 0.0, 0.04)
"""States neither grow without bound nor make chaos of rounding."""


@pytest.fixture(autouse=True)
def gpu():
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


def layer(op: str, batch: int) -> Program:
    b = Builder()
    x = b.input(TensorType((STEPS, batch, WIDTH), "float32"))
    state = TensorType((1, batch, HIDDEN), "float32")
    hx = tuple(b.input(state) for _ in range(2 if "lstm" in op else 1))
    rows = RECURRENT[op] * HIDDEN
    shapes = ((rows, WIDTH), (rows, HIDDEN), (rows,), (rows,))
    params = tuple(b.input(TensorType(shape, "float32"), SMALL) for shape in shapes)
    outputs = b.call(
        op, input=x, hx=hx if len(hx) > 1 else hx[0], params=params, has_biases=True,
        num_layers=1, dropout=0.0, train=True, bidirectional=False, batch_first=False,
    )  # fmt: skip
    return b.program(outputs)


@pytest.mark.parametrize("op", RECURRENT)
@pytest.mark.parametrize("batch", [10, 40])  # one group of samples, and three
def test_walks_together_are_right_and_faster_than_alone(op: str, batch: int):
    program = layer(op, batch)
    candidates = write(program, limit=8)
    with Judge("cuda", trusted=True) as judge:
        verdicts = judge.screen(program_task(program), candidates)
    assert [v.message for v in verdicts if not v.accepted] == []
    medians: dict[bool, list[float]] = {True: [], False: []}
    for candidate, verdict in zip(candidates, verdicts, strict=True):
        is_together = "PROGRAMS" in candidate.plan[1].tiles
        medians[is_together].append(verdict.times["candidate"].median_ms)
    assert min(medians[True]) < min(medians[False])
