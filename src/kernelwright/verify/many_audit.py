"""The audit of a run of many judgements under the grade `recycled`: a second, `fresh` run over
each reference's fastest and a random share of what was accepted. Where they differ, `fresh` holds.

A recycled guest may have been spoiled by an earlier candidate without its attestation showing it: a
difference means that, or a bug of ours.
"""

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.sandbox.executor import Executor
from kernelwright.verify.jobs import Job
from kernelwright.verify.many import Say, judge_many
from kernelwright.verify.recipe import Recipe
from kernelwright.verify.run_folder import RunFolder

FOLDER = "audit"
"""Of the second run, inside the first one's."""
SHARE = 0.02
"""Of the accepted candidates."""


def audit_many(
    jobs: Sequence[Job],
    recipe: Recipe,
    out: Path,
    judges_of: Callable[[Recipe], Executor],
    say: Say | None = None,
) -> Record:
    """Judge again, `fresh`, some of what the run in `out` has accepted.

    Candidates that the two grades judge differently get a second record in `out`, with the fresh
    verdict: whoever reads the records takes a job's last one.

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
    judge_many(picked, fresh, out / FOLDER, judges_of(fresh), None, say)
    again = RunFolder(out / FOLDER, fresh).by_id
    judged = [job for job in picked if again.get(job.id, {}).get("record") == "verdict"]
    found = {job.content: again[job.id]["verdict"] for job in judged}
    rejected = {content: verdict for content, verdict in found.items() if not verdict["accepted"]}
    differ = [job for job, _ in settled if job.content in rejected]  # who was copied from it too
    for job in differ:
        folder.write(job, "verdict", {"verdict": rejected[job.content], "audited": True})
    return {"audited": len(judged), "differ": [job.id for job in differ]}


def chosen(
    verdicts: Sequence[Verdict], references: Sequence[str], share: float = SHARE
) -> list[int]:
    """Numbers of those to judge again: each reference's fastest, where there are times, and a share
    of all accepted, at least one, that nobody can foresee."""
    accepted = [number for number, verdict in enumerate(verdicts) if verdict.accepted]
    fastest: dict[str, int] = {}
    for number in accepted:
        speedup, reference = verdicts[number].speedup, references[number]
        if speedup is None:
            continue
        best = verdicts[fastest[reference]].speedup if reference in fastest else None
        if best is None or speedup > best:
            fastest[reference] = number
    count = math.ceil(share * len(accepted))
    return sorted({*fastest.values(), *secrets.SystemRandom().sample(accepted, count)})
