"""Examines a policy on programs, without search: asks it, judges all answers, records the cases.

A run's folder has `answers.jsonl` and the judge's records under `judged/`. An interrupted run
continues both. `records.jsonl`, with a case for each answer, is written anew from them.
"""

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from kernelwright.bench.answers import UNANSWERED, Asking, ask
from kernelwright.bench.problems import Problem
from kernelwright.bench.suite import RECORDS, failure, found_of
from kernelwright.core import record
from kernelwright.core.candidate import Candidate
from kernelwright.core.commits import with_commits
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.core.verdict import Verdict
from kernelwright.programs.traffic import modelled_speedup
from kernelwright.sandbox.workers.executor import Executor
from kernelwright.verify.many.audit import audit_many
from kernelwright.verify.many.jobs import Job
from kernelwright.verify.many.pools import local_pools
from kernelwright.verify.many.recipe import JudgeRecipe
from kernelwright.verify.many.run import judge_many
from kernelwright.verify.many.run_folder import SETTLED, RunFolder

ANSWERS, JUDGED = "answers.jsonl", "judged"

Answers = Mapping[str, Sequence[Record]]
"""Problem's name -> what was answered, at most as often as was asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyPlan:
    """The settings of a run."""

    asking: Asking
    recipe: JudgeRecipe
    """Resolved."""
    out: Path
    workers: int | None = None
    """Judges at once; None: one a core."""


def examine(plan: PolicyPlan, problems: Sequence[Problem], say: Say) -> Record:
    """Ask, judge, and write the cases. A run in the folder is continued.

    Returns:
        The judge's summary. `infra` counts answers that our side failed to judge: run the same
        command again. `usage` counts answers to programs that the judge cannot use. Neither kind
        has a case.

    Raises:
        UsageError: the folder holds a run with other settings, or the policy cannot be used.
        InfraError: the policy failed, or no judge can be started. Answers and verdicts are kept.
    """
    head, answers = ask(plan.asking, problems, plan.out / ANSWERS, say)
    _leave_the_gpu()
    jobs = list(jobs_of(problems, answers))
    try:
        return _judge(plan, jobs, say)
    finally:  # of a run that is cut short, what is there
        settled = RunFolder(plan.out / JUDGED, plan.recipe).by_id
        verdicts = _verdicts_of(settled)
        judging = {key: getattr(plan.recipe, key) for key in ("device", "grade", "timing")}
        options = head["options"] | judging
        left = sum(job.id not in verdicts for job in jobs)
        counts: Record = {"cases": plan.asking.samples * len(problems), "left": left}
        if unusable := {id: line["usage"] for id, line in settled.items() if "usage" in line}:
            counts["unusable"] = unusable
        cases = cases_of(plan.asking, problems, answers, verdicts)
        lines = _with_commits(cases, _answered_at(plan.out / ANSWERS), judged_at(plan.out / JUDGED))
        record.rewrite(plan.out / RECORDS, [head | {"options": options} | counts, *lines])


def _judge(plan: PolicyPlan, jobs: Sequence[Job], say: Say) -> Record:
    judged = plan.out / JUDGED
    pools = local_pools(plan.recipe, plan.workers)
    summary = judge_many(jobs, plan.recipe, judged, pools.judges, pools.clock, say)
    if plan.recipe.grade == "recycled":
        say("judging some of what was accepted again, fresh")
        summary |= audit_many(jobs, plan.recipe, judged, partial(_judges, plan.workers), say)
    return summary


def _leave_the_gpu() -> None:
    """Give the GPU memory of this process's model to the judges."""
    gc.collect()
    torch.cuda.empty_cache()


def _judges(workers: int | None, recipe: JudgeRecipe) -> Executor:
    return local_pools(recipe, workers).judges


def jobs_of(problems: Sequence[Problem], answers: Answers) -> Iterator[Job]:
    """A job for each candidate, with the id PROBLEM/SAMPLE. The order of problems is mixed, so that
    an interrupted run has judged a fair sample."""
    for problem in sorted(problems, key=lambda problem: derive(0, "order", problem.name)):
        for sample, answer in enumerate(answers[problem.name]):
            if "source" in answer:
                yield Job(
                    id=f"{problem.name}/{sample}",
                    reference=problem.text,
                    candidate=answer["source"],
                )


def verdicts_in(folder: Path, recipe: JudgeRecipe) -> dict[str, tuple[str, Verdict]]:
    """Job id -> (digest of the judged texts, verdict)."""
    return _verdicts_of(RunFolder(folder, recipe).by_id)


def _verdicts_of(settled: Mapping[str, Record]) -> dict[str, tuple[str, Verdict]]:
    return {
        name: (line["content"], Verdict.from_json(dict(line["verdict"])))
        for name, line in settled.items()
        if line["record"] == "verdict"
    }


def judged_at(folder: Path) -> dict[str, str]:
    """Job id -> the commit at which the candidate was judged. Copies of verdicts have the commit of
    the verdict."""
    commits: dict[str, str] = {}
    for line, commit in with_commits(record.read(folder / RECORDS)):
        if line["record"] in SETTLED:
            commits[line["id"]] = commits.get(line.get("same_as", ""), commit)
    return commits


def _answered_at(path: Path) -> dict[str, str]:
    """Problem's name -> the commit at which the policy was asked."""
    lines = with_commits(record.read(path))
    return {line["problem"]: commit for line, commit in lines if line["record"] == "answers"}


def _with_commits(
    cases: Iterable[Record], answered: Mapping[str, str], judged: Mapping[str, str]
) -> Iterator[Record]:
    """The cases with the commits of their verdicts. A case without a verdict has the commit of its
    answer."""
    for case in cases:
        commit = judged.get(f"{case['name']}/{case['sample']}") or answered.get(case["name"])
        yield case | ({"commit": commit} if commit else {})


def cases_of(
    asking: Asking,
    problems: Sequence[Problem],
    answers: Answers,
    verdicts: Mapping[str, tuple[str, Verdict]],
) -> Iterator[Record]:
    """A record for every sample that was asked for, except those that could not be judged."""
    for problem in problems:
        # Samples that the policy did not give are cases too: all problems have as many.
        answered = list(answers[problem.name])
        answered += [{"malformed": UNANSWERED, "message": ""}] * (asking.samples - len(answered))
        for sample, answer in enumerate(answered):
            line = _line(asking, problem, sample)
            if "malformed" in answer:
                facts = failure(answer["malformed"], answer["message"])
                yield line | facts | {"malformed": answer["malformed"]}
            elif (name := f"{problem.name}/{sample}") in verdicts:
                content, verdict = verdicts[name]
                about = {
                    "malformed": None,
                    "schedule": answer["schedule"],
                    "content": content,
                    "modelled": _modelled(problem, answer, verdict),
                }
                yield line | found_of(verdict) | about


def _modelled(problem: Problem, answer: Record, verdict: Verdict) -> float | None:
    """The estimated speed-up of a correct answer (`programs.traffic`); None in runs that began
    before records of answers had plans."""
    if not verdict.accepted or "plan" not in answer:
        return None
    values = {"source": answer["source"], "plan": answer["plan"], "origin": "answer"}
    return modelled_speedup(problem.program, Candidate.from_json(values), verdict.launches)


def _line(asking: Asking, problem: Problem, sample: int) -> Record:
    return {
        "record": "benchmark_case",
        "suite": problem.suite,
        "level": problem.level,
        "policy": asking.name,
        "mode": asking.mode,
        "precision": asking.precision,
        "id": problem.id,
        "sample": sample,
        "name": problem.name,
        "operators": problem.operators,
        "num_calls": len(problem.program.calls),
    }
