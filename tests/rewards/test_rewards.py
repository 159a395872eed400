"""Every reward on every kind of outcome, by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verdicts import verdict

from kernelwright.core.verdict import Code, Stage
from kernelwright.rewards.outcome import CHEATS, Outcome, Reached
from kernelwright.rewards.rewards import REWARDS, Reward, RewardSettings, partial_credit, rewards


def outcome(stage: Stage, code: Code, speedup: float | None = None) -> Outcome:
    return Outcome.of(verdict(code, stage=stage, speedup=speedup))


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
MODELLED = Outcome.of(verdict(), modelled=3.0)
NOTHING = Outcome.of(None)

TABLE = {  # (plan, code) by outcome
    "rule_and_execution": {FAST: (1, 1), SLOW: (1, 1), WRONG: (0, 0), DECOY: (0, 0)},
    "hierarchical": {FAST: (2, 1), SLOW: (0.5, 1), UNTIMED: (1, 1), WRONG: (0, 0), DECOY: (0, 0)},
    "mixed": {FAST: (1.7, 1.7), SLOW: (0.65, 0.65), UNTIMED: (1, 1), CRASHED: (0, 0)},
    "log_speed": {FAST: (math.log(4),) * 2, SLOW: (-math.log(2),) * 2, WRONG: (0, 0)},
    "power_speed": {FAST: (4, 4), SLOW: (0.5, 0.5), UNTIMED: (1, 1), WRONG: (0, 0)},
    "one_plus_log": {FAST: (1 + math.log(4),) * 2, SLOW: (1 - math.log(2),) * 2, WRONG: (0, 0)},
    "one_plus_power": {FAST: (5, 5), SLOW: (1.5, 1.5), UNTIMED: (2, 2), CRASHED: (0, 0)},
    "modelled": {FAST: (0, 0), MODELLED: (math.log(3),) * 2, WRONG: (0, 0), DECOY: (0, 0)},
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
    for share, cap, expected in ((1.0, 2.0, 1.0), (0.0, 3.0, 3.0), (0.5, 4.0, 2.5)):
        named = rewards(RewardSettings(correct_share=share, max_speedup=cap))
        assert named["mixed"](FAST) == Reward.uniform(expected)
        assert named["hierarchical"](FAST) == Reward(plan=cap, code=1.0)
    for power in (0.25, 0.5, 0.75, 1.0):  # those of DRTriton's table
        named = rewards(RewardSettings(power=power))
        assert named["power_speed"](FAST) == Reward.uniform(4**power)
        assert named["one_plus_power"](FAST) == Reward.uniform(1 + 4**power)
    assert partial_credit(WRONG, credit={Reached.RAN: 0.7}) == Reward.uniform(0.7)


def test_an_estimate_is_no_time_and_a_time_no_estimate():
    assert REWARDS["log_speed"](MODELLED) == Reward.uniform(0.0)
    assert REWARDS["modelled"](FAST) == Reward.uniform(0.0)
    wrong = Outcome.of(verdict(Code.WRONG_VALUES), modelled=9.0)
    assert wrong.modelled is None


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
