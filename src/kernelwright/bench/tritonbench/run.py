"""Scores code for TritonBench: by the benchmark's own metrics, and by our judge, call by call.

The folder of a run has files of intermediate results: the calls of the tasks, the results of
scripts, a policy's answers, and the judge's records under `judged/`. An interrupted run continues
these files. `records.jsonl`, with a case for each task, is computed from these files at the end.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernelwright.bench.answers import Asking, ask
from kernelwright.bench.problems import Problem
from kernelwright.bench.suite import RECORDS
from kernelwright.bench.synthetic import ANSWERS, JUDGED, jobs_of, judged_at, verdicts_in
from kernelwright.bench.tritonbench.cases import (
    Outcomes,
    PosedCalls,
    TaskScripts,
    case_of_answers,
    case_of_prediction,
)
from kernelwright.bench.tritonbench.checkout import BenchFile
from kernelwright.bench.tritonbench.posing import on_device
from kernelwright.bench.tritonbench.stages import BenchScript, StagePlan, posed_tasks, run_scripts
from kernelwright.core import record
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.programs.text import parse
from kernelwright.sandbox.host.probe import require_guards
from kernelwright.verify.many.jobs import Job
from kernelwright.verify.many.pools import local_pools
from kernelwright.verify.many.recipe import JudgeRecipe
from kernelwright.verify.many.run import judge_many
from kernelwright.verify.many.run_folder import RunFolder

COMMAND = "eval tritonbench"
INTERPRET = "TRITON_INTERPRET"
"""Triton's environment variable: "1" makes kernels run in the interpreter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TritonBenchPlan:
    """The settings of a run."""

    files: Sequence[BenchFile]
    channel: str
    label: str
    """The name of the code's writer in records."""
    recipe: JudgeRecipe
    """The settings of the judge. The device must be "cpu" or "cuda"."""
    out: Path
    """The folder of the run."""
    workers: int
    """The number of processes that pose calls or run scripts at the same time."""
    judges: int | None
    """The number of judges; None: as many as the cores and the GPUs allow."""
    timeout_s: float
    """The most seconds that a script may take."""
    facts: Record
    """More settings for the head of the records."""

    @property
    def stages(self) -> StagePlan:
        """The settings of the two stages before the judge."""
        return StagePlan(
            out=self.out,
            channel=self.channel,
            device=self.recipe.device,
            workers=self.workers,
            timeout_s=self.timeout_s,
        )

    def head(self) -> Record:
        """The settings that all cases depend on. A run can be resumed only with the same head."""
        judging = {
            key: getattr(self.recipe, key)
            for key in ("device", "precision", "mode", "grade", "checks", "timing")
        }
        options = {"channel": self.channel, "timeout_s": self.timeout_s, **judging, **self.facts}
        return {"record": "run", "command": COMMAND, "policy": self.label, "options": options}


def score(plan: TritonBenchPlan, predictions: Mapping[str, str], say: Say) -> Record:
    """Score predicted code: run it as the benchmark does, and judge it call by call.

    Args:
        predictions: file's name -> code.

    Returns:
        The judge's summary, with "left": the number of tasks that have no case because of a fault
        of ours.

    Raises:
        UsageError: the folder has a run with other settings, or this machine cannot confine foreign
            code.
        InfraError: no judge can be started.
    """
    require_guards(plan.recipe.device)
    with _interpreted(plan):
        calls = posed_tasks(plan.stages, plan.files, say)
        scripts = _scripts(plan, predictions, say)
        jobs = list(_jobs(plan, predictions, calls))

        def case_of(file: BenchFile, outcomes: Outcomes) -> Record | None:
            posed = PosedCalls(calls[file.name])
            return case_of_prediction(file, posed, scripts[file.name], outcomes, plan.recipe)

        return _judged(plan, jobs, case_of, say)


def _scripts(
    plan: TritonBenchPlan, predictions: Mapping[str, str], say: Say
) -> dict[str, TaskScripts]:
    device = plan.recipe.device
    golden = {f.name: BenchScript.of(f, f.golden, device) for f in plan.files if f.fault is None}
    predicted = {
        f.name: BenchScript.of(f, predictions[f.name], device)
        for f in plan.files
        if f.name in predictions and f.fault is None
    }
    lines = run_scripts(plan.stages, [*golden.values(), *predicted.values()], say)

    def line(scripts: Mapping[str, BenchScript], name: str) -> Record | None:
        return lines.get(scripts[name].digest) if name in scripts else None

    return {
        f.name: TaskScripts(f.name in predictions, line(golden, f.name), line(predicted, f.name))
        for f in plan.files
    }


