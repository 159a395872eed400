"""Makes a pool from its recipe: writes, chooses, judges and describes answers. The same command
continues a pool that was interrupted.

A folder holds `pool.json` (recipe, environment), `shards/` (programs with their answers),
`judged/` (records of the judge), `summary.json` and `README.md`, the data card. With
`choice.steps`, `steps/` holds the verdicts on single steps of wrong answers.
"""

import gc
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from kernelwright.core import record
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.data.pool.answers import (
    CARD,
    HEAD,
    JUDGED,
    SHARDS,
    STEPS,
    SUMMARY,
    PoolProgram,
    read_pool,
    read_verdicts,
)
from kernelwright.data.pool.card import card, summary_of, summary_of_steps
from kernelwright.data.pool.choosing import choose
from kernelwright.data.pool.programs import PoolTask, tasks_of
from kernelwright.data.pool.reading import Readers
from kernelwright.data.pool.recipe import PoolRecipe
from kernelwright.data.pool.steps import step_jobs
from kernelwright.data.pool.writing import PoolWriter
from kernelwright.policy.answer import read_answer
from kernelwright.verify.many.jobs import Job
from kernelwright.verify.many.pools import local_pools
from kernelwright.verify.many.run import judge_many


def make_pool(recipe: PoolRecipe, out: Path, say: Say = lambda _: None) -> Record:
    """Write and judge what the folder lacks of the recipe's pool.

    Returns:
        The summary, also written as summary.json (`card.summary_of`).

    Raises:
        UsageError: the folder holds another pool, or a file or the model cannot be used.
        InfraError: no judge can be started. What is written stays good.
    """
    judging = recipe.judging.recipe()
    _begin(recipe, out)
    say("reading programs")
    tasks = sorted(
        tasks_of(recipe.programs), key=lambda task: derive(recipe.seed, "order", task.fingerprint)
    )
    _write(recipe, tasks, out, say)
    gc.collect()
    torch.cuda.empty_cache()  # what the model held is the judges' now
    pools = local_pools(judging, recipe.judging.workers)
    jobs = list(_jobs(read_pool(out)))
    judged = judge_many(jobs, judging, out / JUDGED, pools.judges, pools.clock, say)
    summary = summary_of(read_pool(out)) | {"judging": judged}
    if recipe.choice.steps:
        summary |= {"steps": _judge_steps(recipe, out, say)}
    (out / SUMMARY).write_text(json.dumps(summary, indent=1) + "\n")
    (out / CARD).write_text(card(recipe, summary))
    return summary


def _judge_steps(recipe: PoolRecipe, out: Path, say: Say) -> Record:
    """Judge the steps of wrong answers, without times, and count what is right."""
    say("judging the steps of wrong answers")
    judging = replace(recipe.judging, timing=False).recipe()
    pools = local_pools(judging, recipe.judging.workers)
    jobs = list(step_jobs(read_pool(out)))
    judge_many(jobs, judging, out / STEPS, pools.judges, pools.clock, say)
    return summary_of_steps(read_pool(out), read_verdicts(out / STEPS))


def _begin(recipe: PoolRecipe, out: Path) -> None:
    """Begin the folder, or check that it was begun with the same recipe.

    Raises:
        UsageError: the recipe differs in more than the number of workers, which changes no answer.
    """
    known = recipe.to_json()
    del known["judging"]["workers"]
    head = {"record": "pool", "recipe": known}
    path = out / HEAD
    if path.exists():
        (begun,) = record.read(path)
        record.check_same(begun, head, str(path))
    else:
        (out / SHARDS).mkdir(parents=True, exist_ok=True)
        record.append(path, [head | {"environment": record.environment()}])


def _write(recipe: PoolRecipe, tasks: Sequence[PoolTask], out: Path, say: Say) -> None:
    """Write the answers to programs that no shard has yet, in new shards."""
    done = {program.name for program in read_pool(out)}
    left = [task for task in tasks if task.name not in done]
    if not left:
        return
    with Readers(len(os.sched_getaffinity(0))) as readers:
        writer = PoolWriter(recipe, readers)
        first = len(list((out / SHARDS).glob("*.jsonl")))
        at_once = writer.programs_at_once
        for number, begin in enumerate(range(0, len(left), at_once), first):
            say(f"{len(done) + begin} of {len(tasks)} programs answered")
            few = left[begin : begin + at_once]
            programs = writer.write(few)
            for program, task in zip(programs, few, strict=True):
                choose(program, task.program, recipe.choice, recipe.seed)
            shard = out / SHARDS / f"{number:05}.jsonl"
            record.rewrite(shard, [program.to_json() for program in programs])


def _jobs(programs: Iterator[PoolProgram]) -> Iterator[Job]:
    for program in programs:
        for answer in program.answers:
            if answer.chosen is None:
                continue
            candidate = read_answer(answer.text, origin=answer.writer).candidate
            assert candidate is not None, "answers that are chosen have a candidate"
            yield Job(id=program.job_id(answer), reference=program.text, candidate=candidate.source)
