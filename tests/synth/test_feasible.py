"""CP-SAT agrees with trying all values on whether a system has a solution."""

import sys

import pytest
from enumerating import CASES, A, B, C, Case, D, any_size
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.core.errors import UsageError
from kernelwright.synth.recipe import SizeLimits
from kernelwright.synth.sizes.equations import Contradiction, Equations
from kernelwright.synth.sizes.reading import read_system
from kernelwright.synth.sizes.system import Total
from tools.sampler.feasible import decide

pytest.importorskip("ortools", reason="OR-tools is not installed: pip install 'ortools>=9.14'")


def is_feasible(case: Case) -> bool:
    try:
        asked = read_system(case.shapes, case.equations(), case.limits, case.total)
        values = decide(asked)
    except Contradiction:
        return False
    assert values is not None
    assert asked.holds(values)
    return True


def test_without_or_tools_the_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    asked = read_system([(A, B)], Equations(), SizeLimits(low=1))
    with pytest.raises(UsageError, match="ortools"):
        decide(asked)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_cases_with_solutions_are_feasible(case):
    assert is_feasible(case)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(any_size(), any_size()), max_size=2),
    st.integers(1, 40),
    st.integers(0, 6),
    st.booleans(),
)
def test_it_agrees_with_trying_all(pairs, low, more, has_total):
    shapes = ((A, B), (C, D, 2), (A, D))
    total = Total((4, 2, 1), (low * 3, low * 3 + more)) if has_total else None
    case = Case(shapes, tuple(pairs), SizeLimits(low=1, high=6, elements=(low, low + more)), total)
    assert is_feasible(case) == bool(case.solutions())
