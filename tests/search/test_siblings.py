"""What won at one size is taken for other sizes when there is no time to tune them."""

from types import SimpleNamespace

import pytest
from test_settle import SlowJudge, set_clocks

from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Program
from kernelwright.search.search import Search
from kernelwright.search.siblings import kind
from kernelwright.timing.deadline import Budget
from kernelwright.verify.tasks.program_task import program_task


def searched(program: Program, monkeypatch):
    """The searched program, of which there was time to judge one fragment."""
    clock = SimpleNamespace(now=0.0)
    set_clocks(monkeypatch, clock, worked=False)
    search = Search(SlowJudge(clock), budget=Budget.start(600.0, wall_s=8.0))
    variant = search.variants(program, program_task(program))[-1]
    assert clock.now == 10.0
    return variant


def layers(*widths: int) -> Program:
    """tanh and a sum in a row of each width, apart."""
    b = Builder()
    made = []
    for width in widths:
        x, y = b.input(TensorType((width, 64))), b.input(TensorType((width, 64)))
        [x] = b.call("tanh", input=x)
        made += b.call("add", input=x, other=y)
    return b.program(made)


def test_without_time_what_won_is_taken_at_other_sizes_and_for_equals(monkeypatch):
    variant = searched(layers(256, 64, 32, 256), monkeypatch)
    assert len(variant.chosen) == 4
    by_width = {each.fragment.program.inputs[0].type.shape[0]: each for each in variant.tuned}
    assert by_width[256].saving == pytest.approx(1.0)
    assert by_width[64].saving == pytest.approx(0.25)
    assert by_width[256].best.schedule == by_width[64].best.schedule
    assert "not timed itself" in by_width[32].reason
    assert by_width[32].eager is None
    assert "fused_operator" in by_width[32].best.source


def test_products_are_not_taken_over(monkeypatch):
    b = Builder()
    made = []
    for width in (256, 64):
        x, y = b.input(TensorType((width, 64))), b.input(TensorType((width, 64)))
        [t] = b.call("linear", input=x, weight=y)
        made += b.call("tanh", input=t)
    variant = searched(b.program(made), monkeypatch)
    assert [len(each.fragment.calls) for each in variant.tuned] == [2]


def one(*shape: int, layout: Layout = Layout.CONTIGUOUS, dim: int = 1) -> Program:
    b = Builder()
    return b.program(b.call("softmax", input=b.input(TensorType(shape, layout=layout)), dim=dim))


def test_a_kind_is_calls_and_attributes_without_sizes():
    assert kind(one(2, 3, 4, 5)) == kind(one(9, 8, 7, 6))
    assert kind(one(2, 3, 4, 5)) != kind(one(2, 3, 4, 1))
    assert kind(one(2, 3, 4, 5)) != kind(one(2, 3, 4, 5, dim=2))
    assert kind(one(2, 3, 4, 5)) != kind(one(2, 3, 4, 5, layout=Layout.CHANNELS_LAST))
    assert kind(one(2, 3, 4, 5)) != kind(layers(2))
