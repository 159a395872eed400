"""The judge: task and candidate in, verdict out.

`verify` is for what is published, served or kept: a fresh guest for the candidate, every input
family, shape variants, all probes. `screen` ranks many candidates of our own in one guest on two
cases; its winners are verified. `verify_many` under the grade `recycled` (verify.recycled) is for
many candidates that are not our own.

A candidate never raises here: what it does wrong is its verdict. What raises is `UsageError` (the
task is wrong) or `InfraError` (we are).
"""

import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from copy import deepcopy
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

import torch

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.seed import derive
from kernelwright.core.verdict import Verdict
from kernelwright.sandbox.forkserver import shared
from kernelwright.sandbox.guest import Limits
from kernelwright.verify import checks, clock, further, rounds
from kernelwright.verify.cases import OTHER_WEIGHTS, Case, Cases, Posed, case_of, pose
from kernelwright.verify.compare import Precision
from kernelwright.verify.guests import LongLived, fitting, once_more, server, sharing
from kernelwright.verify.judging import Rules
from kernelwright.verify.load import available_bytes
from kernelwright.verify.program_task import at_other_shapes, beyond_int32
from kernelwright.verify.recycled import META, Recycled
from kernelwright.verify.session import Lasting, Session
from kernelwright.verify.task import ModuleTask, Task
from kernelwright.verify.trial import Trial

Say = Callable[[str], None]

MODES = ("pure", "hybrid")
MAX_SCREENED = 64
"""Candidates one guest holds before it is replaced."""
GRADES = ("fresh", "recycled")
NUM_SCREEN_CASES = 2
COMPILE_JOBS = os.cpu_count() or 1


