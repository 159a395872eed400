"""Judges that stand ready: verdicts in their places, equal texts once, our failures forgotten."""

import time
from itertools import pairwise
from threading import Event, Semaphore

import pytest
from verdicts import times, verdict

from corpus import ROOT
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.verdict import Code
from kernelwright.sandbox.workers.executor import Done
from kernelwright.verify.many import engine
from kernelwright.verify.many.pools import Pools, local_pools
from kernelwright.verify.many.recipe import JudgeRecipe
from kernelwright.verify.many.standing import StandingJudges

WAIT_S = 60.0


class Fake:
    """An executor in this process: `find` says what becomes of a source, `seen` what was asked."""

    num_workers = 2

    def __init__(self, find):
        self.find, self.seen = find, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def run(self, jobs):
        for name, data in jobs:
            candidates = [c for b in data.get("batches", [data]) for c in b["candidates"]]
            self.seen.append([each["source"] for each in candidates])
            found = [{"id": each["id"], **self.find(each["source"])} for each in candidates]
            stages = {"compile": 2.0, "run": 1.0}
            yield Done(name, {"found": found, "stages": stages, "worker": "w"})


def accepted(_):
    return {"verdict": verdict().to_json()}


def results(futures):
    return [future.result(WAIT_S) for future in futures]


def test_each_candidate_has_its_verdict_and_equal_ones_are_judged_once():
    def find(source):
        return {"verdict": verdict(Code.OK if source == "good" else Code.WRONG_VALUES).to_json()}

    fake = Fake(find)
    with StandingJudges(Pools(fake, None)) as judges:
        first = results(judges.judge("p", ["good", "bad", "good"]))
        again = results(judges.judge("p", ["bad"]))
        other = results(judges.judge("q", ["good"]))
    assert [each.verdict.accepted for each in first] == [True, False, True]
    assert (again[0], other[0].verdict.accepted) == (first[1], True)
    assert fake.seen == [["good", "bad"], ["good"]]
    assert judges.num_judged == 3


def test_a_failure_of_ours_is_tried_once_more_and_not_remembered():
    times = []

    def find(source):
        times.append(source)
        fails = (source == "unlucky" and len(times) < 2) or source == "doomed"
        return {"infra": "a guest was lost"} if fails else accepted(source)

    fake = Fake(find)
    with StandingJudges(Pools(fake, None)) as judges:
        (unlucky,) = results(judges.judge("p", ["unlucky"]))
        (doomed,) = results(judges.judge("p", ["doomed"]))
        results(judges.judge("p", ["doomed"]))
    assert unlucky.verdict.accepted
    assert (doomed.verdict, doomed.failure, doomed.is_usage) == (None, "a guest was lost", False)
    assert times.count("doomed") == 4


def test_a_program_that_cannot_be_judged_by_is_told_apart():
    with StandingJudges(Pools(Fake(lambda _: {"usage": "not finite"}), None)) as judges:
        (found,) = results(judges.judge("p", ["x"]))
    assert (found.verdict, found.is_usage) == (None, True)


def test_what_is_accepted_is_timed_by_the_clock_owner():
    def timed(_):
        return {"verdict": verdict(**speed(2.0)).to_json()}

    clock = Fake(timed)
    judge = Fake(
        lambda s: accepted(s) if s == "good" else {"verdict": verdict(Code.DECOY).to_json()}
    )
    with StandingJudges(Pools(judge, clock)) as judges:
        good, bad = results(judges.judge("p", ["good", "bad"]))
    assert good.verdict.speedup == 2.0
    assert bad.verdict.speedup is None
    assert clock.seen == [["good"]]


def test_what_workers_did_is_told_once():
    clock = Fake(lambda _: {"verdict": verdict(**speed(2.0)).to_json()})
    with StandingJudges(Pools(Fake(accepted), clock)) as judges:
        results([*judges.judge("p", ["one"]), *judges.judge("q", ["two"])])
        taken = judges.take_stages()
        assert taken["judges"] == {"compile": 4.0, "run": 2.0}
        assert taken["clock"].keys() == {"compile", "run"}
        assert judges.take_stages() == {"judges": {}, "clock": {}}


def test_nothing_is_timed_while_the_caller_computes():
    clock = Fake(lambda _: {"verdict": verdict(**speed(2.0)).to_json()})
    with StandingJudges(Pools(Fake(accepted), clock)) as judges:
        with judges.undisturbed():
            (early,) = judges.judge("p", ["early"])
            while not judges._engine._accepted:
                assert not early.done()
            assert clock.seen == []
        (late,) = judges.judge("p", ["late"])
        assert [each.verdict.speedup for each in results([early, late])] == [2.0, 2.0]


