"""`kernelwright train rl`: reinforcement learning with verdicts as rewards."""

from pathlib import Path
from typing import Annotated

import typer

from kernelwright.cli.console import progress
from kernelwright.cli.train_options import (
    ChangesOption,
    FolderOption,
    ResumeOption,
    WorkersOption,
    one_a_core,
    show_end,
)


def command(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="A TOML file: docs/rl.md.")],
    folder: FolderOption,
    changes: ChangesOption = None,
    resume: ResumeOption = False,
    workers: WorkersOption = None,
) -> None:
    """Train a model on what the judge says of its answers.

    Ctrl-C or SIGTERM ends it after the step it is in, with a checkpoint; --resume goes on from
    there. On several GPUs: `accelerate launch -m kernelwright.cli.main train rl ...`.
    """
    from kernelwright.train.installed import check_installed

    check_installed()
    from kernelwright.train.rl.recipe import Recipe
    from kernelwright.train.rl.run import train_rl

    loaded = Recipe.load(recipe, changes or ())
    with progress("train") as say:
        ended = train_rl(loaded, folder, resume=resume, workers=one_a_core(workers), say=say)
    score = ended.standing.best_score
    show_end(ended, folder, "" if score is None else f"best validation {score:.3f}")
