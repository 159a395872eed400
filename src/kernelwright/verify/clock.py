"""Times on the GPU: the host's reference and the guest's candidates, round by round.

In each round everybody gets the same fresh inputs, the reference first; L2 is cold before every
call. The guest's event times are believed only as far as the host's wall clock and the memory
bandwidth allow. All of it happens under the GPU's lock.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from kernelwright.core.errors import infra
from kernelwright.core.seed import derive
from kernelwright.core.verdict import Code, Stage
from kernelwright.sandbox.guest import Timed
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.cuda_timer import time_cold
from kernelwright.timing.floor import floor_ms
from kernelwright.timing.stats import summarize
from kernelwright.verify import checks
from kernelwright.verify.cases import Posed
from kernelwright.verify.compare import Precision
from kernelwright.verify.judging import Rules
from kernelwright.verify.rejection import Rejected, faults
from kernelwright.verify.session import Session
from kernelwright.verify.task import Task
from kernelwright.verify.trial import Trial

NUM_ROUNDS = 3
WARMUP = 3
"""Calls before the timed ones: compilation, autotuning, the allocator's first blocks."""
ROUND_MS = 100.0
"""Time one round should take by the reference, which sets the number of repeats."""
MIN_REPEATS, MAX_REPEATS = 5, 40
WALL_FACTOR, WALL_SLACK_MS = 3.0, 250.0
"""The host's wall clock may exceed what the guest's times explain by this much."""
CACHED_BYTES = 64 << 20
"""Of what is written, this much may still be in L2 when a call ends."""

Provide = Callable[[Trial], Session]


def time_candidates(
    provide: Provide,
    task: Task,
    trials: Sequence[Trial],
    seed: int,
    *,
    repeats: int | None = None,
    judges_outputs: bool = True,
) -> None:
    """Fill in the times of the trials that stand, and of the reference.

    Args:
        provide: the session a trial's candidate is loaded in.
        repeats: timed calls a round; by the reference's time unless given.
        judges_outputs: compare what the last timed call of a round returned; which round is
            drawn here, so no candidate can know.
    """
    rules = trials[0].rules
    judged = secrets.randbelow(NUM_ROUNDS)
    reference_ms: list[float] = []
    candidate_ms: dict[str, list[float]] = {trial.name: [] for trial in trials}
    last: list[tuple[Trial, int, Timed]] = []
    with gpu_lock(rules.device.index or 0):
        for number in range(NUM_ROUNDS):
            round_seed = derive(seed, "timing", number) % (1 << 31)
            inputs = task.inputs(round_seed, "plain", rules.device)
            times_ms, overhead_ms = time_reference(task, inputs, round_seed, rules, repeats)
            reference_ms += times_ms
            for trial in trials:
                if trial.rejection is not None:
                    continue
                with trial.ending():
                    timed = provide(trial).time(
                        trial.name, inputs, len(times_ms), WARMUP, round_seed
                    )
                    candidate_ms[trial.name] += timed.times_ms
                    if number:  # the first round compiles
                        check_wall(timed, overhead_ms)
                    check_floor(timed, rules)
                    if judges_outputs and number == judged:
                        last.append((trial, round_seed, timed))
    with gpu_lock(rules.device.index or 0, shared=True):
        for trial, round_seed, timed in last:
            with trial.ending():
                check_timed_outputs(task, trial, round_seed, timed)
    for trial in trials:
        if trial.rejection is None:
            trial.times = {
                "reference": summarize(reference_ms),
                "candidate": summarize(candidate_ms[trial.name]),
            }
            trial.passed("times plausible", *(["timed outputs"] if judges_outputs else []))


def time_reference(
    task: Task, inputs: list[object], seed: int, rules: Rules, repeats: int | None
) -> tuple[list[float], float]:
    """(ms of each call, ms a call that the timing itself takes) of the reference."""
    with infra("timing the reference"), torch.no_grad(), tf32_allowed(rules):
        reference = task.reference(rules.device)
        torch.manual_seed(seed)
        for _ in range(WARMUP):
            reference(*inputs)
        if repeats is None:
            once_ms = max(time_cold(lambda: reference(*inputs), 1)[0], 1e-3)
            repeats = int(min(max(ROUND_MS / once_ms, MIN_REPEATS), MAX_REPEATS))
        begin_s = time.perf_counter()
        times_ms = time_cold(lambda: reference(*inputs), repeats)
        wall_ms = (time.perf_counter() - begin_s) * 1e3
    return times_ms, max(wall_ms - sum(times_ms), 0.0) / repeats


@contextmanager
def tf32_allowed(rules: Rules) -> Iterator[None]:
    """Under the policy `tf32` the reference may use TF32 too; else it keeps its own settings."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    try:
        if rules.precision is Precision.TF32:
            matmul.allow_tf32 = cudnn.allow_tf32 = True
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def check_wall(timed: Timed, overhead_ms: float) -> None:
    """The calls cannot have taken less time than the host waited, but for the overhead it knows."""
    num_calls = len(timed.times_ms) + WARMUP
    mean_ms = sum(timed.times_ms) / len(timed.times_ms)
    explained_ms = num_calls * (mean_ms + overhead_ms)
    if timed.wall_ms > WALL_FACTOR * explained_ms + WALL_SLACK_MS:
        message = (
            f"{num_calls} calls said to take {mean_ms:.3g} ms each took {timed.wall_ms:.0f} ms "
            "on the host's clock"
        )
        raise Rejected(Stage.TIMING, Code.IMPLAUSIBLE_TIME, message)


def check_floor(timed: Timed, rules: Rules) -> None:
    """No call is faster than writing its outputs at the memory's bandwidth."""
    num_bytes = sum(output.numel() * output.element_size() for output in timed.last.outputs)
    least_ms = floor_ms(rules.device_name, max(num_bytes - CACHED_BYTES, 0), 0) or 0.0
    fastest_ms = min(timed.times_ms)
    if fastest_ms <= 0.0 or fastest_ms < 0.9 * least_ms:
        message = f"{fastest_ms:.3g} ms is below the {least_ms:.3g} ms its outputs take to write"
        raise Rejected(Stage.TIMING, Code.IMPLAUSIBLE_TIME, message)


def check_timed_outputs(task: Task, trial: Trial, seed: int, timed: Timed) -> None:
    """What the last timed call returned must be as right as in the other cases.

    Where the reference draws random numbers, calls in a row differ by design and are not compared.
    """
    rules = trial.rules
    inputs = task.inputs(seed, "plain", rules.device)
    tf32 = rules.precision is Precision.TF32
    if task.is_random(inputs, rules.device):
        return
    answer = task.expected(inputs, seed, rules.device, tf32=tf32)
    try:
        checks.check_structure(timed.last, answer)
        checks.check_values(timed.last, answer.outputs, rules.precision)
    except Rejected as wrong:
        message = f"in a timed call: {wrong.message}"
        raise Rejected(Stage.TIMING, wrong.code, message) from wrong


def library_share(session: Session, trial: Trial, posed: Posed) -> float:
    """Share of the candidate's GPU time outside its own kernels."""
    with faults(Stage.TIMING):
        return 1.0 - session.guest.kernel_time_share(trial.name, posed.inputs)
