"""Every reward on every kind of outcome, by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.verdict import Code, Stage, Timing, Verdict
from kernelwright.rewards.outcome import CHEATS, Outcome, Reached
from kernelwright.rewards.rewards import REWARDS, Reward, mixed, partial_credit, power_speed


def verdict(stage: Stage, code: Code, speedup: float | None = None) -> Verdict:
    times = {}
    if speedup is not None:
        pair = {"reference": speedup, "candidate": 1.0}
        times = {
            name: Timing(median_ms=ms, low_ms=ms, high_ms=ms, num_samples=9)
            for name, ms in pair.items()
        }
    return Verdict(
        accepted=code is Code.OK,
        stage=stage,
        code=code,
        message="",
        mode="pure",
        precision="strict",
        device="",
        times=times,
    )


def outcome(stage: Stage, code: Code, speedup: float | None = None) -> Outcome:
    return Outcome.of(verdict(stage, code, speedup))


FAST = outcome(Stage.ACCEPTED, Code.OK, 4.0)
SLOW = outcome(Stage.ACCEPTED, Code.OK, 0.5)
UNTIMED = outcome(Stage.ACCEPTED, Code.OK)
WRONG = outcome(Stage.COMPARE, Code.WRONG_VALUES)
CRASHED = outcome(Stage.RUN, Code.RUNTIME_ERROR)
UNCOMPILED = outcome(Stage.COMPILE, Code.COMPILE_ERROR)
NO_PYTHON = outcome(Stage.STATIC, Code.SYNTAX_ERROR)
LIBRARY = outcome(Stage.RUN, Code.LIBRARY_COMPUTE)
TORCH = outcome(Stage.STATIC, Code.FORBIDDEN)
DECOY = outcome(Stage.PROBE, Code.DECOY)
NOTHING = Outcome.of(None)

TABLE = {  # (plan, code) by outcome
    "rule_and_execution": {FAST: (1, 1), SLOW: (1, 1), WRONG: (0, 0), DECOY: (0, 0)},
    "hierarchical": {FAST: (2, 1), SLOW: (0.5, 1), UNTIMED: (1, 1), WRONG: (0, 0), DECOY: (0, 0)},
    "mixed": {FAST: (1.7, 1.7), SLOW: (0.65, 0.65), UNTIMED: (1, 1), CRASHED: (0, 0)},
    "log_speed": {FAST: (math.log(4),) * 2, SLOW: (-math.log(2),) * 2, WRONG: (0, 0)},
    "power_speed": {FAST: (4, 4), SLOW: (0.5, 0.5), UNTIMED: (1, 1), WRONG: (0, 0)},
    "partial_credit": {
        FAST: (1, 1),
        SLOW: (1, 1),
        WRONG: (0.3, 0.3),
        CRASHED: (0.2, 0.2),
        UNCOMPILED: (0.1, 0.1),
        NO_PYTHON: (0.05, 0.05),
        NOTHING: (0, 0),
        LIBRARY: (0, 0),
        TORCH: (0, 0),
        DECOY: (0, 0),
    },
}


@pytest.mark.parametrize("name", TABLE)
def test_rewards_are_those_of_the_table(name):
    for found, (plan, code) in TABLE[name].items():
        reward = REWARDS[name](found)
        assert (reward.plan, reward.code) == pytest.approx((plan, code)), found
        assert REWARDS[name](NOTHING) == Reward.uniform(0.0)


def test_the_table_is_of_all_rewards():
    assert TABLE.keys() == REWARDS.keys()


def test_what_is_valid():
    valid = [found for found in TABLE["partial_credit"] if found.is_valid]
    assert valid == [FAST, SLOW, WRONG, CRASHED, UNCOMPILED]


def test_settings_of_rewards():
    assert mixed(FAST, beta=1.0) == Reward.uniform(1.0)
    assert mixed(FAST, beta=0.0, max_speedup=3.0) == Reward.uniform(3.0)
    assert power_speed(FAST, alpha=0.5) == Reward.uniform(2.0)
    assert partial_credit(WRONG, credit={Reached.RAN: 0.7}) == Reward.uniform(0.7)


@given(st.sampled_from(Stage), st.sampled_from(Code), st.floats(0.01, 100))
def test_what_is_not_accepted_earns_nothing_by_any_rule_but_how_far_it_came(stage, code, speedup):
    """A cheating policy learns nothing from cheating, however fast its "kernel" is."""
    if (stage is Stage.ACCEPTED) != (code is Code.OK):
        return
    found = outcome(stage, code, speedup)
    assert found.is_correct == (code is Code.OK)
    if found.is_correct:
        assert found.is_valid
        assert found.speedup == pytest.approx(speedup)
        return
    for name, reward in REWARDS.items():
        if name != "partial_credit":
            assert reward(found) == Reward.uniform(0.0)
    if code in CHEATS:
        assert partial_credit(found) == Reward.uniform(0.0)
    assert partial_credit(found).code < partial_credit(UNTIMED).code
