"""A run of supervised training, from its recipe to its weights."""

import math
from collections.abc import Callable
from pathlib import Path

from transformers.utils import logging

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.train.disk import disk_may_be_full
from kernelwright.train.folder import EndedPart, Start, find_start, open_folder
from kernelwright.train.pace import ENDLESS_STEPS
from kernelwright.train.prepare import PreparedData, prepare
from kernelwright.train.process import beside_others, this_process
from kernelwright.train.recipe import SupervisedRecipe
from kernelwright.train.records import RECORDS, cut_after, part_of
from kernelwright.train.trainer import PairTrainer


@beside_others()
def train_sft(
    recipe: SupervisedRecipe,
    folder: Path,
    *,
    resume: bool,
    workers: int,
    say: Callable[[str], None],
) -> EndedPart:
    """Train until the budget is used or a signal comes.

    Args:
        folder: the folder of the run (train/folder.py lists its files).
        resume: whether to continue the run in `folder`.
        workers: the number of processes that tokenise.
        say: gets lines of progress.

    Raises:
        UsageError: recipe, data, model or folder cannot be used, the disk is full, or the loss is
            not a number.
    """
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    process = this_process()
    speak = say if process.is_main_process else lambda _: None
    with process.main_process_first():
        if process.is_main_process:
            open_folder(recipe, folder, resume=resume)
    speak("tokenising")
    prepared = prepare(recipe, folder, workers)
    with process.main_process_first():
        start = find_start(folder)
    rows, passes = recipe.rows(process.num_processes)
    # A compiled run drops a last batch that is smaller (`dataloader_drop_last`), so fewer rows than
    # one batch would give no step at all.
    if recipe.model.compile and len(prepared.train) < rows * process.num_processes:
        raise UsageError(
            f"{len(prepared.train)} rows are fewer than a compiled pass takes at once",
            remedy="set model.compile = false, or lower batch.micro_tokens",
        )
    steps = _steps(recipe, prepared, rows * passes * process.num_processes)
    if process.is_main_process:
        with disk_may_be_full(folder):
            _record_part(recipe, folder, prepared, start, steps)
    trainer = PairTrainer(recipe, folder, prepared, start, steps, speak)
    trainer.use_budget(start)
    if process.is_main_process:
        figures = {"best_loss": trainer.standing.best_loss}
        record.append(folder / RECORDS, [trainer.summary(figures)])
    return EndedPart(trainer.standing, trainer.pace.stopped_by, process.is_main_process)


def _steps(recipe: SupervisedRecipe, prepared: PreparedData, rows_per_step: int) -> int:
    """The optimiser steps of the whole budget; `ENDLESS_STEPS` for a budget in minutes."""
    steps_per_epoch = math.ceil(len(prepared.train) / rows_per_step)
    budget = recipe.budget
    if budget.steps:
        return budget.steps
    if budget.minutes:
        return ENDLESS_STEPS
    epochs = budget.epochs or (budget.tokens or 0) / prepared.facts["epoch_tokens"]
    return math.ceil(epochs * steps_per_epoch)


def _record_part(
    recipe: SupervisedRecipe, folder: Path, prepared: PreparedData, start: Start, steps: int
) -> None:
    """Write the head of this part of the run. Records of steps after its checkpoint are removed.

    Raises:
        UsageError: the pairs or the tokenizer differ from those at the beginning of the run.
    """
    records = folder / RECORDS
    lost = cut_after(records, start.standing.step)
    if records.exists():
        _check_same_pairs(next(record.read(records), None), prepared, records)
    num_steps = None if steps == ENDLESS_STEPS else steps
    data = prepared.facts
    part = part_of(recipe, start, command="train sft", lost=lost, steps=num_steps, data=data)
    record.append(records, [part])


def _check_same_pairs(first: Record | None, prepared: PreparedData, records: Path) -> None:
    if first is not None and first["data"]["digest"] != prepared.facts["digest"]:
        raise UsageError(
            "the pairs, or the tokenizer, are not those that the run was begun with",
            file=str(records),
            remedy="give a new run another --out and the last weights as model.path",
        )
