"""Which parts of a program become programs, and what is counted of the others."""

from collections import Counter

from kernelwright.data.collect import fragments
from kernelwright.data.collect.fragments import Parts
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.text import parse


def chain(*calls, shape=(4, 6)):
    """Unary calls, each of the one before."""
    builder = Builder()
    value = builder.input(TensorType(shape))
    for op, values in calls:
        first = "self" if op.startswith("aten.") else "input"
        value = builder.call(op, **{first: value}, **values)[0]
    return builder.program([value])


RELU, EXP = ("relu", {}), ("exp", {})
TRANSPOSE = ("transpose", {"dim0": 0, "dim1": 1})


def test_every_different_part_is_there_once_with_its_place():
    parts = Parts(chain(RELU, EXP, RELU, EXP), max_calls=3)
    found = {tuple(r["calls_in_module"]): r for r in parts.records()}
    assert set(found) == {(0,), (1,), (0, 1), (1, 2), (0, 1, 2), (1, 2, 3)}
    assert parts.counts == {"parts": 9, "repeated": 3}
    assert [call.op for call in parse(found[1, 2]["text"]).calls] == ["exp", "relu"]


def test_levels_choose_by_the_number_of_calls():
    parts = Parts(chain(RELU, EXP, ("tanh", {})), max_calls=3, levels=(1, 3))
    assert sorted(r["level"] for r in parts.records()) == [1, 1, 1, 3]
    assert parts.counts["level"] == 2


def test_externs_views_and_random_calls_are_no_programs():
    dropout = ("dropout", {"p": 0.5, "training": True})
    parts = Parts(chain(RELU, TRANSPOSE, ("aten.tril.default", {}), dropout), max_calls=4)
    found = [tuple(r["calls_in_module"]) for r in parts.records()]
    assert sorted(found) == [(0,), (0, 1)]
    assert Counter(parts.counts) == {"parts": 10, "views": 1, "extern": 6, "random": 1}


def test_a_call_with_too_many_parts_does_not_crowd_out_the_others(monkeypatch):
    monkeypatch.setattr(fragments, "MAX_PARTS_A_CALL", 2)
    program = chain(RELU, EXP, ("tanh", {}), ("sigmoid", {}), ("neg", {}))
    parts = Parts(program, max_calls=5)
    found = [tuple(r["calls_in_module"]) for r in parts.records()]
    assert found == [(0,), (0, 1), (1,), (1, 2), (2,), (2, 3), (3,), (3, 4), (4,)]
    assert parts.counts["cut"] == 4


def test_nothing_is_left_out_unseen():
    program = chain(RELU, TRANSPOSE, EXP, ("aten.tril.default", {}), RELU, RELU)
    parts = Parts(program, max_calls=6, levels=(1, 2, 4))
    num_records = len(list(parts.records()))
    left_out = sum(count for reason, count in parts.counts.items() if reason != "parts")
    assert left_out + num_records == parts.counts["parts"] == 21