def test_a_clock_on_another_gpu_is_not_held_back():
    clock = Fake(lambda _: {"verdict": verdict(**speed(2.0)).to_json()})
    pools = Pools(Fake(accepted), clock, is_clock_apart=True)
    with StandingJudges(pools) as judges, judges.undisturbed():
        [found] = results(judges.judge("p", ["one"]))
    assert found.verdict.speedup == 2.0


def test_what_waits_to_be_timed_is_held_back_again(monkeypatch):
    """A clock owner has a row or two: the rest waits where it can be kept."""
    monkeypatch.setattr(engine, "TOGETHER", 2)
    go, begun = Semaphore(0), Semaphore(0)

    def find(_):
        begun.release()
        assert go.acquire(timeout=WAIT_S)
        return {"verdict": verdict(**speed(2.0)).to_json()}

    clock = Fake(find)
    clock.num_workers = 1
    with StandingJudges(Pools(Fake(accepted), clock)) as judges:
        futures = [judges.judge(f"p{number}", ["x", "y"]) for number in range(5)]
        assert begun.acquire(timeout=WAIT_S)
        while len(judges._engine._accepted) < 3:
            pass
        with judges.undisturbed():
            for _ in range(4):  # the two batches that it has
                go.release()
            results(futures[0] + futures[1])
            assert not any(each.done() for some in futures[2:] for each in some)
            assert len(clock.seen) == 2
        for _ in range(6):
            go.release()
        found = results([each for some in futures for each in some])
    assert [each.verdict.speedup for each in found] == [2.0] * 10
    assert clock.seen == [["x", "y"]] * 5


def test_what_is_accepted_is_timed_in_rows_and_what_is_left_when_all_is_judged(monkeypatch):
    monkeypatch.setattr(engine, "TOGETHER", 4)
    go, last = Event(), Event()

    def find(source):
        last.wait(WAIT_S) if source == "last" else go.wait(WAIT_S)
        return accepted(source)

    clock = Fake(lambda _: {"verdict": verdict(**speed(2.0)).to_json()})
    clock.num_workers = 1
    with StandingJudges(Pools(Fake(find), clock)) as judges:
        row = [judges.judge(f"p{number}", ["x", "y"]) for number in range(2)]
        rest = judges.judge("p", ["z"])
        final = judges.judge("q", ["last"])
        go.set()
        results([each for some in row for each in some])
        assert clock.seen == [["x", "y", "x", "y"]]
        assert not rest[0].done()
        last.set()
        assert [each.verdict.speedup for each in results(rest + final)] == [2.0, 2.0]
    assert clock.seen[1:] == [["z", "last"]]


def test_few_candidates_are_timed_after_a_while_if_the_clock_owner_is_idle(monkeypatch):
    monkeypatch.setattr(engine, "LATE_S", -1.0)
    last = Event()

    def find(source):
        if source == "last":
            last.wait(WAIT_S)
        return accepted(source)

    clock = Fake(lambda _: {"verdict": verdict(**speed(2.0)).to_json()})
    clock.num_workers = 1
    with StandingJudges(Pools(Fake(find), clock)) as judges:
        first = judges.judge("p", ["x"])
        final = judges.judge("q", ["last"])
        assert [one.verdict.speedup for one in results(first)] == [2.0]
        assert not final[0].done()
        last.set()
        results(final)
    assert clock.seen == [["x"], ["last"]]


class Losing(Fake):
    """Its workers are lost with whatever has the source "bad" in it."""

    def run(self, jobs):
        for name, data in jobs:
            (done,) = super().run([(name, data)])
            yield Done(name, None, "lost 3 workers") if "bad" in self.seen[-1] else done


def refused(_):
    return {"verdict": verdict(Code.DECOY).to_json()}


@pytest.mark.parametrize(
    "judge",
    [Fake(lambda source: (refused if source == "bad" else accepted)(source)), Losing(accepted)],
    ids=["refused", "lost"],
)
def test_what_is_left_is_timed_whatever_becomes_of_the_last_candidate(judge):
    clock = Fake(lambda _: {"verdict": verdict(**speed(2.0)).to_json()})
    with StandingJudges(Pools(judge, clock)) as judges:
        found = results([*judges.judge("p", ["good"]), *judges.judge("q", ["bad"])])
    assert found[0].verdict.speedup == 2.0


