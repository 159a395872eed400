"""`kernelwright train`: make models that write kernels."""

import typer

from kernelwright.cli import train_rl, train_sft

app = typer.Typer(no_args_is_help=True, help="Train models that write kernels.")


@app.callback()
def _group() -> None:
    """Train models that write kernels."""


app.command(name="sft")(train_sft.command)
app.command(name="rl")(train_rl.command)