def _jobs(
    plan: TritonBenchPlan, predictions: Mapping[str, str], calls: Mapping[str, Record]
) -> Iterator[Job]:
    """A job for each posed call of a task with a prediction, with the id TASK/NUMBER."""
    for file in plan.files:
        if file.name not in predictions:
            continue
        code = on_device(predictions[file.name], plan.recipe.device)
        for number, call in PosedCalls(calls[file.name]).posed:
            yield Job(
                id=f"{file.stem}/{number}",
                reference=on_device(call["reference"], plan.recipe.device),
                candidate=code + call["adapter"],
            )


def examine_policy(plan: TritonBenchPlan, asking: Asking, say: Say) -> Record:
    """Ask a policy for kernels, and judge its answers. Each call of a task that can be lowered is a
    program for the policy.

    Args:
        asking: the policy and the settings of the questions.

    Returns:
        As `score`.

    Raises:
        UsageError: as `score`.
        InfraError: no judge can be started, or the policy failed. Its earlier answers are kept.
    """
    calls = posed_tasks(plan.stages, plan.files, say)
    problems = {file.name: _problems(file, PosedCalls(calls[file.name])) for file in plan.files}
    all_problems = [problem for of_task in problems.values() for problem in of_task]
    _, answers = ask(asking, all_problems, plan.out / ANSWERS, say)

    def case_of(file: BenchFile, outcomes: Outcomes) -> Record | None:
        posed = PosedCalls(calls[file.name])
        own_answers = [(p.name, answers.get(p.name, [])) for p in problems[file.name]]
        return case_of_answers(file, posed, own_answers, outcomes, plan.recipe)

    return _judged(plan, list(jobs_of(all_problems, answers)), case_of, say)


def _problems(file: BenchFile, calls: PosedCalls) -> list[Problem]:
    return [
        Problem(suite="tritonbench-t", level=file.stem, id=number, text=text, program=parse(text))
        for number, text in enumerate(calls.programs, 1)
    ]


def _judged(
    plan: TritonBenchPlan,
    jobs: Sequence[Job],
    case_of: Callable[[BenchFile, Outcomes], Record | None],
    say: Say,
) -> Record:
    """Judge the jobs, and write the cases. If the judging is interrupted, the known cases are
    written.

    Args:
        case_of: makes the case of a task; None if a fault of ours left the task undone.
    """
    folder = plan.out / JUDGED
    pools = local_pools(plan.recipe, plan.judges)
    try:
        summary = judge_many(jobs, plan.recipe, folder, pools.judges, pools.clock, say)
    finally:
        verdicts = verdicts_in(folder, plan.recipe)
        outcomes = Outcomes(verdicts, _unusable(folder, plan), judged_at(folder))
        left = _write(plan, [case_of(file, outcomes) for file in plan.files])
    return summary | {"left": left}


def _unusable(folder: Path, plan: TritonBenchPlan) -> dict[str, str]:
    """Job id -> why the judge cannot use its reference."""
    lines = RunFolder(folder, plan.recipe).by_id.items()
    return {name: str(line["usage"]) for name, line in lines if line["record"] == "usage"}


def _write(plan: TritonBenchPlan, cases: Sequence[Record | None]) -> int:
    """Write the head and the cases; return the number of tasks without a case."""
    whole = [case | {"policy": plan.label} for case in cases if case is not None]
    left = len(cases) - len(whole)
    head = plan.head() | {"environment": record.environment(), "cases": len(cases), "left": left}
    record.rewrite(plan.out / RECORDS, [head, *whole])
    return left


@contextmanager
def _interpreted(plan: TritonBenchPlan) -> Iterator[None]:
    """A context for tasks of Triton kernels on a machine without a GPU: all processes that start in
    the context use Triton's interpreter. Guests set the variable themselves."""
    before = os.environ.get(INTERPRET)
    if plan.channel == "G" and plan.recipe.device == "cpu":
        os.environ[INTERPRET] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(INTERPRET, None)
        else:
            os.environ[INTERPRET] = before
