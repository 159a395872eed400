"""Judges that stand ready for as long as a run lasts: candidates come at any time, verdicts too.

`verify.many.run` judges jobs that are known beforehand and keeps records of them; here whoever
trains hands in candidates as a model writes them. Workers start once, with the first candidate.
Equal texts are judged once, also when they come again much later; failures of ours are tried once
more, and never remembered.
"""

import math
import queue
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from types import TracebackType
from typing import Self

from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.sandbox.workers.executor import Done, Executor
from kernelwright.sandbox.workers.executor import Job as ExecutorJob
from kernelwright.verify.many.jobs import Job, in_batches
from kernelwright.verify.many.pools import Pools
from kernelwright.verify.many.run import timing_job, with_times

MEMORY = 1 << 14
"""Candidates whose findings are remembered."""
TOGETHER = 64
"""Candidates that a clock owner times in a row, alone on the GPU: before, it waits until all judges
have let go, and they wait until it has done. Fewer go where nothing more is being judged."""
AHEAD = 2
"""Rows that a clock owner has: it finds the next one there when it is through with one."""
END_S = 5.0
"""Seconds for the judgements under way when a run ends; then their workers are ended."""


@dataclass(frozen=True, slots=True)
class JudgedCandidate:
    """The outcome of a candidate: a verdict, or why there is none."""

    verdict: Verdict | None
    failure: str = ""
    """A failure of ours, or a program that nothing can be judged by."""
    is_usage: bool = False
    """It is the program that cannot be judged by, whatever the candidate."""
    at_s: float = field(default_factory=time.monotonic, compare=False)
    """When it was found, by this process's clock."""


@dataclass(slots=True)
class _OpenCandidate:
    """A candidate that is being judged."""

    job: Job
    future: "Future[JudgedCandidate]"
    is_retried: bool = False
    judged: Record = field(default_factory=dict)
    """The verdict on the candidate, while it waits to be timed."""


