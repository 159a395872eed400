"""`kernelwright data`: programs and pairs to train on."""

import typer

from kernelwright.cli import data_collect, data_fingerprints

app = typer.Typer(no_args_is_help=True, help="Programs to train on, as records.")


@app.callback()
def _group() -> None:
    """Programs to train on, as records."""


app.command(name="collect")(data_collect.command)
app.command(name="fingerprints")(data_fingerprints.command)
