"""The `kernelwright` command: verbs, and errors as exit codes.

0 done or accepted, 1 rejected, 2 bad usage or input, 3 our own failure. Verbs import torch only
when they run, so `--help` and `ops` start at once.
"""

import sys
import traceback
from collections.abc import Sequence

import typer

from kernelwright import __version__
from kernelwright.cli import (
    data,
    doctor,
    evaluate,
    generate,
    lint,
    ops,
    optimize,
    report,
    synth,
    train,
    verify,
    verify_many,
)
from kernelwright.cli.console import err, out
from kernelwright.core.errors import InfraError, UsageError, infra

app = typer.Typer(
    name="kernelwright",
    help="PyTorch programs in, verified fast Triton kernels out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for verb in (optimize, generate, verify, verify_many, lint, ops, doctor, report):
    name = verb.__name__.rpartition(".")[2].replace("_", "-")
    app.command(name=name)(verb.command)
app.add_typer(data.app, name="data")
app.add_typer(evaluate.app, name="eval")
app.add_typer(synth.app, name="synth")
app.add_typer(train.app, name="train")


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """PyTorch programs in, verified fast Triton kernels out."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code; `argv` is the process's own where not given."""
    try:
        with infra("kernelwright"):
            app(args=None if argv is None else list(argv), prog_name="kernelwright")
    except UsageError as error:
        err.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        sys.exit(2)
    except InfraError as error:
        if error.__cause__ is not None:
            text = "".join(traceback.format_exception(error.__cause__))
            err.print(text, markup=False, soft_wrap=True)
        message = f"our side failed, nothing is known about the input: {error}"
        err.print(message, style="red", markup=False, soft_wrap=True)
        sys.exit(3)


if __name__ == "__main__":
    main()
