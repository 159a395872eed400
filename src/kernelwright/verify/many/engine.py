"""The engine of many judgements: judges side by side, and clock owners that time what they accept.

A run that knows its jobs beforehand (`verify.many.run`) and judges that stand ready for a training
run (`verify.many.standing`) hand batches to the engine and get one outcome for each job. If our
side fails on a candidate, the engine judges the candidate once more, in a batch of its own.
"""

import math
import queue
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from types import TracebackType
from typing import Any, Self

from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.sandbox.workers.executor import Done, Executor
from kernelwright.sandbox.workers.executor import Job as ExecutorJob
from kernelwright.verify.many.jobs import Job

TOGETHER = 64
"""Candidates that a clock owner times in a row, alone on the GPU. Before a row all judges let go of
the GPU, and they wait until the row is timed: with rows of one they mostly wait."""
TOGETHER_FRESH = 8
"""The same for candidates in guests of their own. The clock owner starts a guest for each, while
judges go on: a long row would only delay the verdicts."""
LATE_S = 30.0
"""Seconds after which a row is formed of fewer candidates, if no clock owner has a row. Judges of
large tasks take minutes for a full row, and a run that ends in between loses all its verdicts."""
AHEAD = 2
"""Rows that each clock owner holds. The second row waits there, so the owner never waits for a
row."""
END_S = 5.0
"""Seconds that judgements under way get when a run ends. Then their workers are ended."""


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The end of a job: a finding, which has a verdict, a usage error or a failure of ours."""

    job: Job
    finding: Record
    timed_s: tuple[float, float] | None = None
    """When the clock owner began and ended with the candidate."""


@dataclass(slots=True)
class _OpenJob:
    """A job that is being judged."""

    job: Job
    is_retried: bool = False
    judged: Record = field(default_factory=dict)
    """The finding on correctness, while the candidate waits to be timed."""


class JudgingEngine:
    """A context manager. Batches may be handed in at any time, from one thread.

    Args:
        judges: of `many.worker.judges`, not entered yet.
        clock: of `many.worker.clocks`, one worker a GPU; None: nothing is timed.
        is_fresh: candidates have guests of their own.
        settle: gets the outcome of each job, in a thread of the engine.
        fail: gets the exception that ended the executors, in a thread of the engine. No further
            outcome comes then.
    """

    def __init__(
        self,
        judges: Executor,
        clock: Executor | None,
        settle: Callable[[JobOutcome], None],
        fail: Callable[[BaseException], None],
        *,
        is_fresh: bool = False,
    ) -> None:
        self._judges, self._clock = judges, clock
        self._together = TOGETHER_FRESH if is_fresh else TOGETHER
        self._settle, self._fail = settle, fail
        self._lock = threading.RLock()
        self._open: dict[str, _OpenJob] = {}
        """By content."""
        self._to_judge: queue.SimpleQueue[ExecutorJob | None] = queue.SimpleQueue()
        self._to_time: queue.SimpleQueue[ExecutorJob | None] = queue.SimpleQueue()
        self._batches: dict[str, list[str]] = {}
        """Contents of each batch that the judges have, by the batch's id."""
        self._num_batches = 0
        self._accepted: list[str] = []
        """Contents that wait to be part of a row, candidates of one reference side by side."""
        self._accepted_since = math.inf
        """When the first of them began to wait."""
        self._waiting: deque[list[str]] = deque()
        """Rows that no clock owner has yet."""
        self._num_rows = 0
        self._rows: dict[str, list[str]] = {}
        """Contents of each row that clock owners have, by the row's id."""
        self._is_held = False
        self._stages = _no_stages()
        self._threads: list[threading.Thread] = []
        self._stack = ExitStack()
        self._is_closed = self._has_failed = False

    def __enter__(self) -> Self:
        try:
            self._listen(self._judges, self._to_judge, self._answered)
            if self._clock is not None:
                self._listen(self._clock, self._to_time, self._timed)
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
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
        has_work = bool(self._open) or self._has_failed
        end_s = time.monotonic() + END_S
        try:  # a second Ctrl-C ends the waiting, and the workers are ended all the same
            for thread in self._threads:
                thread.join(max(end_s - time.monotonic(), 0.0) if has_work else None)
        finally:
            self._stack.__exit__(_type, _value, _trace)

    def hand_in(self, batches: Iterable[list[Job]]) -> None:
        """Hands in batches, each of one reference's candidates, for one worker each. The caller
        must not hand in a job while a job of equal content is open."""
        batches = list(batches)
        # All jobs are open before the first is judged: the last row of candidates to time goes to a
        # clock owner when no other job is open.
        with self._lock:
            for job in chain.from_iterable(batches):
                self._open[job.content] = _OpenJob(job)
        for batch in batches:
            self._send([job.content for job in batch])

    @contextmanager
    def held(self) -> Iterator[None]:
        """Makes candidates that no clock owner has yet wait to be timed until the block is left."""
        with self._lock:
            self._is_held = True
        try:
            yield
        finally:
            with self._lock:
                self._is_held = False
                self._hand_to_clocks()

    def take_stages(self) -> dict[str, Counter[str]]:
        """Returns seconds of all judges, and of all clock owners, by stage, since the last call."""
        with self._lock:
            taken, self._stages = self._stages, _no_stages()
        return taken

    def _send(self, contents: list[str]) -> None:
        with self._lock:
            jobs = [self._open[content].job for content in contents if content in self._open]
            if not jobs:
                return
            batch_id = f"batch-{self._num_batches}"
            self._num_batches += 1
            self._batches[batch_id] = contents
        candidates = [{"id": job.content, "source": job.sent} for job in jobs]
        self._to_judge.put((batch_id, {"reference": jobs[0].reference, "candidates": candidates}))

    # -- in threads of the executors

    def _listen(
        self,
        executor: Executor,
        jobs: "queue.SimpleQueue[ExecutorJob | None]",
        answer: Callable[[Done], None],
    ) -> None:
        self._stack.enter_context(executor)
        thread = threading.Thread(target=self._run, args=(executor, jobs, answer), daemon=True)
        thread.start()
        self._threads.append(thread)

    def _run(
        self,
        executor: Executor,
        jobs: "queue.SimpleQueue[ExecutorJob | None]",
        answer: Callable[[Done], None],
    ) -> None:
        try:
            for done in executor.run(iter(jobs.get, None)):
                if self._has_failed:
                    return
                answer(done)
                if self._is_closed:
                    return
        except BaseException as error:  # raised where outcomes are waited for
            with self._lock:
                is_first, self._has_failed = not self._has_failed, True
                self._open.clear()
                self._accepted.clear()
                self._waiting.clear()
            if is_first:
                self._fail(error)

    def _answered(self, done: Done) -> None:
        """Takes a batch back from the judges."""
        contents = self._batches.pop(done.id)
        accepted: list[str] = []
        if done.answer is None:
            for content in contents:
                self._failed(content, {"infra": done.failure})
        else:
            accepted = self._judged(done.answer)
        with self._lock:
            if accepted and not self._accepted:
                self._accepted_since = time.monotonic()
            self._accepted += accepted
            self._hand_to_clocks()

    def _judged(self, answer: Record) -> list[str]:
        """Settles findings; returns the contents that are accepted and wait to be timed."""
        with self._lock:
            self._stages["judges"].update(answer["stages"])
        accepted = []
        for finding in answer["found"]:
            content = finding.pop("id")
            finding["worker"] = answer["worker"]
            if "infra" in finding:
                self._failed(content, finding)
            elif self._clock is not None and finding.get("verdict", {}).get("accepted"):
                self._open[content].judged = finding
                accepted.append(content)
            else:
                self._close(content, finding)
        return accepted

    def _hand_to_clocks(self) -> None:
        """Hands out the rows that keep clock owners busy, and no more: rows that they have cannot
        be held back. Call this under the lock."""
        clock = self._clock
        while clock is not None and not self._is_held and not self._has_failed:
            if len(self._rows) >= AHEAD * clock.num_workers:
                return
            if not self._waiting:
                self._form_rows(clock.num_workers)
            if not self._waiting:
                return
            row = self._waiting.popleft()
            row_id = f"row-{self._num_rows}"
            self._num_rows += 1
            self._rows[row_id] = row
            self._to_time.put((row_id, timing_job(self._open[content] for content in row)))

    def _form_rows(self, num_clocks: int) -> None:
        """Puts all accepted candidates into rows of equal length. Each clock owner gets at least
        one row. Candidates wait while they are few and other jobs are being judged, but no longer
        than `LATE_S` beside idle clock owners."""
        num_accepted = len(self._accepted)
        if num_accepted == 0:
            return
        num_timing = sum(map(len, self._rows.values()))
        is_late = num_timing == 0 and time.monotonic() - self._accepted_since > LATE_S
        is_few = num_accepted < self._together * num_clocks
        if is_few and num_accepted + num_timing < len(self._open) and not is_late:
            return
        num_rows = num_clocks * math.ceil(num_accepted / (self._together * num_clocks))
        length = math.ceil(num_accepted / num_rows)
        accepted, self._accepted = self._accepted, []
        self._waiting.extend(accepted[i : i + length] for i in range(0, num_accepted, length))

    def _timed(self, done: Done) -> None:
        """Takes a row back from a clock owner."""
        with self._lock:
            row = self._rows.pop(done.id)
            if done.answer is None and len(row) > 1:
                # One candidate of the row may have ended the clock owner: each is timed alone.
                self._waiting.extendleft([content] for content in reversed(row))
                self._hand_to_clocks()
                return
        if done.answer is None:
            timed: list[Record] = [{"id": content, "infra": done.failure} for content in row]
        else:
            timed = done.answer["found"]
            with self._lock:
                self._stages["clock"].update(done.answer["stages"])
        for finding in timed:
            judged = self._open[finding["id"]].judged
            timed_s = (finding["begin_s"], finding["end_s"]) if "begin_s" in finding else None
            self._close(finding["id"], with_times(judged, finding), timed_s)
        with self._lock:
            self._hand_to_clocks()

    def _failed(self, content: str, finding: Record) -> None:
        """Judges a candidate once more, alone, because another candidate of its batch may have
        caused our failure. A second failure is the outcome."""
        open_job = self._open[content]
        if open_job.is_retried:
            self._close(content, finding)
        else:
            open_job.is_retried = True
            self._send([content])

    def _close(
        self, content: str, finding: Record, timed_s: tuple[float, float] | None = None
    ) -> None:
        with self._lock:
            job = self._open.pop(content).job
        self._settle(JobOutcome(job, finding, timed_s))


