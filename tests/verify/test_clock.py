"""Taking times, without a GPU: the guest and both stopwatches are stand-ins with a clock of their
own, everything else is real."""

import random
import time
from functools import partial

import pytest
import torch

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import InfraError
from kernelwright.core.verdict import Code, Precision, Stage
from kernelwright.sandbox.guest import timed
from kernelwright.sandbox.shared.contract import Ran, Timed
from kernelwright.timing.cuda_timer import PAUSE_MS, ColdCall
from kernelwright.timing.pairs import BATCH, USUAL_PAIRS
from kernelwright.verify.judging import Rules
from kernelwright.verify.rejection import Rejected
from kernelwright.verify.tasks.cases import Cases
from kernelwright.verify.tasks.task import FunctionTask
from kernelwright.verify.times import clock, rounds, sides
from kernelwright.verify.times.timed_answers import TimedAnswers
from kernelwright.verify.trial import Trial

REFERENCE_MS, CANDIDATE_MS = 2.0, 1.0
REFERENCE_QUEUED_MS = 0.25
RULES = Rules(torch.device("cpu"), Precision.STRICT, "pure")


class FakeSession:
    """A guest that computes in this process."""

    def __init__(self, call=lambda x: [torch.relu(x)], hidden_ms=0.0, has_changed=False):
        self.call, self.hidden_ms, self.has_changed = call, hidden_ms, has_changed
        self.refused, self.requests, self.given, self.pauses_ms = "", [], [], set()
        self.rng = random.Random(5)

    def queued_ms(self):
        return 0.2

    def restart(self, name):
        self.requests.append("restart")

    def release(self):
        self.requests.append("release")

    def capture(self, name, inputs, seed):
        return self.refused

    def prepare(self, name, call, *, is_replay=False):
        self.requests.append("replay" if is_replay else "prepare")
        self.inputs = [x.clone() for x in call.inputs]
        self.given.append(self.inputs)

    def time(self, *, is_idle=False, repeats=1, pause_ms=0.0):
        self.pauses_ms.add(pause_ms)
        kind = "idle" if is_idle else "time"
        self.requests.append(kind if repeats == 1 else f"{kind} burst")
        if is_idle:
            return Timed(time_ms=0.002 * repeats, wall_ms=0.1 + 0.1 * repeats)
        for _ in range(repeats):
            self.result = self.call(*self.inputs)
        time_ms = CANDIDATE_MS * repeats * self.rng.gauss(1, 0.01)
        hidden_ms = self.hidden_ms * repeats
        wall_ms = time_ms + 0.1 + 0.1 * repeats + hidden_ms
        return Timed(time_ms=time_ms, wall_ms=wall_ms, queued_ms=self.queued_ms())

    def timed(self, like):
        self.requests.append("timed")
        outputs = tuple(t.clone() for t in self.result)
        return Ran(
            outputs=outputs,
            structure="[T]",
            changed_inputs=(),
            aliases=(),
            has_changed=self.has_changed,
        )


def relu_task(function=lambda x: [torch.relu(x)], draw=lambda: [torch.randn(64, 8)]):
    return FunctionTask(name="relu", get_inputs=draw, function=function)


@pytest.fixture(autouse=True)
def clocks(monkeypatch):
    """The reference takes 2 ms, give or take 1%."""
    rng = random.Random(6)

    def stopwatch():
        def time_cold(call, pause_ms=0.0):
            pauses_ms.add(pause_ms)
            return ColdCall(REFERENCE_MS * rng.gauss(1, 0.01), REFERENCE_QUEUED_MS, call())

        return time_cold

    pauses_ms = set()
    monkeypatch.setattr(sides, "stopwatch", stopwatch)
    monkeypatch.setattr(timed, "capture", capture)
    return pauses_ms


class Graph:
    def __init__(self, call, result):
        self.call, self.result = call, result

    def replay(self):
        for mine, new in zip(self.result, self.call(), strict=True):
            mine.copy_(new)


def capture(call, refresh):
    refresh()
    result = call()
    return Graph(call, result), result


def trial_of(task):
    trial = Trial(RULES, Candidate(source=""))
    posed = Cases({"base": task}, RULES, 1).first()
    outputs = posed.answer.outputs
    ran = Ran(outputs=outputs.native, structure="[T]", changed_inputs=(), aliases=())
    trial.errors = clock.checks.check_values(ran, outputs, "strict")
    return trial


