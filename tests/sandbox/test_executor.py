"""Jobs on workers: each is answered once, whatever dies on the way."""

import itertools
import os
import signal
import threading
import time

import pytest

from kernelwright.core.errors import InfraError, UsageError
from kernelwright.sandbox.workers.executor import MAX_LOSSES, Done, Factory, Feed, Ledger
from kernelwright.sandbox.workers.local import LocalExecutor


def numbers(count, **how):
    return [(f"job-{n}", {"n": n, **how.get(f"job_{n}", {})}) for n in range(count)]


def factory(folder, **arguments):
    return Factory("sample_workers:squares", {"folder": str(folder), **arguments})


def squares_of(done):
    """{id: square}, having made sure that no job is answered twice."""
    assert len({d.id for d in done}) == len(done)
    return {d.id: d.answer["square"] for d in done if d.answer}


def expected(count):
    return {f"job-{n}": n**2 for n in range(count)}


# -- the bookkeeping


def ledger_of(*ids):
    is_read = threading.Event()

    def jobs():
        yield from ((name, {"n": name}) for name in ids)
        is_read.set()

    feed = Feed(jobs(), ahead=10)
    assert is_read.wait(60)
    return Ledger(feed)


def test_a_second_answer_to_a_job_is_dropped():
    ledger = ledger_of("a")
    ledger.take()
    assert list(ledger.answered("a", {"x": 1})) == [Done("a", {"x": 1})]
    assert list(ledger.answered("a", {"x": 2})) == []
    assert ledger.take() is None
    assert ledger.is_settled


def test_only_the_job_a_worker_was_at_is_blamed():
    ledger = ledger_of("bad", "good")
    ledger.take(), ledger.take()
    for _ in range(MAX_LOSSES):
        assert list(ledger.lost(["bad", "good"], "killed")) == []
        ledger.take(), ledger.take()
    (done,) = ledger.lost(["bad", "good"], "killed")
    assert done.id == "bad"
    assert done.answer is None
    assert "killed" in done.failure
    assert ledger.take() == ("good", {"n": "good"})


def test_a_lost_job_that_was_answered_is_not_done_again():
    ledger = ledger_of("a")
    ledger.take()
    list(ledger.answered("a", {}))
    assert list(ledger.lost(["a"], "killed")) == []
    assert ledger.take() is None


def test_two_jobs_of_one_id_are_refused():
    ledger = ledger_of("a", "a")
    ledger.take()
    with pytest.raises(InfraError, match="'a'"):
        ledger.take()


def test_an_error_of_the_jobs_own_iterable_is_raised(tmp_path):
    def jobs():
        yield from numbers(2)
        raise UsageError("line 3 is no job")

    with LocalExecutor(factory(tmp_path), 1) as executor, pytest.raises(UsageError, match="line 3"):
        list(executor.run(jobs()))


def test_jobs_are_read_only_a_little_ahead():
    taken = []
    feed = Feed(((str(n), {}) for n in itertools.count() if not taken.append(n)), ahead=3)
    time.sleep(0.2)
    assert len(taken) <= 5
    feed.stop()


# -- local workers


def test_every_job_is_answered_once_and_workers_are_closed(tmp_path):
    with LocalExecutor(factory(tmp_path, pause_s=0.1), 2) as executor:
        done = list(executor.run(numbers(20)))
        again = list(executor.run(numbers(3)))
    assert squares_of(done) == expected(20)
    assert squares_of(again) == expected(3)
    assert len({d.answer["pid"] for d in done}) == 2
    assert len(list(tmp_path.glob("closed-*"))) == 2


def test_a_worker_killed_in_mid_run_loses_nothing(tmp_path):
    with LocalExecutor(factory(tmp_path, pause_s=0.05), 2) as executor:
        done = []
        for one in executor.run(numbers(30)):
            done.append(one)
            if len(done) == 5:
                os.kill(one.answer["pid"], signal.SIGKILL)
    assert squares_of(done) == expected(30)
    assert len({d.answer["pid"] for d in done}) == 3


def test_workers_are_shared_out_to_gpus_and_so_are_those_in_their_place(tmp_path):
    gpu_of = {}
    with LocalExecutor(factory(tmp_path, pause_s=0.05), 4, gpus=["3", "5"]) as executor:
        for number, one in enumerate(executor.run(numbers(60))):
            gpu_of[one.answer["pid"]] = one.answer["gpu"]
            if number == 20:
                os.kill(one.answer["pid"], signal.SIGKILL)
    ended = sorted(gpu_of.values())
    assert len(gpu_of) == 5
    assert ended[:2] == ["3", "3"]
    assert ended[-2:] == ["5", "5"]


def test_a_job_that_kills_its_workers_is_our_failure_and_spares_the_others(tmp_path):
    jobs = numbers(6, job_2={"dies": 99}, job_4={"dies": MAX_LOSSES}, job_5={"raises": 1})
    with LocalExecutor(factory(tmp_path), 1) as executor:
        done = list(executor.run(jobs))
    assert squares_of(done) == {k: v for k, v in expected(6).items() if k != "job-2"}
    (failed,) = [d for d in done if d.answer is None]
    assert failed.id == "job-2"
    assert "died" in failed.failure
    assert len(list(tmp_path.glob("2-*"))) == MAX_LOSSES + 1


@pytest.mark.slow
def test_a_job_that_takes_too_long_costs_its_worker(tmp_path):
    jobs = numbers(3, job_1={"hangs": 1})
    with LocalExecutor(factory(tmp_path), 1, job_s=1.5) as executor:
        assert squares_of(list(executor.run(jobs))) == expected(3)
    assert len(list(tmp_path.glob("1-*"))) == 2


def test_jobs_may_be_made_while_others_run(tmp_path):
    answered = threading.Event()

    def jobs():
        yield ("job-0", {"n": 0})
        assert answered.wait(60.0)
        yield ("job-1", {"n": 1})

    with LocalExecutor(factory(tmp_path), 1) as executor:
        done = []
        for one in executor.run(jobs()):
            done.append(one)
            answered.set()
    assert squares_of(done) == expected(2)


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("refuses", UsageError, "no such device"),
        ("breaks", InfraError, "no driver"),
        ("dies", InfraError, "exit status 7"),
    ],
)
def test_workers_that_cannot_be_made_are_said_so(name, error, text):
    executor = LocalExecutor(Factory(f"sample_workers:{name}"), 1)
    with executor, pytest.raises(error, match=text):
        list(executor.run(numbers(1)))
