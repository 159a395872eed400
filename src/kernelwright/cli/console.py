"""Where the verbs print: results to stdout, progress and errors to stderr."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from kernelwright.core.errors import UsageError

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Say = Callable[[str], None]
"""What long work calls to say where it is."""


def print_json(value: Any) -> None:
    """The one thing on stdout under `--json`."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


@contextmanager
def errors_as_json(wanted: bool) -> Iterator[None]:
    """Under `--json`, an error is an object on stdout too: {"error": {kind, message, ...}}."""
    try:
        yield
    except UsageError as error:
        if wanted:
            place = {"file": error.file, "line": error.line, "remedy": error.remedy}
            print_json({"error": {"kind": "usage", "message": error.message, **place}})
        raise
    except Exception as error:
        if wanted:
            print_json({"error": {"kind": "infra", "message": str(error)}})
        raise


@contextmanager
def progress(title: str) -> Iterator[Say]:
    """A spinner with the last message and the elapsed time, on stderr.

    Where stderr is no terminal it prints one line a message, so that logs stay readable.
    """
    if not err.is_terminal:
        yield lambda message: err.print(f"{title}: {message}", markup=False, soft_wrap=True)
        return
    text = TextColumn("{task.description}", markup=False)
    with Progress(SpinnerColumn(), text, TimeElapsedColumn(), console=err, transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda message: bar.update(task, description=f"{title}: {message}")
