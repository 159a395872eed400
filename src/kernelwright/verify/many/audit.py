"""The audit of a run of many judgements under the grade `recycled`: a second, `fresh` run over
the fastest of several accepted candidates of a reference, and random shares of the accepted and of
the rejected candidates. Where they differ, `fresh` holds.

A recycled guest may have been spoiled by an earlier candidate without its attestation showing it: a
difference means that, or a bug of ours.
"""

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.core.verdict import Stage, Verdict
from kernelwright.sandbox.workers.executor import Executor
from kernelwright.verify.many.jobs import Job
from kernelwright.verify.many.recipe import JudgeRecipe
from kernelwright.verify.many.run import judge_many
from kernelwright.verify.many.run_folder import RunFolder

FOLDER = "audit"
"""The folder of the second run, inside the folder of the first."""
SHARE = 0.02
"""The share of the accepted candidates, and of the rejected candidates, that is judged again."""
GUEST_STAGES = (Stage.RUN, Stage.COMPARE, Stage.PROBE)
"""Where a guest that runs candidates has a part in a rejection."""


def audit_many(
    jobs: Sequence[Job],
    recipe: JudgeRecipe,
    out: Path,
    judges_of: Callable[[JudgeRecipe], Executor],
    say: Say | None = None,
) -> Record:
    """Judges again, `fresh`, some of the candidates that the run in `out` has accepted and
    rejected.

    Where the two grades differ, all candidates of the same guest are judged again too. Candidates
    that the grades judge differently get a second record in `out`, with the fresh verdict: readers
    of the records take a job's last record.

    Args:
        judges_of: the executor for a recipe, as `judge_many` wants it.

    Returns:
        How many were judged again, and the ids that differ.

    Raises:
        UsageError, InfraError: as `judge_many`.
    """
    folder = RunFolder(out, recipe)
    settled = [
        (job, Verdict.from_json(dict(folder.by_id[job.id]["verdict"])))
        for job in jobs
        if folder.by_id.get(job.id, {}).get("record") == "verdict"
    ]
    recycled = [(job, verdict) for job, verdict in settled if verdict.grade == "recycled"]
    numbers = chosen([verdict for _, verdict in recycled], [job.reference for job, _ in recycled])
    picked = [recycled[number][0] for number in numbers]
    if not picked:
        return {"audited": 0, "differ": []}
    fresh = replace(recipe, grade="fresh", timing=False)
    judge = partial(_fresh_verdicts, recipe=fresh, out=out / FOLDER, judges_of=judges_of, say=say)
    verdicts = judge(picked)
    num_audited = len(verdicts)
    spoiled = {
        folder.by_id[job.id].get("guest")
        for job, verdict in recycled
        if _differs(verdict, verdicts.get(job.content))
    } - {None}
    others = [
        job
        for job, _ in recycled
        if folder.by_id[job.id].get("guest") in spoiled and job.content not in verdicts
    ]
    if others:
        verdicts |= judge(others)
    differ = [  # jobs whose verdicts were copied are among them
        job for job, verdict in settled if _differs(verdict, verdicts.get(job.content))
    ]
    for job in differ:
        folder.write(job, "verdict", {"verdict": verdicts[job.content], "audited": True})
    return {"audited": num_audited, "differ": [job.id for job in differ]}


def _fresh_verdicts(
    jobs: Sequence[Job],
    recipe: JudgeRecipe,
    out: Path,
    judges_of: Callable[[JudgeRecipe], Executor],
    say: Say | None,
) -> dict[str, Record]:
    """The verdicts under this recipe, by content."""
    judge_many(jobs, recipe, out, judges_of(recipe), None, say)
    by_id = RunFolder(out, recipe).by_id
    lines = [by_id[job.id] for job in jobs if job.id in by_id]
    return {line["content"]: line["verdict"] for line in lines if line["record"] == "verdict"}


def _differs(verdict: Verdict, fresh: Record | None) -> bool:
    return fresh is not None and fresh["accepted"] is not verdict.accepted


def chosen(
    verdicts: Sequence[Verdict], references: Sequence[str], share: float = SHARE
) -> list[int]:
    """Returns numbers of candidates to judge again: unpredictable shares of the accepted, and of
    those that a guest rejected. Where several accepted candidates of a reference have times, the
    fastest is also chosen. A candidate without such competitors gains nothing by its time, and
    fresh judgements of all would take longer than the run itself."""
    accepted = [number for number, verdict in enumerate(verdicts) if verdict.accepted]
    timed: dict[str, list[tuple[float, int]]] = {}
    for number in accepted:
        speedup = verdicts[number].speedup
        if speedup is not None:
            timed.setdefault(references[number], []).append((speedup, number))
    fastest = [max(contenders)[1] for contenders in timed.values() if len(contenders) > 1]
    rejected = [number for number, v in enumerate(verdicts) if v.stage in GUEST_STAGES]
    drawn = [
        number
        for numbers in (accepted, rejected)
        for number in secrets.SystemRandom().sample(numbers, math.ceil(share * len(numbers)))
    ]
    return sorted({*fastest, *drawn})
