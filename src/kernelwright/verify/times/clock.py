"""Times on the GPU, for candidates that are verified: the reference and the candidate, pair by
pair.

Every pair of calls gets values and addresses of its own, in an order drawn for it; L2 is cold
before each call. The host compares the outputs of every timed call, and judges some drawn calls in
full: a timed call is a judged call. Times are taken under the GPU's lock.
"""

import secrets
import time
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch

from kernelwright.core.errors import InfraError
from kernelwright.core.seed import derive
from kernelwright.core.verdict import Code, Stage
from kernelwright.sandbox.shared.contract import Ran
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.cuda_timer import PAUSE_MS, Pause
from kernelwright.timing.pairs import USUAL_PAIRS, Pairs, take_pairs
from kernelwright.timing.stages import stage
from kernelwright.timing.stats import noise_floor, summarize
from kernelwright.verify import checks
from kernelwright.verify.rejection import Rejected, WrongOutputs, faults
from kernelwright.verify.session import Session
from kernelwright.verify.tasks.cases import KEPT_BYTES
from kernelwright.verify.tasks.task import Task
from kernelwright.verify.times.plausible import (
    check_floor,
    check_wall,
    clocks_agree,
    leaves_inputs_unread,
)
from kernelwright.verify.times.sides import GuestCalls, HostCalls, HostReplays, HostSide, same_bits
from kernelwright.verify.times.timed_answers import TimedAnswers
from kernelwright.verify.trial import Trial
from kernelwright.verify.values import second_look
from kernelwright.verify.values.compare import strangeness

BUDGET_S, GRAPH_BUDGET_S = 10.0, 3.0
"""The most seconds for all pairs; the first batch is taken in any case."""
WARMUP = 3
"""Calls before the timed ones: compilation, autotuning, the allocator's first blocks."""
SLOW_DRAW_S = 0.05
"""Inputs that take longer to draw are drawn for one warm-up only. Values are never used twice."""
FURTHER_BURSTS, BURST_MS = 2, 100.0
"""Requests for several calls beyond the first, and the time one may take: small lies about the time
add up. Where the clocks agree over the first it is enough; else the median of three decides."""
MIN_BURST, MAX_BURST = 2, 20
"""Calls in one."""
MAX_STRANGE = 2
"""Timed calls that are judged because they look wrong."""


@dataclass(slots=True)
class Kept:
    """A timed call that is to be judged."""

    seed: int
    ran: Ran
    is_stale: bool
    """It returned bit for bit what the call before it returned, for other inputs."""
    strangeness: float


@dataclass(slots=True)
class PairTimer:
    """Takes a pair of times: fresh inputs for both sides, both calls, a comparison of the
    outputs."""

    task: Task
    trial: Trial
    seed: int
    reference: HostSide
    candidate: GuestCalls
    answers: TimedAnswers
    pause: Pause
    drawn: list[Kept] = field(default_factory=list)
    strangest: list[Kept] = field(default_factory=list)
    last: Ran | None = None

    def warm_up(self) -> int:
        """Returns the number of calls to warm up with. Draws inputs once, to see how long that
        takes."""
        begin_s = time.monotonic()
        self.task.inputs(self._seed(-WARMUP - 1), "plain", self.trial.rules.device)
        return WARMUP if time.monotonic() - begin_s < SLOW_DRAW_S else 1

    def measure(self, number: int, is_judged: bool) -> tuple[float, float]:
        """Returns milliseconds of the reference and of the candidate.

        Args:
            number: number of the pair; warm-up pairs have negative numbers.
            is_judged: judge the candidate's outputs in full.
        """
        if number == 0:  # warm-up times contain compilation, and say nothing of the clocks
            self.candidate.forget_times()
        seed = self._seed(number)
        inputs = self.task.inputs(seed, "plain", self.trial.rules.device)
        self.candidate.prepare(inputs, seed)  # it copies them, before the reference may change any
        self.reference.prepare(inputs, seed)
        # A drawn order, so that neither side always runs on the warmer GPU.
        if secrets.randbelow(2):
            reference_ms = self.reference.time()
            candidate_ms = self.candidate.time()
        else:
            candidate_ms = self.candidate.time()
            reference_ms = self.reference.time()
        del inputs
        if number >= -1:  # earlier calls include compilation
            self.pause.adapt()
        self._look(seed, self.candidate.ran(self.reference.outputs), is_judged)
        return reference_ms, candidate_ms

    def _seed(self, number: int) -> int:
        return derive(self.seed, "pair", number) % (1 << 31)

    def _look(self, seed: int, ran: Ran, is_judged: bool) -> None:
        if ran.has_changed:
            message = "the outputs of a timed call were written after it had ended"
            raise Rejected(Stage.TIMING, Code.LEFT_RUNNING, message)
        strange = strangeness(ran.outputs, self.reference.outputs, self.trial.errors)
        if is_judged or strange > 1.0:
            is_stale = self.last is not None and same_bits(ran.outputs, self.last.outputs)
            self._keep(Kept(seed, ran, is_stale, strange), is_judged)
        self.last = ran

    def _keep(self, kept: Kept, is_drawn: bool) -> None:
        """Keeps a call for later, when the GPU need not be quiet; large outputs are judged now."""
        if sum(output.nbytes for output in kept.ran.outputs) > KEPT_BYTES:
            self.last = None
            self.reference.prepare([], kept.seed)  # it lets go of its own
            check_outputs(self.task, self.trial, kept, self.answers)
        elif is_drawn:
            self.drawn.append(kept)
        else:
            # Equal outputs for other inputs are the stronger suspicion: a graph, or a kept result.
            ranked = sorted((*self.strangest, kept), key=lambda k: (k.is_stale, k.strangeness))
            self.strangest = ranked[-MAX_STRANGE:]


