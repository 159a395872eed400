"""Many candidates judged at once, resumably.

The engine (`verify.many.engine`) judges batches of one task's candidates and has accepted
candidates timed. Each job gets one record. Equal texts are judged once. Failures of ours are
recorded and never scored.
"""

import queue
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright.core.errors import UsageError
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.sandbox.workers.executor import Executor
from kernelwright.verify.many.engine import JobOutcome, JudgingEngine
from kernelwright.verify.many.jobs import MAX_BATCH, Job, in_batches
from kernelwright.verify.many.recipe import JudgeRecipe
from kernelwright.verify.many.run_folder import RunFolder

SAY_EVERY_S = 2.0


def judge_many(
    jobs: Sequence[Job],
    recipe: JudgeRecipe,
    out: Path,
    executor: Executor,
    clock: Executor | None = None,
    say: Say | None = None,
) -> Record:
    """Judge every job that the records in `out` do not settle, and write a record of each.

    Args:
        recipe: resolved; the run's first record, which must not change when it is resumed.
        executor: of `many.worker.judges`, not entered yet.
        clock: of `many.worker.clocks`, one worker a GPU; None: nothing is timed.

    Returns:
        The summary, also written as a record: codes over all jobs, seconds, the profile by stage.

    Raises:
        UsageError: the run was begun otherwise, ids are not unique, or the workers refuse the
            recipe.
        InfraError: workers cannot be started.
    """
    if len({job.id for job in jobs}) < len(jobs):
        raise UsageError("two jobs have the same id")
    folder = RunFolder(out, recipe)
    left = folder.left_of(jobs)
    if left:
        folder.begin()
    is_fresh = recipe.grade == "fresh"
    run = _Run(folder, left, executor, clock, is_fresh, say or (lambda _: None))
    run.run()
    summary = run.summary(jobs)
    folder.summarize(summary)
    return summary


@dataclass(slots=True)
class _Run:
    folder: RunFolder
    left: list[Job]
    executor: Executor
    clock: Executor | None
    is_fresh: bool
    say: Say
    begin_s: float = field(default_factory=time.monotonic)
    _jobs_of: dict[str, list[Job]] = field(default_factory=lambda: defaultdict(list))
    """Content -> the jobs it settles."""
    _outcomes: "queue.SimpleQueue[JobOutcome | BaseException]" = field(
        default_factory=queue.SimpleQueue
    )
    _stages: dict[str, Counter[str]] = field(default_factory=dict)
    _clock_times: list[tuple[float, float]] = field(default_factory=list)
    _num_judged: int = 0
    _said_s: float = 0.0

    def run(self) -> None:
        firsts = self._first_of_each_content()
        if not firsts:
            return
        settle = self._outcomes.put
        try:
            with JudgingEngine(
                self.executor, self.clock, settle, settle, is_fresh=self.is_fresh
            ) as engine:
                engine.hand_in(_batched(firsts, self.folder.failed, 2 * self.executor.num_workers))
                for _ in firsts:
                    self._take(self._outcomes.get())
                self._stages = engine.take_stages()
        except BaseException:  # a Ctrl-C, say: no judged candidate is judged again
            while not self._outcomes.empty():
                with suppress(Exception):
                    self._take(self._outcomes.get())
            raise

    def _take(self, outcome: JobOutcome | BaseException) -> None:
        """Record an outcome; raise the exception that ended the engine. Only the thread of the
        caller writes records."""
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome.timed_s is not None:
            self._clock_times.append(outcome.timed_s)
        self._record(outcome.job, outcome.finding)

    def _first_of_each_content(self) -> list[Job]:
        firsts = []
        for job in self.left:
            if job.content in self.folder.by_content:
                self._copy(job, self.folder.by_content[job.content])
                continue
            if job.content not in self._jobs_of:
                firsts.append(job)
            self._jobs_of[job.content].append(job)
        return firsts

    # -- records

    def _record(self, job: Job, finding: Record) -> None:
        kind = next(kind for kind in ("verdict", "usage", "infra") if kind in finding)
        self._num_judged += kind == "verdict"
        self.folder.write(job, kind, finding)
        for other in self._jobs_of[job.content]:
            if other is not job:
                self._copy(other, {**finding, "record": kind, "id": job.id})
        now_s = time.monotonic()
        if now_s - self._said_s > SAY_EVERY_S:
            self._said_s = now_s
            rate = self._num_judged / (now_s - self.begin_s)
            self.say(f"{self._num_judged} of {len(self._jobs_of)} judged, {rate:.1f} a second")

    def _copy(self, job: Job, settled: Record) -> None:
        """Settle a job by the record of another one of equal content."""
        kind = settled["record"]
        same = settled.get("same_as", settled["id"])
        self.folder.write(job, kind, {kind: settled[kind], "same_as": same})

    def summary(self, jobs: Sequence[Job]) -> Record:
        """Over all jobs of the run, whenever they were settled; times are of this call."""
        settled = [self.folder.by_id[job.id] for job in jobs if job.id in self.folder.by_id]
        codes = Counter(s["verdict"]["code"] for s in settled if s["record"] == "verdict")
        summary: Record = {
            "jobs": len(jobs),
            "codes": dict(codes.most_common()),
            "usage": sum(s["record"] == "usage" for s in settled),
            "infra": len(jobs) - len(settled),
            "judged_now": self._num_judged,
            "seconds": time.monotonic() - self.begin_s,
            "num_workers": self.executor.num_workers,
            "stages_s": dict(self._stages.get("judges", Counter()).most_common()),
        }
        if self._clock_times and self.clock is not None:
            summary["clock"] = self._clock_summary(self.clock.num_workers)
        return summary

    def _clock_summary(self, num_clocks: int) -> Record:
        begins, ends = zip(*self._clock_times, strict=True)
        window_s = max(ends) - min(begins)
        busy_s = sum(end - begin for begin, end in self._clock_times)
        return {
            "timed": len(self._clock_times),
            "window_s": window_s,
            "utilisation": busy_s / (window_s * num_clocks) if window_s else 1.0,
            "stages_s": dict(self._stages["clock"].most_common()),
        }


def _batched(jobs: Sequence[Job], alone: set[str], wanted: int) -> Iterator[list[Job]]:
    """Jobs of one reference together, in order of first appearance; at least `wanted` batches
    where there are as many jobs. Those whose ids are in `alone` have a batch each."""
    size = max(1, min(MAX_BATCH, len(jobs) // max(wanted, 1)))
    by_reference: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        if job.id in alone:
            yield [job]
        else:
            by_reference[job.reference].append(job)
    for group in by_reference.values():
        yield from in_batches(group, size)