class Judge:
    """Judges candidates on one device under one policy. A context manager.

    Args:
        device: "auto" (the GPU where there is one), "cpu" or "cuda".
        precision: "strict", "tf32" or "kernelbench" (see `verify.compare`).
        mode: "pure" (all computation in the candidate's own kernels) or "hybrid".
        limits: of each guest.
        budget_s: no further case is begun after this long; the first two always are.
        seed: of the inputs; secret and new for each judge unless given.
        large: judge a case of more than 2^31 elements too, where the GPU has room for it.
        progress: is told what `verify` does next.
        times: on CUDA, `verify` times what is right; False where a clock owner does that.
        grade: "fresh" (a guest for each candidate: what is published, served or kept) or
            "recycled" (guests that live on, correctness only: training and wide search).
    """

    def __init__(
        self,
        device: str = "auto",
        precision: str = "strict",
        mode: str = "pure",
        *,
        limits: Limits | None = None,
        budget_s: float = 120.0,
        seed: int | None = None,
        large: bool = False,
        progress: Say | None = None,
        times: bool = True,
        grade: str = "fresh",
    ) -> None:
        if mode not in MODES:
            raise UsageError(f"no such mode: {mode}", remedy=f"one of {', '.join(MODES)}")
        if grade not in GRADES:
            raise UsageError(f"no such grade: {grade}", remedy=f"one of {', '.join(GRADES)}")
        if precision not in list(Precision):
            names = ", ".join(Precision)
            raise UsageError(f"no such precision: {precision}", remedy=f"one of {names}")
        self.rules = Rules(device_named(device), Precision(precision), mode)
        self.limits = limits or default_limits(self.rules.device)
        self.grade = grade
        self.budget_s = budget_s
        self.seed = secrets.randbits(31) if seed is None else seed
        self.large = large
        self._takes_times = times and self.on_gpu
        self._say = progress or (lambda _: None)
        trusted = partial(server(self.rules.device).guest, self.limits, trusted=True)
        self._warm = LongLived(trusted, MAX_SCREENED)
        self.recycled = Recycled(self.rules, self.limits, self.seed)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._warm.close()
        self.recycled.close()

    @property
    def on_gpu(self) -> bool:
        return self.rules.device.type == "cuda"

    # -- one candidate, fully

    def verify(self, task: Task, candidate: Candidate) -> Verdict:
        """Judge one candidate: `fresh` in a guest of its own, `recycled` in one that lives on.

        Raises:
            UsageError: the task's reference fails.
            InfraError: a guest was lost twice for no fault of the candidate's.
        """
        if self.grade == "recycled":
            return next(self.recycled.judge_many([(task, candidate)]))
        trial = once_more(lambda: self._verify(Trial(self.rules, candidate), task))
        self._make_room()
        return trial.verdict()

    def verify_many(self, pairs: Iterable[tuple[Task, Candidate]]) -> Iterator[Verdict]:
        """Judge one after the other; verdicts in their order. While the grade is `recycled`, the
        next candidates are compiled while one is judged.

        Raises:
            UsageError, InfraError: as `verify`, at the candidate it happens to.
        """
        if self.grade == "recycled":
            yield from self.recycled.judge_many(pairs)
        else:
            yield from (self.verify(task, candidate) for task, candidate in pairs)

    def _verify(self, trial: Trial, task: Task) -> Trial:
        """The trial, judged."""
        with trial.ending():
            self._say("reading the source")
            trial.read(task.entry)
            if not self.on_gpu:  # a GPU compiles for itself
                self._say("compiling for sm_90")
                self._compile(trial, task)
            if (small := fitting(task, self.rules.device, is_generic=False)) is not task:
                trial.advice.append("judged on smaller sizes: the interpreter is slow")
            with ExitStack() as guests:

                def open_session(task: Task) -> Session:
                    guest = guests.enter_context(server(self.rules.device).guest(self.limits))
                    session = Session(task, guest, self.rules.device)
                    trial.load(session)
                    return session

                self._say("loading")
                with self._sharing():
                    session = open_session(small)
                cases = self._cases(session.tasks[trial.name])
                self._judge_cases(trial, session, cases)
                trial.attest(session.guest)  # before its times are believed
                if self._takes_times:
                    self._say("taking times")
                    clock.time_trial(session, cases.base, trial, self.seed)
                sessions = Lasting(session, open_session)
                self._probe(trial, sessions, cases)
                if self._takes_times:  # last: a graph that cannot be captured may cost the guest
                    self._say("timing CUDA graphs")
                    clock.time_graphs(sessions.now(), cases.base, trial, self.seed)
        return trial

    def _cases(self, base: Task) -> Cases:
        variants = {"base": base, **at_other_shapes(base, self.seed)}
        if isinstance(base, ModuleTask) and base.is_redrawn:  # weights can be given by name
            variants[OTHER_WEIGHTS] = base.with_other_weights(derive(self.seed, "weights"))
        return Cases(variants, self.rules, self.seed)

    def _judge_cases(self, trial: Trial, session: Session, cases: Cases) -> None:
        """All cases the budget allows."""
        end_s = time.monotonic() + self.budget_s
        for number, case in enumerate(cases.all()):
            if number >= NUM_SCREEN_CASES and time.monotonic() > end_s:
                trial.advice.append(f"{self.budget_s:g} s were over: some cases were not run")
                break
            self._say(f"case {case.name}")
            with self._sharing():
                if (posed := cases.pose_if_defined(case)) is not None:
                    trial.judge(session, cases.variants[case.variant], posed)

        if self.large:
            with self._sharing():
                self._judge_large(trial, session, cases.base)

    def _judge_large(self, trial: Trial, session: Session, base: Task) -> None:
        self._make_room()
        task = beyond_int32(base, available_bytes(self.rules.device)) if self.on_gpu else None
        if task is None:
            trial.advice.append("no case beyond 2^31 elements: no room, or sizes are fixed")
            return
        case = replace(case_of(self.seed, 0), variant="beyond 2^31 elements")
        self._say(f"case {case.name}")
        trial.judge(session, task, pose(task, case, self.rules))
        self._make_room()

    def _probe(self, trial: Trial, sessions: Lasting, cases: Cases) -> None:
        """What the right outputs do not tell."""
        with self._sharing():
            if self.on_gpu:
                trial.library_share = clock.library_share(sessions.now(), trial, cases.first())
                checks.check_share(trial.library_share, self.rules.mode)
            self._say("calling it with its kernels silenced")
            trial.silence(sessions, cases)
            self._say("looking beyond the task")
            further.look(trial, sessions, cases)
            trial.attest(sessions.now().guest)
            trial.passed("process unchanged")

    # -- many of our own

    def screen(
        self, task: Task, candidates: Sequence[Candidate], repeats: int = 10
    ) -> list[Verdict]:
        """Judge our own candidates in one guest, on two cases each; verdicts in their order.

        On CUDA the right ones are timed, interleaved with each other and the reference. One that
        ends the guest gets its verdict, and the rest go on in another guest.

        Raises:
            UsageError, InfraError: as `verify`.
        """
        small = fitting(task, self.rules.device, is_generic=True)
        compiled = self._compile_all(
            [
                Trial(self.rules, c, name=f"candidate_{i}", grade="recycled")
                for i, c in enumerate(candidates)
            ],
            task,
        )
        posed: dict[tuple[int, Case], Posed] = {}
        trials = [once_more(partial(self._screen_one, trial, small, posed)) for trial in compiled]
        right = [trial for trial in trials if trial.rejection is None]
        if self.on_gpu and right:
            once_more(partial(self._time_screened, task, right, repeats))
        self._make_room()
        return [trial.verdict() for trial in trials]

    def warm(self, task: Task, candidates: Sequence[Candidate]) -> None:
        """Compile our own candidates, so that guests need not; what is wrong shows when judged."""
        self._compile_all([Trial(self.rules, candidate) for candidate in candidates], task)

    def _compile_all(self, trials: Sequence[Trial], task: Task) -> list[Trial]:
        """Static rules, and compilation in parallel: kernels are ready when guests load them."""

        def prepared(begun: Trial) -> Trial:
            trial = deepcopy(begun)
            with trial.ending():
                trial.read(task.entry)
                self._compile(trial, task, trusted=True)
            return trial

        with ThreadPoolExecutor(COMPILE_JOBS) as pool:
            return list(pool.map(lambda trial: once_more(partial(prepared, trial)), trials))

    def _screen_one(self, begun: Trial, task: Task, posed: dict[tuple[int, Case], Posed]) -> Trial:
        """The trial that was begun, judged; itself where it is rejected already."""
        if begun.rejection is not None:
            return begun
        trial = deepcopy(begun)
        with trial.ending(), self._sharing():
            session = self._warm_session(task)
            trial.load(session)
            own_task = session.tasks[trial.name]
            for number in range(NUM_SCREEN_CASES):
                case = case_of(self.seed, number)
                key = (id(own_task), case)
                if key not in posed:
                    posed[key] = pose(own_task, case, self.rules)
                trial.judge(session, own_task, posed[key])
        return trial

    def _time_screened(self, task: Task, trials: Sequence[Trial], repeats: int) -> None:
        session = self._warm_session(task)

        def provide(trial: Trial) -> Session:
            nonlocal session
            if not session.guest.alive:
                session = self._warm_session(task)
            if trial.name not in session.tasks:
                session.load(trial.name, trial.candidate.source)
            return session

        rounds.time_screened(provide, task, trials, self.seed, repeats)

    def _warm_session(self, task: Task) -> Session:
        """The guest that is at hand, a new one after a death or enough candidates."""
        return Session(task, self._warm.next(), self.rules.device)

    # -- parts

    def _compile(self, trial: Trial, task: Task, *, trusted: bool = False) -> None:
        """A compiler for the GPU must agree; tensors are described to it, not made."""
        with shared("compile").guest(self.limits, trusted=trusted) as guest:
            trial.compile(task, [task.example(META)], guest)

    def _sharing(self) -> AbstractContextManager[None]:
        return sharing(self.rules.device)

    def _make_room(self) -> None:
        """Return cached GPU memory: the guests have allocators of their own."""
        if self.on_gpu:
            torch.cuda.empty_cache()


def default_limits(device: torch.device) -> Limits:
    """A minute a request; on CPU 8 GiB of address space, on CUDA half the GPU for outputs."""
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        return Limits(wall_s=120.0, memory_bytes=total // 2)
    return Limits(wall_s=60.0, memory_bytes=8 << 30)


def device_named(name: str) -> torch.device:
    """The device of an option: "auto", "cpu" or "cuda".

    Raises:
        UsageError: there is no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise UsageError(f"no such device: {name}", remedy="auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("there is no CUDA device", remedy="use --device cpu")
    return torch.device(name, 0) if name == "cuda" else torch.device(name)
