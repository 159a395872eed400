"""`kernelwright data`: programs and pairs to train on."""

import typer

from kernelwright.cli import data_build, data_collect, data_fingerprints

app = typer.Typer(no_args_is_help=True, help="Programs and pairs to train on.")


@app.callback()
def _group() -> None:
    """Programs and pairs to train on."""


app.command(name="build")(data_build.command)
app.command(name="collect")(data_collect.command)
app.command(name="fingerprints")(data_fingerprints.command)
