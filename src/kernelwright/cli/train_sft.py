"""`kernelwright train sft`: supervised training on pairs."""

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
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="A TOML file: docs/sft.md.")],
    folder: FolderOption,
    changes: ChangesOption = None,
    resume: ResumeOption = False,
    workers: WorkersOption = None,
) -> None:
    """Train a model on pairs of programs and answers.

    Ctrl-C or SIGTERM ends it after the step it is in, with a checkpoint; --resume goes on from
    there. On several GPUs: `accelerate launch -m kernelwright.cli.main train sft ...`.
    """
    from kernelwright.train.installed import check_installed

    check_installed()
    from kernelwright.train.recipe import Recipe
    from kernelwright.train.run import train_sft

    loaded = Recipe.load(recipe, changes or ())
    with progress("train") as say:
        ended = train_sft(loaded, folder, resume=resume, workers=one_a_core(workers), say=say)
    loss = ended.standing.best_loss
    show_end(ended, folder, "" if loss is None else f"best validation loss {loss:.4f}")
