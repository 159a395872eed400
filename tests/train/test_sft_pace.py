"""How the learning rate follows a budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.train.pace import Pace, rate_factor
from kernelwright.train.recipe import CheckpointSettings, Decay, OptimizerSettings, TrainingBudget

PLAIN = OptimizerSettings(warmup_steps=0)


def test_progress_is_of_steps_or_of_the_clock():
    by_steps = Pace(TrainingBudget(steps=200), CheckpointSettings(), 200)
    assert [by_steps.progress(step) for step in (0, 50, 200, 300)] == [0, 0.25, 1, 1]
    by_clock = Pace(TrainingBudget(minutes=2.0), CheckpointSettings(), 10**9)
    by_clock.seconds = 30.0
    assert by_clock.progress(7) == 0.25


@pytest.mark.parametrize(
    ("decay", "half"), [(Decay.LINEAR, 0.55), (Decay.COSINE, 0.55), (Decay.CONSTANT, 1.0)]
)
def test_the_rate_goes_down_to_its_share(decay, half):
    optimizer = OptimizerSettings(warmup_steps=0, decay=decay, final_share=0.1)
    factors = [rate_factor(optimizer, progress=p, since_began=9) for p in (0.0, 0.5, 1.0)]
    assert factors == pytest.approx([1.0, half, 1.0 if decay is Decay.CONSTANT else 0.1])


@given(st.integers(1, 50), st.floats(0, 1))
def test_warming_up_is_even_and_then_no_more(steps, progress):
    optimizer = OptimizerSettings(warmup_steps=steps)
    whole = rate_factor(PLAIN, progress=progress, since_began=0)
    found = [rate_factor(optimizer, progress=progress, since_began=n) for n in range(steps + 2)]
    wanted = [whole * min(1, (n + 1) / (steps + 1)) for n in range(steps + 2)]
    assert found == pytest.approx(wanted)
