"""What was accepted in recycled guests is judged again in fresh ones."""

from dataclasses import replace

import pytest

from corpus import ROOT
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Code, Stage, Timing, Verdict
from kernelwright.verify.audit import Judged, audit, chosen
from kernelwright.verify.judge import Judge
from kernelwright.verify.load import load_task

GOOD = Candidate(source=(ROOT / "honest" / "plain.py").read_text())
ACCEPTED = Verdict(
    accepted=True,
    stage=Stage.ACCEPTED,
    code=Code.OK,
    message="",
    mode="pure",
    precision="strict",
    device="cpu-interpreter",
    grade="recycled",
)
REJECTED = replace(ACCEPTED, accepted=False, stage=Stage.RUN, code=Code.TIMEOUT)


@pytest.fixture(scope="module")
def relu():
    return load_task(ROOT / "tasks" / "relu.py")


def timed(candidate_ms):
    def timing(ms):
        return Timing(median_ms=ms, low_ms=ms, high_ms=ms, num_samples=9)

    return replace(ACCEPTED, times={"reference": timing(1.0), "candidate": timing(candidate_ms)})


def test_a_share_of_the_accepted_is_chosen_and_never_the_rejected(relu):
    verdicts = [ACCEPTED, REJECTED] * 100
    found = chosen(verdicts, [relu] * 200, share=0.1)
    assert len(found) == 10
    assert all(verdicts[number].accepted for number in found)
    drawn = {tuple(chosen(verdicts, [relu] * 200, share=0.1)) for _ in range(5)}
    assert len(drawn) > 1


def test_one_is_always_chosen_and_nothing_of_nothing(relu):
    assert len(chosen([ACCEPTED] * 3, [relu] * 3)) == 1
    assert chosen([REJECTED], [relu]) == []
    assert chosen([], []) == []


def test_the_fastest_of_each_task_is_chosen(relu):
    other = replace(relu, name="another")
    verdicts = [timed(2.0), timed(0.5), timed(1.0), timed(3.0), REJECTED]
    found = chosen(verdicts, [relu, relu, relu, other, other], share=0.0)
    assert found == [1, 3]


def test_a_wrong_acceptance_is_found(relu):
    wrong = Candidate(source=GOOD.source.replace("tl.maximum", "tl.minimum"))
    judged = [Judged(relu, GOOD, ACCEPTED), Judged(relu, wrong, ACCEPTED)]
    with Judge("cpu", budget_s=0.0) as judge:
        found = list(audit(judge, judged, share=1.0))
    assert [each.disagrees for each in found] == [False, True]
    assert found[1].fresh.code is Code.WRONG_VALUES
    assert found[1].fresh.grade == "fresh"


def test_an_audit_by_recycled_guests_is_refused(relu):
    with Judge("cpu", grade="recycled") as judge, pytest.raises(UsageError, match="fresh"):
        next(audit(judge, [Judged(relu, GOOD, ACCEPTED)]))
