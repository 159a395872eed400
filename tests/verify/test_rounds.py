"""Which of those that are screened are timed again."""

import pytest
import torch

from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Precision
from kernelwright.verify.judging import Rules
from kernelwright.verify.times.rounds import FAR_BEHIND, _in_the_race
from kernelwright.verify.trial import Trial

TIMES_MS = {"fast": [2.0], "near": [2.0 * FAR_BEHIND], "far": [2.1 * FAR_BEHIND]}


def racing(mode: str, reference_ms: list[float]) -> list[str]:
    rules = Rules(torch.device("cpu"), Precision.STRICT, mode)
    trials = [Trial(rules, Candidate(source=""), name=name) for name in TIMES_MS]
    return [trial.name for trial in _in_the_race(trials, TIMES_MS, [reference_ms, []])]


@pytest.mark.parametrize(
    ("mode", "reference_ms", "names"),
    [
        ("hybrid", [], ["fast", "near"]),
        ("hybrid", [2.0], ["fast", "near"]),
        ("hybrid", [1.5], ["fast"]),
        ("hybrid", [1.0], []),
        ("pure", [1.0], ["fast", "near"]),
    ],
)
def test_what_is_far_behind_is_not_timed_again(mode, reference_ms, names):
    assert racing(mode, reference_ms) == names


def test_what_was_not_timed_yet_is_in_the_race():
    rules = Rules(torch.device("cpu"), Precision.STRICT, "hybrid")
    fresh = Trial(rules, Candidate(source=""), name="fresh")
    assert _in_the_race([fresh], {"fresh": []}, []) == [fresh]
