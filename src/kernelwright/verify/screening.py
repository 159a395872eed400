"""Many candidates ranked: two cases each in one guest, a single one where it is large, then times
beside each other.

All candidates answer one case before the next is posed, so that memory holds one case at a time.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import GuestLost
from kernelwright.core.verdict import Verdict
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.host.guest import Guest
from kernelwright.sandbox.shared.contract import Limits
from kernelwright.timing.deadline import NEVER, Deadline
from kernelwright.verify.guests import LongLived, fitting, once_more, server, sharing
from kernelwright.verify.judging import Rules
from kernelwright.verify.rejection import Rejected
from kernelwright.verify.room import Hold
from kernelwright.verify.session import Session
from kernelwright.verify.tasks.cases import KEPT_BYTES, Case, Posed, case_of, pose
from kernelwright.verify.tasks.task import META, Task
from kernelwright.verify.times import rounds
from kernelwright.verify.trial import Trial

MAX_SCREENS = 16
"""Calls of `screen` that one guest serves before it is replaced."""
NUM_CASES = 2
MAX_COMPILED = 16
"""Candidates of our own that one guest compiles: beside others, starting one takes as long as
compiling."""
COMPILE_JOBS = os.cpu_count() or 1


class Screening:
    """Screens under one set of rules; its guest lives on from call to call."""

    def __init__(
        self, rules: Rules, limits: Limits, seed: int, hold: Hold, *, trusted: bool
    ) -> None:
        """
        Args:
            trusted: all candidates are our own. Others share no compiled kernels, and a guest with
                nobody but those they are screened with.
        """
        self._rules, self._limits, self._seed, self._hold = rules, limits, seed, hold
        self._trusted = trusted
        start = partial(server(rules.device).guest, limits, trusted=trusted)
        self._guest = LongLived(start, MAX_SCREENS if trusted else 1)
        self._idle: SimpleQueue[LongLived] = SimpleQueue()
        """That compile; each is used by one thread at a time."""

    def rest(self) -> None:
        """Ends the guest that has memory on the device; another is started when needed."""
        self._guest.close()

    def close(self) -> None:
        self.rest()
        while not self._idle.empty():
            self._idle.get().close()

    def screen(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        repeats: int,
        deadline: Deadline,
        *,
        beside_compile: bool = False,
    ) -> list[Verdict]:
        """As `Judge.screen`."""
        named = [
            Trial(
                self._rules,
                candidate,
                name=f"candidate_{i}",
                grade="recycled",
                names_policies=False,
            )
            for i, candidate in enumerate(candidates)
        ]
        trials = self.compiled(named, task, deadline)
        if all(trial.rejection is not None for trial in trials):
            return [trial.verdict() for trial in trials]
        small = fitting(task, self._rules.device, is_generic=True)
        is_on_gpu = self._rules.device.type == "cuda"
        guests = _Guests(small, self._guest, self._rules, deadline)
        # Server and guest start before room is held: others would wait for memory meanwhile.
        server(self._rules.device).start()
        with sharing(self._rules.device):
            self._guest.begin()
        with self._hold():
            for number in range(NUM_CASES):
                deadline.check()
                posing = _Posing(case_of(self._seed, number), self._rules)
                judged = partial(self._judged, guests=guests, posing=posing)
                trials = [once_more(partial(judged, trial)) for trial in trials]
                if posing.is_large:
                    break
            right = [trial for trial in trials if trial.rejection is None]
            if is_on_gpu and right:
                timed = partial(rounds.time_screened, guests.session, task, right, self._seed)
                has_time = not deadline.is_over
                once_more(partial(timed, repeats, beside_compile=beside_compile and has_time))
            guests.release()
        return [trial.verdict() for trial in trials]

    def compiled(
        self, trials: Sequence[Trial], task: Task, deadline: Deadline = NEVER
    ) -> list[Trial]:
        """Reads and compiles candidates in parallel: kernels are ready when guests load them.

        Returns:
            The trials, of which the refused ones have a rejection.

        Raises:
            OutOfTime: the deadline passed before all were compiled.
        """
        deadline = deadline.for_other_threads()

        def prepared(begun: Trial) -> Trial:
            trial = deepcopy(begun)
            with trial.ending():
                trial.read(task)
                with self._compiler() as guest:
                    guest.deadline = deadline
                    trial.compile(task, [task.example(META)], guest)
            return trial

        with ThreadPoolExecutor(COMPILE_JOBS) as pool:
            return list(pool.map(lambda trial: once_more(partial(prepared, trial)), trials))

    @contextmanager
    def _compiler(self) -> Iterator[Guest]:
        """Gives a guest without a GPU for one candidate. Foreign candidates get a guest of their
        own."""
        try:
            compiler = self._idle.get_nowait()
        except Empty:
            start = partial(shared("compile").guest, self._limits, trusted=self._trusted)
            compiler = LongLived(start, MAX_COMPILED if self._trusted else 1)
        try:
            yield compiler.next()
        finally:
            if self._trusted:
                self._idle.put(compiler)
            else:
                compiler.close()

    def _judged(self, begun: Trial, guests: "_Guests", posing: "_Posing") -> Trial:
        """Returns the trial judged in one more case. A rejected trial is returned as it is."""
        if begun.rejection is not None:
            return begun
        # A copy, because the step is repeated from `begun` if the guest is lost.
        trial = deepcopy(begun)
        with trial.ending(), sharing(self._rules.device):
            session = guests.session(trial)
            trial.judge(session, session.task, posing.posed(session.task))
        return trial


@dataclass(slots=True)
class _Guests:
    """The guest in which one task's candidates are loaded; another guest after a death."""

    task: Task
    long_lived: LongLived
    rules: Rules
    deadline: Deadline
    _session: Session | None = None

    def session(self, trial: Trial) -> Session:
        """Returns the session in which the trial's candidate is loaded."""
        if self._session is None or not self._session.guest.alive:
            guest = self.long_lived.next()
            guest.deadline = self.deadline
            self._session = Session(self.task, guest, self.rules.device)
        if not self._session.is_loaded(trial.name):
            trial.load(self._session)
        return self._session

    def release(self) -> None:
        """Frees the memory of the last candidate's call; the guest lives on."""
        if self._session is not None and self._session.guest.alive:
            with suppress(Rejected, GuestLost):  # gone is gone
                self._session.release()


@dataclass(slots=True)
class _Posing:
    """One case, posed once for all candidates that answer the same task."""

    case: Case
    rules: Rules
    is_large: bool = False
    """The posed inputs take more than KEPT_BYTES."""
    _posed: dict[int, tuple[Task, Posed]] = field(default_factory=dict)

    def posed(self, task: Task) -> Posed:
        """Returns the posed case, which is posed at the first call."""
        if id(task) not in self._posed:
            posed = pose(task, self.case, self.rules)
            self.is_large |= posed.num_bytes > KEPT_BYTES
            self._posed[id(task)] = task, posed
        return self._posed[id(task)][1]
