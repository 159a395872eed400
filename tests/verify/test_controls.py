"""Controls and doubts: what a spoiled guest judged is found, and judged again.

On a GPU a guest runs many candidates. Here a guest does so on a CPU. Candidates spoil the guest in
ways that its attestation does not see.
"""

from itertools import islice

import pytest

from corpus import ROOT
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import GuestLost, InfraError
from kernelwright.core.verdict import Code
from kernelwright.sandbox.host import probe
from kernelwright.verify import controls, guests, recycled
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.load import load_task

PLAIN = (ROOT / "honest" / "plain.py").read_text()
GOOD = Candidate(source=PLAIN)
WRONG = Candidate(source=PLAIN.replace("tl.maximum", "tl.minimum"))


@pytest.fixture
def relu():
    return load_task(ROOT / "tasks" / "relu.py")


@pytest.fixture
def judge(monkeypatch):
    monkeypatch.setattr("kernelwright.verify.trial.findings", lambda *_, **__: [])
    with Judge(JudgeOptions(device="cpu", mode="pure", grade="recycled")) as judge:
        judge.recycled.lives_on = True
        yield judge


def control(*, is_right: bool) -> controls.Control:
    return next(drawn for drawn in iter(controls.draw, None) if drawn.is_right is is_right)


def always(monkeypatch, *, is_right: bool) -> None:
    """All controls are of this kind."""
    monkeypatch.setattr(recycled, "draw", lambda: control(is_right=is_right))


def spoiling() -> Candidate:
    """Right itself; afterwards no kernel of the guest writes what it should, and the attestation
    sees nothing."""
    text = (
        "import triton.runtime.interpreter as stock\n"
        "def spoil():\n"
        "    stock.interpreter_builder.create_masked_store = lambda *args: None\n"
        "calls = []\n"
    )
    call = "    calls.append(1)\n    y = relu(x0)\n    spoil() if len(calls) == {} else None\n"
    return Candidate(source=text + PLAIN.replace("    return [relu(x0)]", f"{call}    return [y]"))


@pytest.mark.slow
def test_controls_are_judged_as_they_should_be(judge):
    for drawn in islice(iter(controls.draw, None), 12):
        prepared = judge.recycled.prepare(judge.recycled.shapes(drawn.task), drawn.candidate)
        assert prepared.trial.rejection is None, prepared.trial.rejection
        trial = judge.recycled._alone(prepared)
        assert drawn.is_passed(trial), (drawn, trial.code, trial.rejection)


def test_controls_differ():
    texts = [controls.draw().candidate.source for _ in range(20)]
    assert len(set(texts)) == 20


def last_call_of(judge, relu) -> int:
    """How many calls a right candidate gets: counted by its last one."""
    counting = PLAIN.replace("    return [relu(x0)]", "    calls.append(1)\n    return [relu(x0)]")
    verdict = judge.verify(relu, Candidate(source=f"calls = []\n{counting}"))
    assert verdict.accepted
    return len(verdict.cases)


@pytest.mark.slow
def test_a_control_finds_a_guest_that_rejects_everything(judge, relu, monkeypatch):
    always(monkeypatch, is_right=True)
    spoiler = Candidate(source=spoiling().source.format(last_call_of(judge, relu)))
    codes = [v.code for v in judge.verify_many([(relu, c) for c in (spoiler, GOOD, WRONG, GOOD)])]
    assert codes[1:] == [Code.OK, Code.WRONG_VALUES, Code.OK]


def test_without_controls_the_same_guest_would_reject_right_candidates(judge, relu, monkeypatch):
    """Else the test before shows nothing."""
    monkeypatch.setattr(type(judge.recycled), "_control", lambda _: None)
    spoiler = Candidate(source=spoiling().source.format(last_call_of(judge, relu)))
    codes = [v.code for v in judge.verify_many([(relu, c) for c in (spoiler, GOOD, GOOD)])]
    assert Code.OK not in codes[1:]


def test_a_guest_that_accepts_everything_is_found_by_a_wrong_control(judge, relu, monkeypatch):
    always(monkeypatch, is_right=False)
    monkeypatch.setattr(controls.Control, "is_passed", lambda *_: False)
    ran = []
    alone = type(judge.recycled)._alone
    monkeypatch.setattr(
        type(judge.recycled), "_alone", lambda self, p: ran.append(p) or alone(self, p)
    )
    codes = [v.code for v in judge.verify_many([(relu, GOOD), (relu, WRONG)])]
    assert codes == [Code.OK, Code.WRONG_VALUES]
    assert len(ran) == 2  # both were judged again


@pytest.mark.slow
def test_rejections_in_a_row_replace_the_guest(judge, relu):
    list(judge.verify_many([(relu, WRONG)] * (recycled.MAX_REJECTED + 1)))
    assert judge.recycled.guests.num_started == 2


def test_what_a_guest_rejected_before_it_ended_is_judged_again(judge, relu, monkeypatch):
    ending = "import os; x0.is_meta or os._exit(3)"  # not where it is compiled
    deadly = Candidate(source=PLAIN.replace("return [relu(x0)]", f"{ending}; return [relu(x0)]"))
    ran = []
    alone = type(judge.recycled)._alone
    monkeypatch.setattr(
        type(judge.recycled), "_alone", lambda self, p: ran.append(p) or alone(self, p)
    )
    codes = [v.code for v in judge.verify_many([(relu, c) for c in (GOOD, WRONG, deadly)])]
    assert codes == [Code.OK, Code.WRONG_VALUES, Code.CRASHED]
    assert len(ran) == 2  # the right one stays as it is


def test_a_guest_lost_twice_is_the_candidates_doing_where_a_control_works(judge, relu, monkeypatch):
    def lost(*_args, **_kwargs):
        raise GuestLost("gone")

    monkeypatch.setattr(recycled.Recycled, "_run", lost)
    judge.recycled.lives_on = False
    verdict = judge.verify(relu, GOOD)
    assert verdict.code is Code.CRASHED
    assert "lost" in verdict.message


def test_it_is_ours_where_the_control_fails_too(judge, relu, monkeypatch):
    def lost(*_args, **_kwargs):
        raise GuestLost("gone")

    monkeypatch.setattr(recycled.Recycled, "_run", lost)
    monkeypatch.setattr(guests, "check", lost)
    judge.recycled.lives_on = False
    with pytest.raises(InfraError):
        judge.verify(relu, GOOD)


def test_the_check_of_our_side_runs_a_candidate_of_ours(monkeypatch):
    probe.check("cpu")
    monkeypatch.setattr(probe, "_CONTROL", probe._CONTROL.replace("2 *", "3 *"))
    with pytest.raises(InfraError, match="wrong values"):
        probe.check("cpu")
