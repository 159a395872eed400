"""Many candidates judged at once, resumably.

Workers judge correctness side by side, in batches of one task's candidates; what they accept goes
to the clock owner of the GPU, which times it alone while they compile and wait. Every job is
settled by one record; equal texts are judged once; failures of ours are tried once more, recorded
and never scored.
"""

import math
import queue
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernelwright.core.errors import UsageError
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.sandbox.workers.executor import Done, Executor
from kernelwright.sandbox.workers.executor import Job as ExecutorJob
from kernelwright.verify.many.jobs import MAX_BATCH, Job, in_batches
from kernelwright.verify.many.recipe import JudgeRecipe
from kernelwright.verify.many.run_folder import RunFolder

SAY_EVERY_S = 2.0
TOGETHER = 64
"""Candidates that a clock owner times in a row, alone on the GPU. Before a row all judges let go of
the GPU, and they wait until the row is timed: with rows of one they mostly wait."""


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
    run = _Run(folder, folder.left_of(jobs), executor, clock, say or (lambda _: None))
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
    say: Say
    begin_s: float = field(default_factory=time.monotonic)
    _jobs_of: dict[str, list[Job]] = field(default_factory=lambda: defaultdict(list))
    """Content -> the jobs it settles."""
    _batches: dict[str, list[Job]] = field(default_factory=dict)
    """The jobs of each batch that is out with the executor, by the batch's id."""
    _to_judge: "queue.SimpleQueue[ExecutorJob | None]" = field(default_factory=queue.SimpleQueue)
    _to_time: "queue.SimpleQueue[ExecutorJob | None]" = field(default_factory=queue.SimpleQueue)
    _num_open: int = 0
    _judged: dict[str, tuple[Job, Record]] = field(default_factory=dict)
    """Content -> what was found of it, while it waits to be timed."""
    _accepted: list[str] = field(default_factory=list)
    """Contents that wait for a row."""
    _rows: dict[str, list[str]] = field(default_factory=dict)
    """Contents of each row that a clock owner has."""
    _retried: set[str] = field(default_factory=set)
    _stages: Counter[str] = field(default_factory=Counter)
    _clock_stages: Counter[str] = field(default_factory=Counter)
    _clock_times: list[tuple[float, float]] = field(default_factory=list)
    _num_judged: int = 0
    _said_s: float = 0.0
    _is_stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        firsts = self._first_of_each_content()
        if not firsts:
            return
        self._num_open = len(firsts)
        for batch in _batched(firsts, self.folder.failed, 2 * self.executor.num_workers):
            self._hand_in(batch)
        with ExitStack() as stack:
            stack.enter_context(self.executor)
            if self.clock is None:
                self._judge()
                return
            stack.enter_context(self.clock)
            with ThreadPoolExecutor(1, "clock") as beside:
                timing = beside.submit(self._time, self.clock)
                try:
                    self._judge()
                except BaseException:
                    self._is_stopped.set()
                    raise
                finally:
                    self._to_time.put(None)
                timing.result()

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

    def _hand_in(self, batch: list[Job]) -> None:
        batch_id = f"batch-{len(self._batches)}"
        self._batches[batch_id] = batch
        candidates = [{"id": job.content, "source": job.sent} for job in batch]
        self._to_judge.put((batch_id, {"reference": batch[0].reference, "candidates": candidates}))

    # -- correctness

    def _judge(self) -> None:
        for done in self.executor.run(iter(self._to_judge.get, None)):
            self._settle(done)
            if not self._num_open:
                self._to_judge.put(None)
        self._hand_to_clocks()

    def _settle(self, done: Done) -> None:
        by_content = {job.content: job for job in self._batches[done.id]}
        if done.answer is None:
            for job in by_content.values():
                self._failed(job, {"infra": done.failure})
            return
        self._stages.update(done.answer["stages"])
        for finding in done.answer["found"]:
            job = by_content[finding.pop("id")]
            finding["worker"] = done.answer["worker"]
            if "infra" in finding:
                self._failed(job, finding)
                continue
            self._num_open -= 1
            if self.clock is not None and finding.get("verdict", {}).get("accepted"):
                self._judged[job.content] = job, finding
                self._accepted.append(job.content)
            else:
                self._record(job, finding)
        if len(self._accepted) >= TOGETHER * (self.clock.num_workers if self.clock else 1):
            self._hand_to_clocks()

    def _failed(self, job: Job, finding: Record) -> None:
        """A failure of ours is tried once more, apart from the candidates it came with."""
        if job.content in self._retried:
            self._num_open -= 1
            self._record(job, finding)
        else:
            self._retried.add(job.content)
            self._hand_in([job])

    # -- times

    def _hand_to_clocks(self) -> None:
        """Rows of equal lengths, one for each clock owner or several."""
        waiting, self._accepted = self._accepted, []
        if self.clock is None or not waiting:
            return
        num_rows = self.clock.num_workers * math.ceil(
            len(waiting) / (TOGETHER * self.clock.num_workers)
        )
        length = math.ceil(len(waiting) / num_rows)
        for first in range(0, len(waiting), length):
            self._to_time.put(self._row(waiting[first : first + length]))

    def _row(self, contents: list[str]) -> ExecutorJob:
        name = f"times of {contents[0]}"
        self._rows[name] = contents
        return name, timing_job(self._judged[content] for content in contents)

    def _time(self, clock: Executor) -> None:
        """Rows as they come; then, one by one, the candidates of rows that were lost: one of them
        may be to blame."""
        alone = list(self._timed(clock, iter(self._to_time.get, None)))
        for content in self._timed(clock, (self._row([content]) for content in alone)):
            job, _ = self._judged.pop(content)
            self._record(job, {"infra": "the clock owner ended while it timed the candidate"})

    def _timed(self, clock: Executor, rows: Iterator[ExecutorJob]) -> Iterator[str]:
        """Record the times of rows; the candidates of those that were lost."""
        for done in clock.run(rows):
            contents = self._rows.pop(done.id)
            if done.answer is None:
                yield from contents
            else:
                self._note_times(done.answer)
            if self._is_stopped.is_set():
                return

    def _note_times(self, answer: Record) -> None:
        self._clock_stages.update(answer["stages"])
        for timed in answer["found"]:
            job, judged = self._judged.pop(timed["id"])
            self._clock_times.append((timed["begin_s"], timed["end_s"]))
            self._record(job, with_times(judged, timed))

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
            "stages_s": dict(self._stages.most_common()),
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
            "stages_s": dict(self._clock_stages.most_common()),
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


def timing_job(judged: Iterable[tuple[Job, Record]]) -> Record:
    """The job that times a row of judged candidates. From then on their kernels belong to the clock
    owner."""
    batches: dict[str, list[Record]] = defaultdict(list)
    for job, line in judged:
        candidate = {
            "id": job.content,
            "source": job.sent,
            "errors": line["verdict"]["errors"],
            "kernels": line.pop("kernels", None),
        }
        batches[job.reference].append(candidate)
    return {"batches": [{"reference": r, "candidates": batch} for r, batch in batches.items()]}


def with_times(judged: Record, timed: Record) -> Record:
    """The verdict on correctness with its times, or with what is wrong with the timed calls."""
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
