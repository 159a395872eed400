"""Contenders that take turns, on a clock that drifts."""

import pytest

from kernelwright.timing.turns import OURS, compared, take_turns


class Drifting:
    """A machine that slows down with every call."""

    def __init__(self):
        self.calls, self.order = 0, []


class Fake:
    def __init__(self, machine, name, base_ms):
        self.machine, self.name, self.base_ms, self.seen = machine, name, base_ms, []

    def prepare(self, inputs, seed):
        self.seen.append((inputs, seed))

    def time(self):
        self.machine.calls += 1
        self.machine.order.append(self.name)
        return self.base_ms * (1 + 0.01 * self.machine.calls)

    def release(self):
        self.machine.order.append(f"{self.name} released")


@pytest.fixture
def machine():
    return Drifting()


def fakes(machine, **base_ms):
    return {name: Fake(machine, name, ms) for name, ms in base_ms.items()}


def test_each_round_begins_with_another_contender(machine):
    contenders = fakes(machine, eager=4.0, compiled=2.0, optimized=1.0)
    take_turns(contenders, lambda seed: [seed], seed=1, rounds=3, repeats=2)
    starts = [machine.order[12 * number] for number in range(3)]
    assert starts == ["eager", "compiled", "optimized"]
    assert machine.order[:4] == ["eager", "eager", "eager", "eager released"]
    assert machine.order.count("eager") == 9, "the first of each round is not timed"


def test_all_contenders_get_the_same_inputs_and_rounds_get_others(machine):
    contenders = fakes(machine, eager=4.0, optimized=1.0)
    take_turns(contenders, lambda seed: [seed], seed=1, rounds=4, repeats=1)
    assert contenders["eager"].seen == contenders["optimized"].seen
    seeds = [seed for _, seed in contenders["eager"].seen]
    assert len(set(seeds)) == 4
    assert max(seeds) < 1 << 31


def test_drift_does_not_move_the_ratio(machine):
    contenders = fakes(machine, eager=4.0, compiled=2.0, optimized=1.0)
    result = compared(take_turns(contenders, lambda _: [], seed=1))
    assert result.times["eager"].num_samples == 30
    low, high = result.speedup_intervals["eager"]
    assert 3.7 < low < 4.0 < high < 4.3
    assert set(result.speedup_intervals) == {"eager", "compiled"}


def test_without_ours_there_are_times_and_no_ratios(machine):
    samples = take_turns(fakes(machine, eager=4.0, compiled=2.0), lambda _: [], seed=1)
    assert OURS not in samples
    assert compared(samples).speedup_intervals == {}
