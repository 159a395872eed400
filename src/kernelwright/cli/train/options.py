"""The common parts of the verbs that train: options, the number of processes, the words at the
end."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.cli.console import note, out, print_json
from kernelwright.cli.options import number_option, out_option
from kernelwright.cli.signals import SIGNALLED

if TYPE_CHECKING:
    from kernelwright.train.folder import EndedPart

PairsRecipeArgument = Annotated[
    Path, typer.Argument(metavar="RECIPE", help="A recipe in TOML, as docs/sft.md says.")
]
VerdictsRecipeArgument = Annotated[
    Path, typer.Argument(metavar="RECIPE", help="A recipe in TOML, as docs/rl.md says.")
]
FolderOption = Annotated[Path, out_option("The folder of the run.")]
ChangesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting that replaces the recipe's, as optimizer.clip=0.5.",
        show_default="",
    ),
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")]
WorkersOption = Annotated[
    int | None,
    number_option("The number of processes that tokenise or draw programs.", default="one a core"),
]


def show_end(ended: "EndedPart", folder: Path, best: str, *, json: bool) -> None:
    """Print how far the run came, and where its weights are.

    Args:
        best: the best validation, in words; "" where there was none.

    Raises:
        typer.Exit: a signal ended it.
    """
    if ended.is_main:
        standing = ended.standing
        if json:
            print_json({"folder": str(folder), "stopped_by": ended.stopped_by, **asdict(standing)})
        else:
            out.print(
                f"{standing.step} steps, {standing.tokens:,} tokens, {standing.seconds:.0f} s"
            )
            if best:
                out.print(f"{best} at step {standing.best_step}")
        note(f"weights  {folder}/best  {folder}/last")
        if ended.stopped_by:
            note("stopped by a signal; go on with --resume", "yellow")
    if ended.stopped_by:
        raise typer.Exit(SIGNALLED + ended.stopped_by)
