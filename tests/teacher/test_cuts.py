"""The best cut has the least estimated time of all cuts."""

from collections.abc import Iterator

import pytest

from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.fragments.combine import circular
from kernelwright.programs.fragments.fragment import RELABELLING
from kernelwright.programs.program import Program
from kernelwright.programs.text import parse
from kernelwright.programs.traffic import cut_seconds
from kernelwright.synth.benchmark import benchmark_programs
from kernelwright.teacher.cuts import ProgramCuts

Part = frozenset[int]
LINES = [line for line in benchmark_programs() if line["drawn"]["group"] == "level-5"][::9]


def all_cuts(program: Program, parts: list[Part], left: Part) -> Iterator[list[Part]]:
    """Every choice of disjoint parts that hold all calls of `left`."""
    if not left:
        yield []
        return
    for part in parts:
        if min(left) in part:
            disjoint = [other for other in parts if not other & part]
            for rest in all_cuts(program, disjoint, left - part):
                yield [part, *rest]


def computing(program: Program) -> Part:
    return frozenset(i for i, call in enumerate(program.calls) if call.op not in RELABELLING)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_no_other_cut_is_faster(line, size):
    program = parse(line["text"])
    cuts = ProgramCuts(program)
    every = [
        cut
        for cut in all_cuts(program, cuts._limited(size), computing(program))
        if not circular(program, cut)
    ]
    best = cuts.best(size, {})
    assert every, "single calls are always a cut"
    assert cut_seconds(program, best) == pytest.approx(
        min(cut_seconds(program, cut) for cut in every), rel=1e-9
    )
    assert all(len(part) <= size for part in best)


def chain() -> Program:
    builder = Builder()
    x = builder.input(TensorType((64, 256)))
    for op in ("relu", "exp", "tanh", "sigmoid"):
        (x,) = builder.call(op, input=x)
    return builder.program([x])


def test_a_part_that_launches_many_kernels_or_cannot_be_written_is_left_out():
    cuts = ProgramCuts(chain())
    pair = frozenset({0, 1})
    assert pair in cuts.best(2, {})
    for launches in ({pair: 9}, {pair: None}):
        assert pair not in cuts.best(2, launches)
    assert pair not in cuts.best(2, {}, frozenset({pair}))


def test_equal_programs_have_equal_cuts():
    for line in LINES:
        assert ProgramCuts(parse(line["text"])).best(2, {}) == ProgramCuts(
            parse(line["text"])
        ).best(2, {})