class StandingJudges:
    """A context manager; candidates may be handed in from one thread."""

    def __init__(self, pools: Pools, memory: int = MEMORY) -> None:
        """
        Args:
            pools: not entered yet; without a clock nothing is timed.
            memory: candidates whose findings are remembered.
        """
        self._pools, self._memory = pools, memory
        self.num_judged = 0
        """Distinct candidates so far, failures of ours among them."""
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Future[JudgedCandidate]] = OrderedDict()
        """By content."""
        self._open: dict[str, _OpenCandidate] = {}
        self._to_judge: queue.SimpleQueue[ExecutorJob | None] = queue.SimpleQueue()
        self._to_time: queue.SimpleQueue[ExecutorJob | None] = queue.SimpleQueue()
        self._is_held = False
        """The caller is not to be disturbed."""
        self._accepted: deque[list[str]] = deque()
        """Contents, by batch, that wait for a clock owner."""
        self._alone: deque[str] = deque()
        """Those whose row was lost: each is timed by itself."""
        self._timing: dict[str, list[str]] = {}
        """Rows that clock owners have, by job."""
        self._batches: dict[str, list[str]] = {}
        self._num_batches = 0
        self._stages = _no_stages()
        self._threads: list[threading.Thread] = []
        self._stack = ExitStack()
        self._is_closed = False
        self._broken: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._is_closed = True
        self._to_judge.put(None)
        self._to_time.put(None)
        for thread in self._threads:
            thread.join(END_S if self._open else None)
        self._stack.__exit__(_type, _value, _trace)

    def judge(self, reference: str, sources: Sequence[str]) -> "list[Future[JudgedCandidate]]":
        """The outcomes of candidates for one program, each in its place.

        A future raises UsageError or InfraError where no judge can be started at all.

        Args:
            reference: text of the program.
        """
        if not self._threads:
            self._start()
        jobs = [Job(id="", reference=reference, candidate=source) for source in sources]
        fresh: dict[str, _OpenCandidate] = {}
        futures = []
        with self._lock:
            for job in jobs:
                if (future := self._known.get(job.content)) is None:
                    future = self._known[job.content] = Future()
                    self._open[job.content] = fresh[job.content] = _OpenCandidate(job, future)
                self._known.move_to_end(job.content)
                futures.append(future)
            self._forget()
            self.num_judged += len(fresh)
            if self._broken is not None:
                self._fail_open(self._broken)
        for batch in in_batches([one.job for one in fresh.values()]):
            self._hand_in([job.content for job in batch])
        return futures

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """The caller computes on the GPU: what is not with a clock owner yet waits to be timed
        until the block is left, unless times are taken on others."""
        with self._lock:
            self._is_held = not self._pools.is_clock_apart
        try:
            yield
        finally:
            with self._lock:
                self._is_held = False
                self._hand_to_clocks()

    def take_stages(self) -> dict[str, Counter[str]]:
        """Seconds of all judges, and of all clock owners, by stage, since this was asked last."""
        with self._lock:
            taken, self._stages = self._stages, _no_stages()
        return taken

    def _forget(self) -> None:
        """Forget the verdicts that were asked for least lately, beyond `memory`; not those under
        way."""
        excess = max(0, len(self._known) - self._memory)
        idle = (content for content in self._known if content not in self._open)
        for content in list(islice(idle, excess)):
            del self._known[content]

    def _hand_in(self, contents: list[str]) -> None:
        with self._lock:
            open_jobs = [self._open[content] for content in contents if content in self._open]
            if not open_jobs:
                return
            self._num_batches += 1
            batch_id = f"batch-{self._num_batches}"
            self._batches[batch_id] = contents
        candidates = [{"id": one.job.content, "source": one.job.sent} for one in open_jobs]
        reference = open_jobs[0].job.reference
        self._to_judge.put((batch_id, {"reference": reference, "candidates": candidates}))

    # -- in threads of the executors

    def _start(self) -> None:
        self._listen(self._pools.judges, self._to_judge, self._settle)
        if self._pools.clock is not None:
            self._listen(self._pools.clock, self._to_time, self._timed)

    def _listen(
        self,
        executor: Executor,
        jobs: "queue.SimpleQueue[ExecutorJob | None]",
        settle: Callable[[Done], None],
    ) -> None:
        self._stack.enter_context(executor)
        thread = threading.Thread(target=self._run, args=(executor, jobs, settle), daemon=True)
        thread.start()
        self._threads.append(thread)

    def _run(
        self,
        executor: Executor,
        jobs: "queue.SimpleQueue[ExecutorJob | None]",
        settle: Callable[[Done], None],
    ) -> None:
        try:
            for done in executor.run(iter(jobs.get, None)):
                settle(done)
                if self._is_closed:
                    return
        except BaseException as error:  # it is raised where verdicts are waited for
            with self._lock:
                self._broken = error
                self._fail_open(error)

    def _fail_open(self, error: BaseException) -> None:
        for one in self._open.values():
            one.future.set_exception(error)
        self._open.clear()
        self._accepted.clear()
        self._alone.clear()

    def _settle(self, done: Done) -> None:
        contents = self._batches.pop(done.id)
        accepted = []
        if done.answer is None:
            for content in contents:
                self._failed(content, done.failure)
        else:
            accepted = self._judged(done.answer)
        with self._lock:
            if accepted:
                self._accepted.append(accepted)
            self._hand_to_clocks()

    def _judged(self, answer: Record) -> list[str]:
        """Settle what was found; what is accepted and waits to be timed is given."""
        with self._lock:
            self._stages["judges"].update(answer["stages"])
        accepted = []
        for finding in answer["found"]:
            content = finding["id"]
            if "infra" in finding:
                self._failed(content, finding["infra"])
            elif self._pools.clock is not None and finding.get("verdict", {}).get("accepted"):
                self._open[content].judged = finding
                accepted.append(content)
            else:
                self._found(content, finding)
        return accepted

    def _hand_to_clocks(self) -> None:
        """As much as keeps them busy, and no more: what they have cannot be held back. Under the
        lock."""
        clock = self._pools.clock
        while clock is not None and not self._is_held:
            if len(self._timing) >= AHEAD * clock.num_workers:
                return
            row = [self._alone.popleft()] if self._alone else self._row(clock.num_workers)
            if not row:
                return
            judged = [(one.job, one.judged) for one in map(self._open.__getitem__, row)]
            name = f"times of {row[0]}"
            self._timing[name] = row
            self._to_time.put((name, timing_job(judged)))

    def _row(self, num_clocks: int) -> list[str]:
        """Whole batches to time in a row; none while there are few and more are being judged."""
        num_waiting = sum(map(len, self._accepted))
        num_timing = sum(map(len, self._timing.values()))
        if num_waiting < TOGETHER * num_clocks and num_waiting + num_timing < len(self._open):
            return []
        most = min(TOGETHER, math.ceil(num_waiting / num_clocks))
        row: list[str] = []
        while self._accepted and (not row or len(row) + len(self._accepted[0]) <= most):
            row += self._accepted.popleft()
        return row

    def _timed(self, done: Done) -> None:
        with self._lock:
            row = self._timing.pop(done.id)
            if done.answer is None and len(row) > 1:  # one of them may be to blame
                self._alone += row
                self._hand_to_clocks()
                return
        if done.answer is None:
            timed = [{"id": content, "infra": done.failure} for content in row]
        else:
            timed = done.answer["found"]
            with self._lock:
                self._stages["clock"].update(done.answer["stages"])
        for finding in timed:
            judged = self._open[finding["id"]].judged
            self._found(finding["id"], with_times(judged, finding))
        with self._lock:
            self._hand_to_clocks()

    def _failed(self, content: str, failure: str) -> None:
        """A failure of ours is tried once more, apart from the candidates it came with."""
        one = self._open[content]
        if one.is_retried:
            self._found(content, {"infra": failure})
        else:
            one.is_retried = True
            self._hand_in([content])

    def _found(self, content: str, finding: Record) -> None:
        with self._lock:
            one = self._open.pop(content)
            if "verdict" in finding:
                judged = JudgedCandidate(Verdict.from_json(dict(finding["verdict"])))
            else:
                is_usage = "usage" in finding
                judged = JudgedCandidate(None, finding["usage" if is_usage else "infra"], is_usage)
                if not is_usage:
                    self._known.pop(content, None)
        one.future.set_result(judged)


def _no_stages() -> dict[str, Counter[str]]:
    return {"judges": Counter(), "clock": Counter()}