def timed_trial(session, task=None, take=clock.time_trial):
    task = task or relu_task()
    trial = trial_of(task)
    take(clock.CandidateTiming(session, task, trial, seed=3))
    return trial


def test_an_honest_candidate_has_times_an_interval_and_the_machines_noise():
    trial = timed_trial(FakeSession())
    assert trial.times.keys() == {"reference", "candidate"}
    assert trial.times["candidate"].num_samples >= USUAL_PAIRS
    low, high = trial.speedup_interval
    assert 1.95 < low <= 2.0 * 1.01
    assert high < 2.05
    assert 0.0 < trial.noise < 0.03
    assert {"times plausible", "timed outputs"} <= trial.checks.keys()
    assert trial.advice == []


def test_large_outputs_are_judged_at_once_and_not_kept(monkeypatch):
    judged = []
    monkeypatch.setattr(clock, "KEPT_BYTES", 0)
    monkeypatch.setattr(clock, "check_outputs", lambda *args: judged.append(args))
    assert timed_trial(FakeSession()).times
    assert len(judged) >= 3


def test_every_timed_call_has_values_of_its_own():
    session = FakeSession()
    timed_trial(session)
    values = [tuple(inputs[0].flatten().tolist()) for inputs in session.given]
    assert len(set(values)) == len(values) >= USUAL_PAIRS + clock.WARMUP


