"""Fragments tuned by many workers: processes of this machine, one for each GPU, or a Ray cluster.

The search stays as without workers. Before it looks at fragments, workers tune all of them side by
side, and their results go into the library, where the search finds them. A fragment whose worker is
lost too often is tuned by the search itself.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.library.entry import PROGRAM, LibraryEntry
from kernelwright.policy.names import TEACHER
from kernelwright.programs.fragments.fragment import extract
from kernelwright.programs.text import parse
from kernelwright.sandbox.workers.executor import Executor, Factory, Job
from kernelwright.search.shelf import Shelf
from kernelwright.search.sources import Sources, Writers, Writing
from kernelwright.search.telling.steps import SearchSteps
from kernelwright.search.tune import Tuned, tune
from kernelwright.timing.deadline import Deadline
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions, device_named
from kernelwright.verify.many.pools import one_a_gpu

TUNER = "kernelwright.search.fleet:Tuner"
JOB_S = 300.0
"""A worker takes at most this long for one fragment."""


class Tuner:
    """A worker: tunes the fragments that it is given. See `sandbox.workers.executor.Worker`."""

    def __init__(self, device: str, precision: str, mode: str) -> None:
        self._open = ExitStack()
        judging = JudgeOptions(device=device, precision=precision, mode=mode)
        rules = judging.resolve_rules()
        self._judge = self._open.enter_context(Judge(judging, trusted=True))
        self._sources = Sources(TEACHER)
        self._shelf = Shelf(None, rules, self._sources, SearchSteps())

    def begin(self, job: Record) -> None:
        """Nothing is prepared: candidates compile while others are judged."""

    def run(self, job: Record) -> Record:
        """Tune a fragment: {"text", "scope", "limit", "seed", "for_s"} -> the entry of a library
        as {"payload", "source"}; {"undecided": why} where the machine or the deadline decided."""
        program, text = parse(job["text"]), job["text"]
        # The search's own seed: a worker tries the candidates that the search would try.
        tuned = tune(
            extract(program, range(len(program.calls))),
            self._judge,
            self._sources,
            Writing(Writers.TEACHER, job["limit"], seed=derive(job["seed"], text)),
            deadline=Deadline(clock_s=time.monotonic() + job["for_s"]),
            is_whole=job["scope"] == PROGRAM,
        )
        entry = self._shelf.entry_of(
            tuned, text, scope=job["scope"], limit=job["limit"], is_trusting=True
        )
        if entry is None:
            return {"undecided": _why_undecided(tuned)}
        return {"payload": entry.payload(), "source": entry.source}

    def close(self) -> None:
        """End the judge's processes."""
        self._open.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class Workers:
    """The workers of a search: one for each GPU, without GPUs one for each core."""

    number: int | None = None
    """The number of workers; None: one for each GPU, or one for each core."""
    cluster: str | None = None
    """The address of a Ray cluster; None: processes of this machine."""

    def executor(self, rules: Mapping[str, Any]) -> Executor:
        """
        Args:
            rules: device, precision and mode, as of `Judge`.

        Raises:
            UsageError: Ray is not installed, there is no cluster, or the cluster has no GPU.
        """
        # The type alone, because each worker has a GPU of its own.
        device = device_named(rules["device"]).type
        factory = Factory(TUNER, {**rules, "device": device})
        return one_a_gpu(factory, device, self.number, self.cluster)


def _why_undecided(tuned: Tuned) -> str:
    """Why a fragment's tuning says nothing about the next tuning of the same fragment."""
    if tuned.num_cut_off:
        return "the time of the job ran out"
    return next((verdict.message for verdict in tuned.verdicts), "no candidate was judged")


def tuned_elsewhere(
    workers: Executor, jobs: Iterable[Record], deadline: Deadline
) -> Iterator[LibraryEntry | str]:
    """Yields the answers of workers in order of completion.

    After the deadline no job begins, and answers that are still open are dropped.

    Args:
        jobs: as of `Tuner.run`, without "for_s".

    Yields:
        An entry for the library, or why the search must tune that fragment itself.

    Raises:
        InfraError: workers cannot be started.
    """

    begun_until = deadline.for_other_threads()  # an executor reads the jobs in a thread of its own

    def timed() -> Iterator[Job]:
        for number, job in enumerate(jobs):
            left_s = begun_until.left_s()
            if left_s <= 0:
                return
            # The time is set when the job is handed out, so a late job has less of it.
            yield str(number), job | {"for_s": min(left_s, JOB_S)}

    for done in workers.run(timed()):
        # The executor gives a job up after several lost workers.
        if done.answer is None:
            yield done.failure
        elif "undecided" in done.answer:
            yield done.answer["undecided"]
        else:
            yield LibraryEntry.of(done.answer["payload"], done.answer["source"])
        if deadline.is_over:
            return
