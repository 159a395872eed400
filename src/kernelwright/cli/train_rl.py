"""`kernelwright train rl`: reinforcement learning with verdicts as rewards."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.cli.console import err, out, progress
from kernelwright.cli.train_sft import SIGNALLED

if TYPE_CHECKING:
    from kernelwright.train.folder import Ended


def command(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="A TOML file: docs/rl.md.")],
    folder: Annotated[Path, typer.Option("--out", help="Folder of the run.")],
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting in place of the recipe's, e.g. objective.loss=grpo.",
            show_default="",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in the folder.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes that draw programs.", show_default="one a core"),
    ] = None,
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
    num_workers = workers or len(os.sched_getaffinity(0))
    with progress("train") as say:
        ended = train_rl(loaded, folder, resume=resume, workers=num_workers, say=say)
    if ended.is_main:
        _print(ended, folder)
    if ended.stopped_by:
        raise typer.Exit(SIGNALLED + ended.stopped_by)


def _print(ended: "Ended", folder: Path) -> None:
    standing = ended.standing
    out.print(f"{standing.step} steps, {standing.tokens:,} tokens, {standing.seconds:.0f} s")
    if standing.best_score is not None:
        out.print(f"best validation {standing.best_score:.3f} at step {standing.best_step}")
    err.print(f"weights  {folder}/best  {folder}/last", markup=False, soft_wrap=True)
    if ended.stopped_by:
        err.print("stopped by a signal; go on with --resume", style="yellow")