def test_rows_are_shared_out_to_the_clock_owners():
    go = Event()

    def find(source):
        go.wait(WAIT_S)
        return accepted(source)

    clock = Fake(lambda _: {"verdict": verdict(**speed(2.0)).to_json()})
    with StandingJudges(Pools(Fake(find), clock)) as judges:
        futures = [judges.judge(f"p{number}", ["x", "y"])[0] for number in range(4)]
        go.set()
        results(futures)
    assert clock.seen == [["x", "y", "x", "y"]] * 2


def test_candidates_whose_row_was_lost_are_timed_one_by_one():
    clock = Losing(lambda _: {"verdict": verdict(**speed(2.0)).to_json()})
    clock.num_workers = 1
    with StandingJudges(Pools(Fake(accepted), clock)) as judges:
        good, bad, other = results(judges.judge("p", ["good", "bad", "other"]))
    assert [good.verdict.speedup, other.verdict.speedup] == [2.0, 2.0]
    assert (bad.verdict, bad.failure) == (None, "lost 3 workers")
    assert clock.seen == [["good", "bad", "other"], ["good"], ["bad"], ["other"]]


def speed(ratio):
    taken = times(reference=ratio, candidate=1.0)
    return {"times": taken, "speedup_interval": (ratio, ratio), "noise": 0.0}


def test_workers_that_refuse_raise_where_verdicts_are_waited_for():
    class Refuses(Fake):
        def run(self, jobs):
            next(iter(jobs))
            raise UsageError("no such device")
            yield

    with StandingJudges(Pools(Refuses(accepted), None)) as judges:
        for _ in range(2):
            with pytest.raises(UsageError, match="no such device"):
                results(judges.judge("p", ["x"]))


def test_a_caller_that_gives_up_takes_no_verdict_from_others():
    go = Event()

    def find(source):
        go.wait(WAIT_S)
        return accepted(source)

    with StandingJudges(Pools(Fake(find), None)) as judges:
        first, second = judges.judge("p", ["x", "y"])
        assert not first.cancel()
        go.set()
        assert all(judged.verdict.accepted for judged in results([first, second]))


class Dying(Fake):
    """Its machine goes down with the first row."""

    def run(self, jobs):
        next(iter(jobs))
        raise InfraError("the machine went down")
        yield


@pytest.mark.slow
def test_where_clock_owners_end_all_wait_for_their_error_and_nobody_for_long(monkeypatch):
    """Judgements under way neither hold up the end nor reach a clock owner."""
    monkeypatch.setattr(engine, "TOGETHER", 1)
    go = Event()

    def find(source):
        if source == "slow":
            go.wait(WAIT_S)
        return accepted(source)

    clock = Dying(accepted)
    clock.num_workers = 1
    begin_s = time.monotonic()
    with StandingJudges(Pools(Fake(find), clock)) as judges:
        with judges.undisturbed():
            early = judges.judge("p", ["early"])
        late = judges.judge("q", ["slow"])
        for futures in (early, late):
            with pytest.raises(InfraError, match="went down"):
                results(futures)
        with judges.undisturbed():
            pass
    assert time.monotonic() - begin_s < WAIT_S / 2
    go.set()


def test_what_is_asked_least_lately_is_forgotten_but_not_what_is_being_judged():
    go = Event()

    def find(source):
        go.wait(WAIT_S)
        return accepted(source)

    fake = Fake(find)
    with StandingJudges(Pools(fake, None), memory=2) as judges:
        open_ones = [judges.judge("p", [name])[0] for name in "abcd"]
        again = judges.judge("p", ["a"])[0]
        go.set()
        assert again is open_ones[0]
        results(open_ones)
        for name in "abcda":
            results(judges.judge("p", [name]))
    asked = [source for batch in fake.seen for source in batch]
    assert asked[:4] == list("abcd")
    assert all(one != other for one, other in pairwise(asked))


@pytest.mark.slow
def test_candidates_are_judged_for_real():
    task = (ROOT / "tasks" / "relu.py").read_text()
    sources = [
        (ROOT / "honest" / "plain.py").read_text(),
        "def fused_operator(x):\n    return [x]\n",
    ]
    pools = local_pools(JudgeRecipe(device="cpu", seed=5, timing=False, grade="recycled"), 1)
    with StandingJudges(pools) as judges:
        good, bad = results(judges.judge(task, sources))
        assert good.verdict.accepted, good.verdict
        assert bad.verdict.code is Code.NO_KERNEL
