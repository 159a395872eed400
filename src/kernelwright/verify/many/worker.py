"""The workers of `verify.many.run`: they judge batches of candidates of one task, or time several.

A batch is JSON: {"reference": text, "candidates": [{"id", "source"}]}. A clock owner is given a row
of them, {"batches": [...]}, each candidate with the "errors" of its verdict and the folder of its
"kernels". The answer is JSON too: {"found": [...], "stages": {...}, "worker": ...}. Each finding
has the candidate's id and one of "verdict", "usage" (the task cannot be judged by) and "infra" (our
side broke). A verdict of the grade `recycled` names its "guest": candidates of one guest could harm
each other. A candidate that is accepted and to be timed has its "kernels" beside the verdict: to
compile them takes longer than to time them.
"""

import os
import socket
import time
import traceback
from collections import OrderedDict, deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.record import Record
from kernelwright.core.verdict import ErrorFigures, Verdict
from kernelwright.programs.text import parse
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.shared import own_folders
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.cuda_timer import PAUSE_MS
from kernelwright.timing.stages import take_spent
from kernelwright.timing.waiting import sleep_while_waiting
from kernelwright.verify.many.recipe import JudgeRecipe
from kernelwright.verify.recycled import PreparedCandidate
from kernelwright.verify.session import Session
from kernelwright.verify.tasks.load import load_task
from kernelwright.verify.tasks.program_task import program_task
from kernelwright.verify.tasks.task import Task
from kernelwright.verify.times import clock
from kernelwright.verify.trial import Trial

MAX_TASKS = 256
"""Tasks a worker remembers."""
NICENESS = 10
"""The niceness of judges and compilers beside processes that take times: launches that wait for a
core are late, and seem slow."""


def judges(recipe: dict[str, Any], num_threads: int) -> "JudgeWorker":
    """Makes a worker that judges correctness, and takes no times."""
    if recipe["device"] == "cuda":
        sleep_while_waiting()
        os.nice(NICENESS)
    torch.set_num_threads(num_threads)
    return JudgeWorker(JudgeRecipe(**recipe))


def clocks(recipe: dict[str, Any], num_threads: int) -> "ClockWorker":
    """Makes the one worker of a GPU that takes times."""
    torch.set_num_threads(num_threads)
    return ClockWorker(JudgeRecipe(**recipe))


class JudgeWorker:
    """Judges one candidate after another, correctness only."""

    def __init__(self, recipe: JudgeRecipe) -> None:
        self.recipe = recipe
        self.judge = recipe.judge()
        self._tasks: OrderedDict[str, Task] = OrderedDict()
        self._arrived: deque[Record] = deque()
        self._compiling = ThreadPoolExecutor(1, "compile")
        self._prepared: dict[str, Future[PreparedCandidate]] = {}
        """By the candidate's id."""
        self._judged: dict[str, PreparedCandidate] = {}
        """The candidates of the batch at hand, by id."""
        self._folder = own_folders.make("tasks")

    def begin(self, job: Record) -> None:
        """Notes a job, so that candidates of the grade `recycled` compile while earlier ones are
        judged."""
        if self.recipe.grade == "recycled":
            self._arrived.append(job)

    def run(self, job: Record) -> Record:
        """Judges a batch, and answers with one finding for each candidate."""
        findings = []
        for candidate in job["candidates"]:
            self._prepare_arrived()
            findings.append(self._finding(job["reference"], candidate))
            if "infra" in findings[-1]:
                self._renew()
        self._settle(findings)
        return _answer(findings)

    def _settle(self, findings: list[Record]) -> None:
        """Corrects verdicts that a spoiled guest may have given; removes kernels that nobody is to
        time."""
        judged, self._judged = self._judged, {}
        try:
            again = {id(prepared): verdict for prepared, verdict in self.judge.recycled.settle()}
        except InfraError as error:
            for finding in findings:
                if finding["id"] in judged:
                    finding.pop("verdict")
                    finding["infra"] = "".join(traceback.format_exception(error))
            again = {}
            self._renew()
        for finding in findings:
            if (prepared := judged.get(finding["id"])) is None:
                continue
            if (verdict := again.get(id(prepared))) is not None:
                finding["verdict"] = verdict.to_json()
            is_accepted = finding.get("verdict", {}).get("accepted")
            if is_accepted and self.recipe.timing and prepared.trial.kernels is not None:
                finding["kernels"] = str(prepared.trial.kernels)
            else:
                prepared.discard()

    def close(self) -> None:
        self._compiling.shutdown(cancel_futures=True)
        self.judge.__exit__(None, None, None)
        own_folders.remove(self._folder)

    def _finding(self, reference: str, candidate: Record) -> Record:
        begin_s = time.time()
        try:
            result = self.look(self._task(reference), candidate)
        except UsageError as error:
            result = {"usage": str(error)}
        except Exception as error:  # ours, whatever it is; it is recorded and tried again
            result = {"infra": "".join(traceback.format_exception(error))}
        return {"id": candidate["id"], **result, "begin_s": begin_s, "end_s": time.time()}

    def look(self, task: Task, candidate: Record) -> Record:
        """Judges one candidate; returns its verdict as a finding."""
        if self.recipe.grade != "recycled":
            return {"verdict": self.judge.verify(task, candidate_of(candidate)).to_json()}
        prepared = self.prepared(task, candidate)
        try:
            verdict = self.judge.recycled.judge(prepared)
        except BaseException:
            prepared.discard()
            raise
        self._judged[candidate["id"]] = prepared
        guest = f"{os.getpid()}-{self.judge.recycled.num_guests}"
        return {"verdict": verdict.to_json(), "guest": guest}

    def prepared(self, task: Task, candidate: Record) -> PreparedCandidate:
        """Returns the candidate with its kernels, compiled in the background or now."""
        compiled = self._prepared.pop(candidate["id"], None)
        if compiled is not None:
            return compiled.result()
        recycled = self.judge.recycled
        shapes = recycled.shapes(task)
        if (kernels := _kernels_of(candidate)) is not None:
            return recycled.known(shapes, candidate_of(candidate), kernels)
        return recycled.prepare(shapes, candidate_of(candidate))

    def _prepare_arrived(self) -> None:
        """Starts the compilation of candidates that have arrived. Tasks are made here, in the
        judge's thread: a reference's code runs under settings that all threads share."""
        while self._arrived:
            job = self._arrived.popleft()
            try:
                shapes = self.judge.recycled.shapes(self._task(job["reference"]))
            except Exception:  # it shows again, as this job's, when its candidates are judged
                continue
            for candidate in job["candidates"]:
                if _kernels_of(candidate) is not None:
                    continue
                self._prepared[candidate["id"]] = self._compiling.submit(
                    self.judge.recycled.prepare, shapes, candidate_of(candidate)
                )

    def _renew(self) -> None:
        """Replaces guests and judge after a failure of ours. If this process has lost its GPU
        context, this raises, and the executor replaces the process."""
        wait(self._prepared.values())
        if self.judge.on_gpu:
            torch.cuda.synchronize()
        self.judge.__exit__(None, None, None)
        self.judge = self.recipe.judge()

    def _task(self, reference: str) -> Task:
        """Returns the reference's task, which is kept: candidates of one task come one after the
        other."""
        if reference not in self._tasks:
            self._tasks[reference] = self._load(reference)
            if len(self._tasks) > MAX_TASKS:
                self._tasks.popitem(last=False)
        self._tasks.move_to_end(reference)
        return self._tasks[reference]

    def _load(self, reference: str) -> Task:
        if "\n" not in reference:
            return load_task(reference, self.judge.rules.device)
        try:
            return program_task(parse(reference))
        except UsageError:  # more than a flat program
            path = self._folder / f"reference_{abs(hash(reference)):x}.py"
            # Python says what is wrong with a lone surrogate: the reference's fault, not ours.
            path.write_text(reference, encoding="utf-8", errors="surrogatepass")
            return load_task(path, self.judge.rules.device)