@dataclass(frozen=True, slots=True)
class CandidateTiming:
    """A candidate that runs in a session, to be timed on inputs that the task draws."""

    session: Session
    task: Task
    trial: Trial
    """The candidate's; receives the times."""
    seed: int


@stage("take times")
def time_trial(timing: CandidateTiming, budget_s: float = BUDGET_S, pause_ms: float = 0.0) -> None:
    """Fills in the times of candidate and reference, the interval of their ratio and the noise.

    Args:
        budget_s: seconds that all pairs may take; the first batch is taken in any case.
        pause_ms: pause of the device while calls are queued, so that launches do not count. It gets
            longer where the launches of a side take longer.

    Raises:
        Rejected: a timed call is wrong, or its time cannot be true.
    """
    rules = timing.trial.rules
    index = rules.device.index or 0
    with gpu_lock(index):
        timer, pairs = _timed(timing, budget_s, TimedAnswers(rules), pause_ms)
    with gpu_lock(index, shared=True):
        _conclude(timer, pairs)


@stage("take times")
def time_alone(timing: CandidateTiming, budget_s: float, answers: TimedAnswers) -> None:
    """Does the work of `time_trial` for a caller that has the GPU alone already; launches do not
    count.

    Args:
        answers: the reference's answers to the inputs of timed calls; calls under one `seed` share
            them.
    """
    _conclude(*_timed(timing, budget_s, answers, PAUSE_MS))


def _timed(
    timing: CandidateTiming, budget_s: float, answers: TimedAnswers, pause_ms: float
) -> tuple[PairTimer, Pairs]:
    session, task, trial = timing.session, timing.task, timing.trial
    session.restart(trial.name)
    pause = Pause(pause_ms)
    reference = HostCalls(task, trial.rules, pause)
    candidate = GuestCalls(session, trial.name, pause=pause)
    seed = derive(timing.seed, "timing")
    timer = PairTimer(task, trial, seed, reference, candidate, answers, pause)
    pairs = take_pairs(timer.measure, min(budget_s, BUDGET_S), timer.warm_up())
    assert timer.last is not None
    num_calls = calls_in_burst(pairs, pause.ms)
    candidate.burst(num_calls)
    if not clocks_agree(candidate.believed, len(timer.last.outputs)):
        for _ in range(FURTHER_BURSTS):
            candidate.burst(num_calls)
    session.release()
    return timer, pairs


def _conclude(timer: PairTimer, pairs: Pairs) -> None:
    task, trial = timer.task, timer.trial
    outputs = check_times(timer, pairs)
    for kept in (*timer.strangest, *timer.drawn):
        check_outputs(task, trial, kept, timer.answers)
    trial.times |= {
        "reference": summarize(pairs.reference_ms),
        "candidate": summarize(pairs.candidate_ms),
    }
    trial.speedup_interval = pairs.interval()
    trial.noise = noise_floor(pairs.reference_ms)
    trial.passed("times plausible", "timed outputs")
    if len(pairs.candidate_ms) < USUAL_PAIRS:
        trial.advice.append(
            f"only {len(pairs.candidate_ms)} pairs of calls were timed: with inputs of its own, "
            "each takes long"
        )
    if leaves_inputs_unread(pairs.candidate_ms, outputs, task, trial.rules):
        trial.advice.append("faster than its inputs can be read: does the task need all of them?")


