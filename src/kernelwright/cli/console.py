"""Where the verbs print: results to stdout, progress and errors to stderr."""

import contextlib
import io
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from kernelwright.core.progress import Progress, Say
from kernelwright.core.text import printable
from kernelwright.search.telling.display import displayed

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


_json_stream: list[TextIO] = []
"""The real stdout while `stdout_for_json` keeps everything else away from it."""


def escape_what_cannot_be_encoded() -> None:
    """A terminal or pipe of another encoding than UTF-8 gets escapes, and no verb fails for it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def stdout_for_json() -> Iterator[None]:
    """Keep stdout for `print_json`: what the user's own modules print goes to stderr."""
    _json_stream.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _json_stream.pop()


def print_json(value: Any) -> None:
    """Print a value, the only text on stdout under `--json`."""
    stream = _json_stream[-1] if _json_stream else sys.stdout
    print(json.dumps(value, indent=2, allow_nan=False), file=stream, flush=True)


def show(facts: Any, readable: RenderableType, line: str, *, json: bool) -> None:
    """Print the result of a verb: its facts as JSON, or a readable form and a line below."""
    if json:
        print_json(facts)
    else:
        out.print(readable)
        note(line)


def note(text: str, style: str | None = None) -> None:
    """Print a line beside the result: a path that was written, a warning."""
    # An error may quote a candidate, or the name of a file.
    err.print(printable(text, len(text)), style=style, markup=False, soft_wrap=True)


def rows_table(rows: Sequence[Sequence[str | Text]], title: str | None = None) -> Table:
    """A table of texts, whose first row is the head. Texts that are `str` may have markup."""
    head, *body = rows
    table = Table(*map(str, head), title=title, box=None, pad_edge=False, header_style="bold")
    for row in body:
        table.add_row(*row)
    return table


@contextmanager
def progress(title: str) -> Iterator[Say]:
    """Show the steps of a job that reports them as texts."""
    begin_s = time.monotonic()
    with displayed(True, in_pipes=True) as show:

        def say(message: str) -> None:
            show(Progress(stage=title, subject=message, spent_s=time.monotonic() - begin_s))

        say("loading")
        yield say