def test_a_timed_call_looks_like_every_other_one():
    session = FakeSession()
    timed_trial(session)
    assert session.requests[0] == "restart"
    assert session.requests[-1] == "release"
    *calls, idle, burst = session.requests[1:-1]
    assert calls == ["prepare", "idle", "time", "timed"] * (len(calls) // 4)
    assert (idle, burst) == ("idle burst", "time burst")


@pytest.mark.parametrize("pause_ms", [0.0, PAUSE_MS])
def test_both_sides_and_idle_calls_have_the_same_pause(clocks, pause_ms):
    session = FakeSession()
    timed_trial(session, take=partial(clock.time_trial, pause_ms=pause_ms))
    assert session.pauses_ms == clocks == {pause_ms}


class SlowToLaunch(FakeSession):
    """Its launches take longer than the usual pause, and those of its first calls much longer."""

    def __init__(self, queued_ms):
        super().__init__()
        self.queued, self.paused_ms = iter([900.0, 500.0]), []
        self.later_ms = queued_ms

    def queued_ms(self):
        return next(self.queued, self.later_ms)

    def time(self, *, is_idle=False, repeats=1, pause_ms=0.0):
        self.paused_ms.append(pause_ms)
        return super().time(is_idle=is_idle, repeats=repeats, pause_ms=pause_ms)


@pytest.mark.parametrize(("queued_ms", "longest_ms"), [(0.5, 1.0), (2.0, 1.5), (90.0, 1.5)])
def test_the_pause_of_both_sides_covers_launches_and_not_long_work_on_the_host(
    clocks, queued_ms, longest_ms
):
    session = SlowToLaunch(queued_ms)
    timed_trial(session, take=partial(clock.time_trial, pause_ms=PAUSE_MS))
    assert session.pauses_ms == clocks == {PAUSE_MS, longest_ms}
    first_timed = 2 * clock.WARMUP
    assert set(session.paused_ms[first_timed:]) == {longest_ms}


def test_screening_waits_for_launches_too(clocks):
    trial = trial_of(relu_task())
    session = SlowToLaunch(0.5)
    rounds.time_screened(lambda _trial: session, relu_task(), [trial], seed=3, repeats=4)
    assert clocks == {PAUSE_MS, 1.0}
    assert session.paused_ms == [PAUSE_MS] * rounds.WARMUP + [1.0] * (len(session.paused_ms) - 3)


def test_launches_that_count_get_no_pause_however_long_they_take(clocks):
    session = SlowToLaunch(2.0)
    timed_trial(session)
    assert session.pauses_ms == clocks == {0.0}


def test_who_has_the_gpu_alone_already_times_no_launches():
    session = FakeSession()
    take = partial(clock.time_alone, budget_s=0.1, answers=TimedAnswers(RULES))
    timed_trial(session, take=take)
    assert session.pauses_ms == {PAUSE_MS}


class Hiccups(FakeSession):
    """Its first `num` bursts, of calls or idle, take a while longer than the guest says."""

    def __init__(self, num, *, is_idle=False, hidden_ms=0.0):
        super().__init__(hidden_ms=hidden_ms)
        self.num, self.is_idle = num, is_idle

    def time(self, *, is_idle=False, repeats=1, pause_ms=0.0):
        timed = super().time(is_idle=is_idle, repeats=repeats, pause_ms=pause_ms)
        if is_idle != self.is_idle or repeats == 1 or not self.num:
            return timed
        self.num -= 1
        return Timed(time_ms=timed.time_ms, wall_ms=timed.wall_ms + 30.0 * repeats)


@pytest.mark.parametrize(("hiccups", "bursts"), [(0, 1), (1, 3)])
def test_a_burst_that_looks_odd_is_followed_by_others(hiccups, bursts):
    session = Hiccups(hiccups)
    assert timed_trial(session).times
    assert session.requests.count("time burst") == bursts


def test_bursts_that_look_odd_more_often_than_not_are_refused():
    with pytest.raises(Rejected, match="on the host's clock"):
        timed_trial(Hiccups(2))


def test_an_idle_burst_that_is_late_hides_nothing():
    session = Hiccups(1, is_idle=True)
    assert timed_trial(session).times
    assert session.requests.count("time burst") == 3
    with pytest.raises(Rejected, match="on the host's clock"):
        timed_trial(Hiccups(1, is_idle=True, hidden_ms=0.5))


def test_reference_and_candidate_go_first_in_turn(monkeypatch):
    order = []

    class Noted(FakeSession):
        def time(self, *, is_idle=False, repeats=1, pause_ms=0.0):
            if not is_idle:
                order.append("candidate")
            return super().time(is_idle=is_idle, repeats=repeats, pause_ms=pause_ms)

    timed_trial(Noted(), relu_task(lambda x: order.append("reference") or [torch.relu(x)]))
    pairs = [tuple(order[i : i + 2]) for i in range(1, 40, 2)]  # the first answers for `errors`
    assert len(set(pairs)) > 1


def memo():
    """Computes once, and gives that ever after."""
    kept = []

    def call(x):
        kept.append(torch.relu(x))
        return [kept[0]]

    return call


def sometimes(share):
    """Computes for some calls only."""
    rng, last = random.Random(2), [None]

    def call(x):
        if last[0] is None or rng.random() > share:
            last[0] = torch.relu(x)
        return [last[0]]

    return call


CHEATS = {
    "memo": memo(),
    "one_call_in_five_is_stale": sometimes(0.2),
    "zeros": lambda x: [torch.zeros_like(x)],
    "half_precision": lambda x: [torch.relu(x).half().float()],
    "another_shape": lambda x: [torch.relu(x)[1:]],
}


@pytest.mark.parametrize("call", CHEATS.values(), ids=CHEATS)
@pytest.mark.parametrize("kept_bytes", [clock.KEPT_BYTES, 0], ids=["kept", "judged at once"])
def test_a_wrong_timed_call_is_found(call, kept_bytes, monkeypatch):
    monkeypatch.setattr(clock, "KEPT_BYTES", kept_bytes)
    with pytest.raises(Rejected) as caught:
        timed_trial(FakeSession(call))
    assert caught.value.stage is Stage.TIMING
    assert caught.value.code in (Code.WRONG_VALUES, Code.WRONG_STRUCTURE)
    assert caught.value.message.startswith("in a timed call: ")


def test_work_that_goes_on_after_the_call_is_refused():
    with pytest.raises(Rejected) as caught:
        timed_trial(FakeSession(has_changed=True))
    assert caught.value.code is Code.LEFT_RUNNING


@pytest.mark.parametrize("hidden_ms", [4.0, 0.3])
def test_time_that_the_guest_hides_is_found_by_the_hosts_clock(hidden_ms):
    with pytest.raises(Rejected) as caught:
        timed_trial(FakeSession(hidden_ms=hidden_ms))
    assert caught.value.code is Code.IMPLAUSIBLE_TIME


def test_inputs_that_are_slow_to_draw_are_fewer_and_never_used_twice(monkeypatch):
    monkeypatch.setattr(clock, "SLOW_DRAW_S", 0.005)
    monkeypatch.setattr(clock, "BUDGET_S", 0.0)

    def draw():
        time.sleep(0.01)
        return [torch.randn(64, 8)]

    session = FakeSession()
    trial = timed_trial(session, relu_task(draw=draw))
    values = {tuple(inputs[0].flatten().tolist()) for inputs in session.given}
    assert len(values) == len(session.given) == BATCH + 1
    assert any("5 pairs" in text for text in trial.advice)


def test_a_random_reference_is_not_compared():
    task = relu_task(lambda x: [torch.nn.functional.dropout(x, 0.5)])
    session = FakeSession(lambda x: [torch.nn.functional.dropout(x, 0.5)])
    assert timed_trial(session, task).times


# -- graphs


def graphs(session, task=None):
    return timed_trial(session, task, clock.time_graphs)


def test_graphs_are_timed_apart():
    session = FakeSession()
    trial = graphs(session)
    assert trial.times.keys() == {"candidate_graph", "reference_graph"}
    assert "replay" in session.requests
    assert trial.advice == []


def test_a_call_that_cannot_be_captured_has_no_graph_time_and_no_fault():
    session = FakeSession()
    session.refused = "RuntimeError: waits"
    trial = graphs(session)
    assert trial.times == {}
    assert any("waits" in text for text in trial.advice)


@pytest.mark.parametrize("call", [memo(), lambda x: [torch.full_like(x, torch.nan)]])
def test_a_graph_that_gives_one_answer_is_refused(call):
    with pytest.raises(Rejected) as caught:
        graphs(FakeSession(call))
    assert caught.value.code is Code.IMPLAUSIBLE_TIME


def test_a_graph_that_is_wrong_in_another_way_has_no_time_and_no_fault():
    state = []

    def accumulates(x):
        state.append(1)
        return [torch.relu(x) + len(state)]

    trial = graphs(FakeSession(accumulates))
    assert trial.times == {}
    assert any("replay is wrong" in text for text in trial.advice)


def test_a_reference_that_cannot_be_captured_leaves_the_candidates_time(monkeypatch):
    def refuse(call, refresh):
        raise RuntimeError("capturing")

    monkeypatch.setattr(timed, "capture", refuse)
    trial = graphs(FakeSession())
    assert trial.times.keys() == {"candidate_graph"}
    assert any("of the reference" in text for text in trial.advice)


def test_a_reference_whose_graph_differs_from_its_calls_has_no_graph_time(monkeypatch):
    class Drifts(Graph):
        def replay(self):
            self.result[0].add_(1.0)

    def capture(call, refresh):
        result = call()
        return Drifts(call, result), result

    monkeypatch.setattr(timed, "capture", capture)
    trial = graphs(FakeSession())
    assert trial.times.keys() == {"candidate_graph"}
    assert any("other values" in text for text in trial.advice)


def test_what_is_ours_to_mend_leaves_the_verdict_without_graph_times(monkeypatch):
    def fail(task, rules):
        raise InfraError("timing the reference: out of memory")

    monkeypatch.setattr(clock, "HostCalls", fail)
    trial = graphs(FakeSession())
    assert trial.times == {}


# -- screening


def test_screened_candidates_share_a_rounds_inputs_and_get_times():
    task, sessions = relu_task(), {}
    trials = [trial_of(task), trial_of(task)]
    trials[1].name = "other"

    def provide(trial):
        return sessions.setdefault(trial.name, FakeSession())

    rounds.time_screened(provide, task, trials, seed=3, repeats=10)
    one, other = (sessions[trial.name] for trial in trials)
    assert len(one.given) == rounds.NUM_ROUNDS
    for mine, theirs in zip(one.given, other.given, strict=True):
        assert torch.equal(mine[0], theirs[0])
    for trial in trials:
        assert trial.times["candidate"].num_samples == rounds.NUM_ROUNDS * 10
        low, high = trial.speedup_interval
        assert 1.9 < low < high < 2.1


def test_what_is_far_behind_after_a_round_is_not_timed_in_later_ones():
    class SlowSession(FakeSession):
        def time(self, **options):
            timed = super().time(**options)
            return Timed(time_ms=2 * timed.time_ms, wall_ms=2 * timed.wall_ms)

    task = relu_task()
    trials = [trial_of(task), trial_of(task)]
    trials[1].name = "slow"
    sessions = {trials[0].name: FakeSession(), "slow": SlowSession()}
    rounds.time_screened(lambda trial: sessions[trial.name], task, trials, seed=3, repeats=10)
    assert [len(sessions[trial.name].given) for trial in trials] == [rounds.NUM_ROUNDS, 1]
    assert [trial.times["candidate"].num_samples for trial in trials] == [
        10 * rounds.NUM_ROUNDS,
        10,
    ]
