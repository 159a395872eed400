"""Programs that wait for each other at every step of a recurrent layer, on a GPU."""

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Verdict
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.extern import RECURRENT
from kernelwright.programs.program import Init, Program
from kernelwright.teacher.writer import write
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.program_task import program_task

STEPS, WIDTH, HIDDEN = 200, 64, 256
SMALL = Init("randn", 0.0, 0.04)
"""States neither grow without bound nor make chaos of rounding."""


def layers(op: str, batch: int, *, num: int = 1, both: bool = False, dtype: str = "float32"):
    b = Builder()
    x = b.input(TensorType((STEPS, batch, WIDTH), dtype))
    cells, rows = num * (1 + both), RECURRENT[op] * HIDDEN
    state = TensorType((cells, batch, HIDDEN), dtype)
    hx = tuple(b.input(state) for _ in range(2 if "lstm" in op else 1))
    params = []
    for cell in range(cells):
        width = WIDTH if cell < 1 + both else (1 + both) * HIDDEN
        for shape in ((rows, width), (rows, HIDDEN), (rows,), (rows,)):
            params.append(b.input(TensorType(shape, dtype), SMALL))
    outputs = b.call(
        op, input=x, hx=hx if len(hx) > 1 else hx[0], params=tuple(params), has_biases=True,
        num_layers=num, dropout=0.0, train=True, bidirectional=both, batch_first=False,
    )  # fmt: skip
    return b.program(outputs)


def screened(program: Program) -> list[tuple[Candidate, Verdict]]:
    candidates = write(program, limit=8)
    with Judge(JudgeOptions(device="cuda", mode="pure"), trusted=True) as judge:
        return list(zip(candidates, judge.screen(program_task(program), candidates), strict=True))


def walks_together(candidate: Candidate) -> bool:
    return "PROGRAMS" in candidate.plan[1].tiles


@pytest.mark.parametrize("op", RECURRENT)
@pytest.mark.parametrize("batch", [10, 40])  # one group of samples, and three
def test_walks_together_are_right_and_faster_than_alone(op: str, batch: int):
    found = screened(layers(op, batch))
    assert [verdict.message for _, verdict in found if not verdict.accepted] == []
    medians: dict[bool, list[float]] = {True: [], False: []}
    for candidate, verdict in found:
        medians[walks_together(candidate)].append(verdict.times["candidate"].median_ms)
    assert min(medians[True]) < min(medians[False])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_layers_and_directions_follow_each_other(dtype: str):
    found = screened(layers("aten.lstm.input", 20, num=3, both=True, dtype=dtype))
    assert any(walks_together(candidate) for candidate, _ in found)
    assert [verdict.message for _, verdict in found if not verdict.accepted] == []


def test_programs_that_cannot_all_run_at_once_are_an_error_and_no_endless_wait():
    program = layers("aten.lstm.input", 10)
    candidate = next(c for c in write(program, limit=8) if walks_together(c))
    many = candidate.source.replace("n_groups)](", "2000 * n_groups)](")
    assert many != candidate.source
    with Judge(JudgeOptions(device="cuda", mode="pure"), trusted=True) as judge:
        [verdict] = judge.screen(program_task(program), [Candidate(source=many)])
    assert not verdict.accepted
    assert "cooperative" in verdict.message
