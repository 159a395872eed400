"""The comparison with CP-SAT draws what differs and asks the solver as often as it says."""

import pytest

from kernelwright.synth.sizes.measure import Measure
from tools.sampler.solver import comparison


def test_draws_differ_where_solutions_repeat():
    pytest.importorskip("ortools", reason="pip install 'ortools>=9.14'")
    found = list(comparison(4, num_draws=30))
    assert [each["measure"] for each in found] == list(Measure)
    assert all(each["different_draws"] > each["different_solutions"] >= 1 for each in found)
    assert all(each["proposals_a_draw"] >= 1 for each in found)
