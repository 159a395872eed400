"""What the verbs that train have in common: options, how many processes, how an end is told."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.cli.console import err, out

if TYPE_CHECKING:
    from kernelwright.train.folder import Ended

SIGNALLED = 128
"""Added to a signal's number where it ended the run before its budget was used."""

FolderOption = Annotated[Path, typer.Option("--out", help="Folder of the run.")]
ChangesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting in place of the recipe's, e.g. optimizer.clip=0.5.",
        show_default="",
    ),
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1, help="Processes that tokenise or draw programs.", show_default="one a core"
    ),
]


def one_a_core(workers: int | None) -> int:
    return workers or len(os.sched_getaffinity(0))


def show_end(ended: "Ended", folder: Path, best: str) -> None:
    """How far the run came, and where its weights are.

    Args:
        best: the best validation, in words; "" where there was none.

    Raises:
        typer.Exit: a signal ended it.
    """
    if ended.is_main:
        standing = ended.standing
        out.print(f"{standing.step} steps, {standing.tokens:,} tokens, {standing.seconds:.0f} s")
        if best:
            out.print(f"{best} at step {standing.best_step}")
        err.print(f"weights  {folder}/best  {folder}/last", markup=False, soft_wrap=True)
        if ended.stopped_by:
            err.print("stopped by a signal; go on with --resume", style="yellow")
    if ended.stopped_by:
        raise typer.Exit(SIGNALLED + ended.stopped_by)