def _no_stages() -> dict[str, Counter[str]]:
    return {"judges": Counter(), "clock": Counter()}


def timing_job(row: Iterable[_OpenJob]) -> Record:
    """Returns the job that times a row of judged candidates. From then on their kernels belong to
    the clock owner."""
    batches: dict[str, list[Record]] = defaultdict(list)
    for open_job in row:
        job, judged = open_job.job, open_job.judged
        candidate = {
            "id": job.content,
            "source": job.sent,
            "errors": judged["verdict"]["errors"],
            "kernels": judged.pop("kernels", None),
        }
        batches[job.reference].append(candidate)
    return {"batches": [{"reference": r, "candidates": batch} for r, batch in batches.items()]}


def with_times(judged: Record, timed: Record) -> Record:
    """Returns the verdict on correctness with its times, or with the fault of the timed calls."""
    if "verdict" not in timed:
        kind = "infra" if "infra" in timed else "usage"
        return {kind: timed[kind]}
    one, other = (Verdict.from_json(dict(line["verdict"])) for line in (judged, timed))
    taken = ["times", "speedup_interval", "noise"]
    if not other.accepted:
        taken += ["accepted", "stage", "code", "message", "line"]
    facts: dict[str, Any] = {name: getattr(other, name) for name in taken}
    for name in ("checks", "advice"):
        facts[name] = tuple(dict.fromkeys((*getattr(one, name), *getattr(other, name))))
    return {**judged, "verdict": replace(one, **facts).to_json()}
