"""Times on the GPU, for candidates of our own that are screened: many at once, round by round.

In each round all candidates get the same fresh inputs, the reference first; L2 is cold before every
call. A candidate far behind after one round keeps its times: behind the reference too, where
PyTorch may stay. The outputs of timed calls are not judged again: winners are verified.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

from kernelwright.core.errors import InfraError
from kernelwright.core.seed import derive
from kernelwright.sandbox.shared.contract import GuestCall
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.cuda_timer import Pause
from kernelwright.timing.memory import give_back
from kernelwright.timing.stages import stage
from kernelwright.timing.stats import noise_floor, ratio_interval, summarize
from kernelwright.verify.guests import computing
from kernelwright.verify.inductor import compiled_reference
from kernelwright.verify.judging import Rules
from kernelwright.verify.session import Session
from kernelwright.verify.tasks.task import Task
from kernelwright.verify.times.sides import HostCalls
from kernelwright.verify.trial import Trial

NUM_ROUNDS = 3
WARMUP, REWARM = 3, 1
"""Calls before the timed ones, in the first round (autotuning, the allocator's first blocks) and in
later ones."""
ROUND_MS, MIN_REPEATS = 40.0, 3
"""For the timed calls of one contender in a round; timed calls at least."""
FAR_BEHIND = 1.5
"""Times the fastest one's median: what needs that in the first round is not timed in later ones,
and others do not wait for the GPU meanwhile."""

FILLER = float("nan")
"""The contents of fresh memory."""

Provide = Callable[[Trial], Session]


@stage("take times")
def time_screened(
    provide: Provide,
    task: Task,
    trials: Sequence[Trial],
    seed: int,
    repeats: int,
    *,
    beside_compile: bool = False,
) -> None:
    """Fills in the times of trials without a rejection, of the reference, and of the reference
    inside torch.compile ("compiled"). Launches do not count: in the whole program, torch.compile or
    a CUDA graph may launch the kernels that the trials launch here.

    Args:
        provide: returns the session in which a trial's candidate is loaded.
        repeats: timed calls a round; fewer where they take long.
        beside_compile: time torch.compile of the task's program.
    """
    rules = trials[0].rules
    reference_ms: list[float] = []
    compiled_ms: list[float] = []
    pause = Pause()
    rival = _rival(task, rules, seed, pause) if beside_compile else None
    candidate_ms: dict[str, list[float]] = {trial.name: [] for trial in trials}
    with gpu_lock(rules.device.index or 0):
        reference = HostCalls(task, rules, pause)
        for number in range(NUM_ROUNDS):
            if not (racing := _in_the_race(trials, candidate_ms, [reference_ms, compiled_ms])):
                break
            warmup = REWARM if number else WARMUP
            round_seed = derive(seed, "timing", number) % (1 << 31)
            inputs = task.inputs(round_seed, "plain", rules.device)
            timed = partial(_timed, pause=pause, warmup=warmup, repeats=repeats)
            reference.prepare(inputs, round_seed)
            reference_ms += timed(reference.time)
            if rival is not None and not _add_times(rival, inputs, round_seed, compiled_ms, timed):
                rival, compiled_ms = None, []
            for trial in racing:
                with trial.ending():
                    session = provide(trial)
                    session.restart(trial.name)
                    session.prepare(trial.name, GuestCall(inputs, round_seed, FILLER))
                    candidate_ms[trial.name] += timed(
                        partial(_guest_ms, trial.name, session, pause)
                    )
                    session.release()
    for trial in trials:
        if trial.rejection is None:
            times_ms = candidate_ms[trial.name]
            trial.times = {"reference": summarize(reference_ms), "candidate": summarize(times_ms)}
            if compiled_ms:
                trial.times["compiled"] = summarize(compiled_ms)
            trial.speedup_interval = ratio_interval(reference_ms, times_ms)
            trial.noise = noise_floor(reference_ms)


def _rival(task: Task, rules: Rules, seed: int, pause: Pause) -> HostCalls | None:
    """Returns torch.compile of the task's program, compiled while others may use the GPU; None if
    there is none."""
    with computing(rules.device):
        inputs = task.inputs(derive(seed, "compiling") % (1 << 31), "plain", rules.device)
        call = compiled_reference(task, inputs, rules)
    return None if call is None else HostCalls(task, rules, pause, call, name="compiled")


def _add_times(
    rival: HostCalls,
    inputs: list[Any],
    seed: int,
    times_ms: list[float],
    timed: Callable[[Callable[[], float]], list[float]],
) -> bool:
    """Adds times of torch.compile; returns False where a call fails, for example without memory."""
    rival.prepare(inputs, seed)
    try:
        times_ms += timed(rival.time)
    except InfraError:
        return False
    finally:
        rival.prepare([], seed)  # its results are memory that candidates may need
        give_back()
    return True


def _in_the_race(
    trials: Sequence[Trial], times_ms: dict[str, list[float]], rivals_ms: Sequence[list[float]]
) -> list[Trial]:
    """Returns the trials that stand and are not far behind the fastest one, if any was timed. In
    `hybrid` mode they must not be far behind PyTorch and torch.compile either."""
    standing = [trial for trial in trials if trial.rejection is None]
    medians = [median(times_ms[trial.name]) for trial in standing if times_ms[trial.name]]
    if trials[0].rules.mode != "pure":
        medians += [median(times) for times in rivals_ms if times]
    limit = FAR_BEHIND * min(medians, default=math.inf)
    return [t for t in standing if not times_ms[t.name] or median(times_ms[t.name]) <= limit]


def _guest_ms(name: str, session: Session, pause: Pause) -> float:
    timed = session.time(pause_ms=pause.ms)
    pause.note(name, timed.queued_ms)
    return timed.time_ms


def _timed(call_ms: Callable[[], float], *, pause: Pause, warmup: int, repeats: int) -> list[float]:
    """Returns times of calls in ms, without those to warm up.

    The pause adapts to the contender that is slowest to launch.
    """
    last_ms = [call_ms() for _ in range(warmup)][-1]
    pause.adapt()
    affordable = int(ROUND_MS / (pause.ms + last_ms))
    return [call_ms() for _ in range(min(max(affordable, MIN_REPEATS), repeats))]
