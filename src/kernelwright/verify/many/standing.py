"""Judges that stand ready for as long as a run lasts: candidates come at any time, verdicts too.

`verify.many.run` judges jobs that are known beforehand and keeps records of them. Here a training
run hands in candidates as a model writes them. Workers start once, with the first candidate. Equal
texts are judged once, also when they come again much later. Failures of ours are not remembered.
"""

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from types import TracebackType
from typing import Self

from kernelwright.core.verdict import Verdict
from kernelwright.verify.many.engine import JobOutcome, JudgingEngine
from kernelwright.verify.many.jobs import Job, in_batches
from kernelwright.verify.many.pools import Pools

MEMORY = 1 << 14
"""Candidates whose findings are remembered."""


@dataclass(frozen=True, slots=True)
class JudgedCandidate:
    """The outcome of a candidate: a verdict, or why there is none."""

    verdict: Verdict | None
    failure: str = ""
    """Why there is no verdict: our side failed, or the program is no usable reference."""
    is_usage: bool = False
    """The program is at fault: no candidate can be judged against this program."""
    at_s: float = field(default_factory=time.monotonic, compare=False)
    """When it was found, by this process's clock."""


class StandingJudges:
    """Judges candidates that come at any time, from one thread. A context manager."""

    def __init__(self, pools: Pools, memory: int = MEMORY) -> None:
        """
        Args:
            pools: not entered yet; without a clock nothing is timed.
            memory: candidates whose outcomes are remembered.
        """
        self._pools, self._memory = pools, memory
        self.num_judged = 0
        """Distinct candidates so far, failures of ours among them."""
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Future[JudgedCandidate]] = OrderedDict()
        """By content."""
        self._engine = JudgingEngine(pools.judges, pools.clock, self._settle, self._fail)
        self._stack = ExitStack()
        self._is_begun = False
        self._broken: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(_type, _value, _trace)

    def judge(self, reference: str, sources: Sequence[str]) -> "list[Future[JudgedCandidate]]":
        """Returns the outcomes of candidates for one program, each in its place.

        Args:
            reference: text of the program.

        Raises:
            UsageError, InfraError: no judge can be started. Futures of later calls raise the same
                error.
        """
        if not self._is_begun:
            self._is_begun = True
            try:
                self._stack.enter_context(self._engine)
            except BaseException as error:
                self._broken = error
                raise
        jobs = [Job(id="", reference=reference, candidate=source) for source in sources]
        fresh: list[Job] = []
        futures = []
        with self._lock:
            for job in jobs:
                if (future := self._known.get(job.content)) is None:
                    future = self._known[job.content] = Future()
                    # A caller that no longer waits cannot cancel a judgement under way.
                    future.set_running_or_notify_cancel()
                    fresh.append(job)
                self._known.move_to_end(job.content)
                futures.append(future)
            self._forget()
            self.num_judged += len(fresh)
            if self._broken is not None:
                self._fail_open(self._broken)
                return futures
        self._engine.hand_in(in_batches(fresh))
        return futures

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Marks computing of the caller on the GPU: candidates that no clock owner has yet wait to
        be timed until the block is left, unless times are taken on other GPUs."""
        with nullcontext() if self._pools.is_clock_apart else self._engine.held():
            yield

    def take_stages(self) -> dict[str, Counter[str]]:
        """Returns seconds of all judges, and of all clock owners, by stage, since the last call."""
        return self._engine.take_stages()

    def _forget(self) -> None:
        """Forgets the outcomes that were asked for least lately, beyond `memory`, but none under
        way."""
        excess = max(0, len(self._known) - self._memory)
        idle = (content for content, future in self._known.items() if future.done())
        for content in list(islice(idle, excess)):
            del self._known[content]

    # -- in threads of the engine

    def _settle(self, outcome: JobOutcome) -> None:
        finding, content = outcome.finding, outcome.job.content
        with self._lock:
            future = self._known[content]
            if "verdict" in finding:
                judged = JudgedCandidate(Verdict.from_json(dict(finding["verdict"])))
            else:
                is_usage = "usage" in finding
                judged = JudgedCandidate(None, finding["usage" if is_usage else "infra"], is_usage)
                if not is_usage:
                    del self._known[content]
        future.set_result(judged)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._broken = error
            self._fail_open(error)

    def _fail_open(self, error: BaseException) -> None:
        for future in self._known.values():
            if not future.done():
                future.set_exception(error)
