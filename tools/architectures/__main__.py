"""`python -m tools.architectures run|table|list`, from the root of a checkout."""

from pathlib import Path
from typing import Annotated

import typer

from kernelwright.bench.models.libraries import missing, prepare
from kernelwright.core import record
from tools.architectures.running import measure_all
from tools.architectures.suite import LIBRARIES, suite
from tools.architectures.table import page

app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True)
Pattern = Annotated[str, typer.Option(help="Shell pattern of the names, 'timm/*' for example.")]
Records = Annotated[Path, typer.Argument(help="JSONL file of the records.")]


@app.command()
def run(
    records: Records,
    only: Pattern = "*",
    limit_s: Annotated[int, typer.Option(help="CPU seconds for one architecture.")] = 120,
) -> None:
    """Measure the architectures that the file has no record of yet."""
    prepare()
    measure_all(suite(only), records, missing(LIBRARIES), limit_s=limit_s, tell=typer.echo)


@app.command()
def table(records: Records) -> None:
    """Print the records as Markdown tables."""
    typer.echo(page([line for line in record.read(records) if "name" in line]))


@app.command(name="list")
def list_names(only: Pattern = "*") -> None:
    """Print the name and the family of each architecture."""
    for architecture in suite(only):
        typer.echo(f"{architecture.name}  ({architecture.family})")


if __name__ == "__main__":
    app()