@stage("time graphs")
def time_graphs(timing: CandidateTiming, budget_s: float = GRAPH_BUDGET_S) -> None:
    """Fills in the times of both sides as CUDA graphs, where these can be captured: the GPU's part
    without the launches. A guest in which capture failed is not to be used again.

    Raises:
        Rejected: the candidate's graph gives one answer whatever its inputs, or its times cannot be
            true. Any other fault of a graph becomes advice, because the task asks for no graph.
    """
    session, task, trial = timing.session, timing.task, timing.trial
    seed = derive(timing.seed, "graphs")
    with gpu_lock(trial.rules.device.index or 0):
        try:
            session.restart(trial.name)
            inputs = task.inputs(seed % (1 << 31), "plain", trial.rules.device)
            refused = session.capture(trial.name, inputs, seed % (1 << 31))
            if refused:
                trial.advice.append(f"no time as a CUDA graph: {refused}")
                return
            reference = _captured(task, trial, seed)
            candidate = GuestCalls(session, trial.name, is_replay=True)
            answers = TimedAnswers(trial.rules)
            timer = PairTimer(task, trial, seed, reference, candidate, answers, Pause(0.0))
            pairs = take_pairs(timer.measure, min(budget_s, GRAPH_BUDGET_S), timer.warm_up())
        except Rejected as rejected:
            if rejected.stage is Stage.TIMING:
                raise
            trial.advice.append(f"no time as a CUDA graph: {rejected.message}")
            return
        except InfraError as error:  # no memory for a second copy, say: the rest stands
            trial.advice.append(f"no time as a CUDA graph: {error}")
            return
    check_times(timer, pairs)
    with gpu_lock(trial.rules.device.index or 0, shared=True):
        for kept in (*reversed(timer.strangest), *timer.drawn):
            try:
                check_outputs(task, trial, kept, timer.answers)
            except Rejected as wrong:
                if kept.is_stale:
                    message = f"its CUDA graph does not follow its inputs: {wrong.message}"
                    raise Rejected(Stage.TIMING, Code.IMPLAUSIBLE_TIME, message) from wrong
                trial.advice.append(f"no time as a CUDA graph: a replay is wrong, {wrong.message}")
                return
    trial.times["candidate_graph"] = summarize(pairs.candidate_ms)
    if isinstance(reference, HostReplays):
        trial.times["reference_graph"] = summarize(pairs.reference_ms)


def _captured(task: Task, trial: Trial, seed: int) -> HostSide:
    """Returns the reference as a graph whose replays give the values of its calls; otherwise its
    calls."""
    rules, calls = trial.rules, HostCalls(task, trial.rules)
    first, second = (
        task.inputs(derive(seed, "capture", i) % (1 << 31), "plain", rules.device) for i in range(2)
    )
    calls.prepare(second, seed)
    calls.time()
    # Drawn again, because the call above may have changed its inputs.
    inputs = task.inputs(derive(seed, "capture", 1) % (1 << 31), "plain", rules.device)
    try:
        replays = HostReplays(task, rules, first)
        replays.prepare(inputs, seed)
        replays.time()
    except Exception as error:
        why = f"{type(error).__name__}: {error}"[:300]
    else:
        if strangeness(replays.outputs, calls.outputs, trial.errors) <= 1.0:
            return replays
        why = "a replay gives other values than a call"
    trial.advice.append(f"no time of the reference as a CUDA graph: {why}")
    return calls


def calls_in_burst(pairs: Pairs, pause_ms: float) -> int:
    """Returns the number of calls that take about `BURST_MS` together, with their pauses."""
    call_ms = pause_ms + median(pairs.candidate_ms)
    return int(min(max(BURST_MS / call_ms, MIN_BURST), MAX_BURST))


def check_times(timer: PairTimer, pairs: Pairs) -> tuple[torch.Tensor, ...]:
    """Checks that the candidate's times are possible. Returns the outputs of the last call."""
    assert timer.last is not None
    outputs = timer.last.outputs
    check_wall(timer.candidate.believed, len(outputs))
    check_floor(pairs.candidate_ms, outputs, timer.task, timer.trial.rules)
    return outputs


def check_outputs(task: Task, trial: Trial, kept: Kept, answers: TimedAnswers) -> None:
    """Checks the results of a timed call by the rules of the other cases.

    Where the reference draws random numbers, calls in a row differ by design and are not compared.

    Raises:
        Rejected: the results are wrong.
    """
    rules = trial.rules
    answer = answers.of(task, kept.seed)
    if answer is None:
        return
    try:
        checks.check_structure(kept.ran, answer)
        try:
            checks.check_values(kept.ran, answer.outputs, rules.precision)
        except WrongOutputs as wrong:
            inputs = task.inputs(kept.seed, "plain", rules.device)
            call = second_look.ReferenceCall(task, inputs, kept.seed, answer.outputs)
            second_look.look_again(wrong, kept.ran.outputs, call, rules)
        checks.check_inputs(kept.ran, answer, rules.precision)
    except Rejected as wrong:
        message = f"in a timed call: {wrong.message}"
        raise Rejected(Stage.TIMING, wrong.code, message) from wrong


@stage("library share")
def library_share(session: Session, trial: Trial, inputs: list[Any]) -> float | None:
    """Returns the share of the candidate's GPU time outside its own kernels; None where it cannot
    be measured."""
    with faults(Stage.TIMING):
        own = session.guest.kernel_time_share(trial.name, inputs)
    if own is None:
        trial.advice.append("the call waits for the GPU: the library's share is not measured")
        return None
    return 1.0 - own