def _kernels_of(candidate: Record) -> Path | None:
    """Returns the candidate's compiled kernels, where they are on this machine."""
    kernels = candidate.get("kernels")
    return Path(kernels) if kernels and Path(kernels).is_dir() else None


def _answer(found: list[Record]) -> Record:
    worker = f"{socket.gethostname()}:{os.getpid()}"
    return {"found": found, "stages": take_spent(), "worker": worker}


def candidate_of(values: Record) -> Candidate:
    return Candidate(source=values["source"], origin="file")


class ClockWorker(JudgeWorker):
    """Times accepted candidates; it is alone on the GPU while it does."""

    def begin(self, job: Record) -> None:
        for batch in job["batches"]:
            super().begin(batch)

    def run(self, job: Record) -> Record:
        """Times a row. Candidates of the grade `recycled` have the GPU for all of the row: to get
        the GPU alone takes as long as the slowest judge's present step."""
        row = [(b["reference"], posed) for b in job["batches"] for posed in b["candidates"]]
        self._prepare_arrived()
        ids = [candidate["id"] for _, candidate in row]
        # All kernels first: a compilation while the GPU is held would keep all judges waiting.
        wait([self._prepared[name] for name in ids if name in self._prepared])
        results: list[Record] = []
        while len(results) < len(row):
            results += self._times(row[len(results) :])
            if "infra" in results[-1]:
                self._renew()  # while others have the GPU
        return _answer(results)

    def _times(self, row: list[tuple[str, Record]]) -> list[Record]:
        """Returns the times of a row, up to the first failure of ours."""
        results: list[Record] = []
        with ExitStack() as alone:
            if self.recipe.grade == "recycled":
                self.judge.recycled.guests.begin()
                alone.enter_context(gpu_lock(self.judge.rules.device.index or 0))
            for reference, candidate in row:
                results.append(self._finding(reference, candidate))
                if "infra" in results[-1]:
                    break
        return results

    def look(self, task: Task, candidate: Record) -> Record:
        """Returns the verdict on the timed calls alone: times, or their fault. Outputs whose errors
        exceed those seen before are judged in full."""
        figures = candidate["errors"]  # None where nothing is floating-point
        errors = figures and ErrorFigures(**figures)
        budget_s = self.recipe.timing_s or clock.BUDGET_S
        if self.recipe.grade != "recycled":
            return {"verdict": self._fresh(task, candidate, errors, budget_s).to_json()}
        prepared = self.prepared(task, candidate)
        try:
            return {"verdict": self.judge.recycled.time(prepared, errors, budget_s).to_json()}
        finally:
            prepared.discard()

    def _fresh(
        self, task: Task, candidate: Record, errors: ErrorFigures | None, budget_s: float
    ) -> Verdict:
        judge = self.judge
        trial = Trial(judge.rules, candidate_of(candidate))
        trial.errors = errors
        with trial.ending(), shared(judge.rules.device.type).guest(judge.limits) as guest:
            session = Session(task, guest, judge.rules.device)
            with gpu_lock(judge.rules.device.index or 0, shared=True):
                trial.load(session)
            timing = clock.CandidateTiming(session, task, trial, judge.seed)
            clock.time_trial(timing, budget_s, PAUSE_MS)
            clock.time_graphs(timing)
        return trial.verdict()
