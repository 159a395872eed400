"""`kernelwright train sft`: supervised training on pairs."""

from pathlib import Path
from typing import Annotated

import typer

from kernelwright.cli.checks import check_file
from kernelwright.cli.console import progress
from kernelwright.cli.options import JsonOption, cores
from kernelwright.cli.train.options import (
    RECIPE_REMEDY,
    ChangesOption,
    FolderOption,
    ResumeOption,
    WorkersOption,
    show_end,
)
from kernelwright.core.folders import check_folder


def command(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE", help="A recipe in TOML, as docs/sft.md says.")
    ],
    folder: FolderOption,
    changes: ChangesOption = None,
    resume: ResumeOption = False,
    workers: WorkersOption = None,
    json: JsonOption = False,
) -> None:
    """Train a model on pairs of programs and answers.

    Ctrl-C or SIGTERM ends the run after the step that it is in, and writes a checkpoint. The option
    --resume goes on from there. On several GPUs, start the run with
    `accelerate launch -m kernelwright.cli.main train sft ...`.
    """
    with progress("train sft") as say:
        check_file(recipe, RECIPE_REMEDY)
        check_folder(folder)
        from kernelwright.train.installed import check_installed

        check_installed()
        from kernelwright.train.recipe import SupervisedRecipe
        from kernelwright.train.run import train_sft

        loaded = SupervisedRecipe.load(recipe, changes or ())
        ended = train_sft(loaded, folder, resume=resume, workers=cores(workers), say=say)
    loss = ended.standing.best_loss
    show_end(ended, folder, "" if loss is None else f"best validation loss {loss:.4f}", json=json)
