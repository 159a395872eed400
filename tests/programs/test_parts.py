"""What models are asked for: fragments without views at their rim, and parts of what failed."""

from drawing import programs
from hypothesis import given, settings

from kernelwright.programs.fragments.fragment import RELABELLING, CallGraph
from kernelwright.programs.fragments.parts import (
    MAX_CALLS,
    MAX_PARTS,
    smaller_parts,
    without_outer_views,
)
from kernelwright.programs.text import parse

TEXT = """
import torch
import torch.nn.functional as F


def get_inputs():
    x0 = torch.randn((2, 3, 8, 8), dtype=torch.float32)
    x1 = torch.randn((4, 3, 3, 3), dtype=torch.float32)
    x2 = torch.randn((4,), dtype=torch.float32)
    return [x0, x1, x2]


def fused_operator(x0, x1, x2):
    t0 = F.conv2d(x0, x1)
    t1 = torch.reshape(x2, shape=(-1, 1, 1))
    t2 = torch.add(t0, t1)
    t3 = F.relu(t2)
    t4 = torch.flatten(t3, start_dim=1)
    t5 = torch.softmax(t4, dim=1)
    t6 = torch.unsqueeze(t5, dim=0)
    return [t6]
"""
BIASED = parse(TEXT)
WHOLE = frozenset(range(7))


def test_views_of_what_is_given_and_of_what_is_made_are_left_out():
    inner = without_outer_views(BIASED, WHOLE, CallGraph(BIASED))
    assert inner == {0, 2, 3, 4, 5}, "the view in between has to be read around"


def test_views_alone_are_left_as_they_are():
    assert without_outer_views(BIASED, frozenset({1}), CallGraph(BIASED)) == {1}


def test_what_would_fall_apart_without_its_views_stays_whole():
    apart = parse(
        """
import torch


def get_inputs():
    x0 = torch.randn((6, 4), dtype=torch.float32)
    return [x0]


def fused_operator(x0):
    t0 = torch.reshape(x0, shape=(24,))
    t1 = torch.exp(t0)
    t2 = torch.tanh(t0)
    return [t1, t2]
"""
    )
    assert without_outer_views(apart, frozenset(range(3)), CallGraph(apart)) == {0, 1, 2}


def test_parts_hold_no_product_and_come_by_size():
    parts = smaller_parts(BIASED, WHOLE, known=[frozenset({2, 3})])
    assert parts[0] == {3, 4, 5}
    assert all(0 not in part and 1 not in part for part in parts)
    assert frozenset({2, 3}) not in parts, "known already"
    assert {frozenset({2}), frozenset({3}), frozenset({5})} <= set(parts)
    assert [len(part) for part in parts] == sorted(map(len, parts), reverse=True)


def test_parts_hold_no_call_that_draws():
    drawing = parse(TEXT.replace("F.relu(t2)", "F.dropout(t2, p=0.5)"))
    parts = smaller_parts(drawing, WHOLE, known=[])
    assert parts == [{2}, {5}]


def test_a_part_that_failed_too_has_nothing_new_in_it():
    parts = smaller_parts(BIASED, WHOLE, known=[])
    assert smaller_parts(BIASED, parts[0], known=parts) == []


@settings(max_examples=40, deadline=None)
@given(programs())
def test_parts_of_any_program_can_be_taken_out(program):
    whole = frozenset(range(len(program.calls)))
    parts = smaller_parts(program, whole, known=[])
    assert len(parts) <= MAX_PARTS
    assert len(set(parts)) == len(parts)
    for part in [*parts, without_outer_views(program, whole, CallGraph(program))]:
        assert part <= whole
        assert CallGraph(program).is_convex(part)
    for part in parts:
        assert len(part) <= MAX_CALLS
        assert CallGraph(program).is_connected(part)
        assert any(program.calls[i].op not in RELABELLING for i in part)
