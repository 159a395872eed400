"""A run of reinforcement learning, from its recipe to its weights."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from kernelwright.core import record
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.policy.embedded import folder_of, load_model
from kernelwright.policy.prompt import Request
from kernelwright.programs.program import Program
from kernelwright.train.disk import disk_may_be_full
from kernelwright.train.folder import EndedPart, Start, find_start, open_folder
from kernelwright.train.process import beside_others, this_process
from kernelwright.train.records import RECORDS, cut_after, part_of
from kernelwright.train.rl.pooled import PooledAnswers
from kernelwright.train.rl.practice import Practice
from kernelwright.train.rl.programs import TrainingPrograms, programs_of
from kernelwright.train.rl.recipe import RlRecipe
from kernelwright.train.rl.rollout import Asker, Judges
from kernelwright.train.rl.rounds import AUDITS, EXAMPLES, Rounds
from kernelwright.train.rl.trainer import RolloutTrainer
from kernelwright.train.rl.watch import RewardWatch
from kernelwright.train.rl.writers import writer_of
from kernelwright.verify.many.pools import cluster_pools, local_pools
from kernelwright.verify.many.recipe import JudgeRecipe
from kernelwright.verify.many.standing import StandingJudges

AUDITORS = 2
"""Judges of an audit that work at once."""
MakeJudges = Callable[[JudgeRecipe, int | None, str, int], Any]
"""Recipe, workers, cluster, GPUs that train and write -> a context manager of `Judges`."""


def standing_judges(
    recipe: JudgeRecipe, workers: int | None, cluster: str, num_training: int
) -> StandingJudges:
    """The judges of a run, not yet started: on this machine, or on a Ray cluster.

    Args:
        workers: the number of judges; None: one for each core.
        cluster: address of the cluster; "": this machine.
        num_training: the number of GPUs of this machine that train and write.

    Raises:
        UsageError: the cluster cannot be used.
    """
    if cluster:
        return StandingJudges(cluster_pools(recipe, workers, cluster))
    return StandingJudges(local_pools(recipe, workers, num_training=num_training))


@beside_others()
def train_rl(
    recipe: RlRecipe,
    folder: Path,
    *,
    resume: bool,
    workers: int,
    say: Say,
    make_judges: MakeJudges = standing_judges,
) -> EndedPart:
    """Train until the budget is used or a signal comes.

    Args:
        folder: the folder of the run (train/folder.py lists its files).
        resume: whether to continue the run in `folder`.
        workers: the number of processes that draw programs.
        say: gets lines of progress.
        make_judges: makes the judges of the run; tests have other judges.

    Raises:
        UsageError: recipe, programs, model or folder cannot be used, the disk is full, or the loss
            is not a number.
        InfraError: no judge can be started, or a server that answers fails.
    """
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    process = this_process()
    is_main = process.is_main_process
    # The main process goes first: it makes the folder, and removes half-written checkpoints before
    # others look for the newest.
    with process.main_process_first():
        if is_main:
            open_folder(recipe, folder, resume=resume)
        start = find_start(folder)
    with ExitStack() as stack:
        dtype = getattr(torch, recipe.model.dtype)
        model, tokenizer = load_model(folder_of(recipe.model.path), "cpu", dtype)
        # Before the trainer is made: the writer copies the model, and TRL replaces its `forward`.
        rounds = None
        if is_main:
            rounds = stack.enter_context(
                _rounds(recipe, folder, model, tokenizer, workers, say, make_judges)
            )
            with disk_may_be_full(folder):
                _record_part(recipe, folder, rounds, start)
        trainer = RolloutTrainer(recipe, folder, model, tokenizer, start, rounds)
        trainer.use_budget(start)
        if is_main:
            with disk_may_be_full(folder):
                seconds, num_processes = trainer.standing.seconds, process.num_processes
                gpu_hours = seconds * num_processes / 3600 if torch.cuda.is_available() else None
                figures = {"gpu_hours": gpu_hours, "best_score": trainer.standing.best_score}
                record.append(folder / RECORDS, [trainer.summary(figures)])
    return EndedPart(trainer.standing, trainer.pace.stopped_by, is_main)


@contextmanager
def _rounds(
    recipe: RlRecipe,
    folder: Path,
    model: Any,
    tokenizer: Any,
    workers: int,
    say: Say,
    make_judges: MakeJudges,
) -> Iterator[Rounds]:
    """The rounds of a run. Judges and auditors stop when the context ends.

    Raises:
        UsageError: the pool, a file of programs or the model cannot be used.
    """
    pool = recipe.rollouts.pool
    pooled = PooledAnswers(Path(pool), tokenizer, recipe) if pool else None
    stored = () if pooled is None else pooled.programs.values()
    programs = programs_of(recipe, folder, workers, say, stored)
    judging = recipe.judging
    how = judging.recipe()
    fresh = replace(how, grade="fresh", timing=False)
    # A server that writes has GPUs of its own, and which ones it does not say.
    is_local = not recipe.rollouts.served
    where = judging.cluster, int(os.environ.get("LOCAL_WORLD_SIZE", 1)) if is_local else 0
    with ExitStack() as stack:
        judges: Judges = stack.enter_context(make_judges(how, judging.workers, *where))
        auditors: Judges = stack.enter_context(make_judges(fresh, AUDITORS, *where))
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        writer = writer_of(recipe, model, tokenizer, device)

        def request(program: Program) -> Request:
            return Request(program=program, precision=how.precision, mode=how.mode)

        asker = Asker(tokenizer, writer, judges, request, device)
        yield Rounds(
            folder=folder,
            tokenizer=tokenizer,
            writer=writer,
            practice=Practice(recipe, programs, asker, judges, pooled),
            watch=RewardWatch(recipe.audits, auditors),
            say=say,
        )


def _record_part(recipe: RlRecipe, folder: Path, rounds: Rounds, start: Start) -> None:
    # Steps after the checkpoint are trained again: without the cut they would be recorded twice.
    files = [folder / name for name in (RECORDS, AUDITS, EXAMPLES)]
    lost = max(cut_after(file, start.standing.step) for file in files)
    data = _facts(rounds.practice.programs)
    steps = recipe.budget.steps
    part = part_of(recipe, start, command="train rl", lost=lost, steps=steps, data=data)
    record.append(folder / RECORDS, [part])


def _facts(programs: TrainingPrograms) -> Record:
    return {
        "programs": {f"L{level}": size for level, size in programs.sizes.items()},
        "held_out": {f"L{level}": len(some) for level, some in sorted(programs.held_out.items())},
    }
