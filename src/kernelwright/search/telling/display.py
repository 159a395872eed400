"""Progress as people see it: a live line on a terminal, plain lines in a pipe, a bar in a notebook.

Every step also goes to Python's logging, under the name "kernelwright" at level INFO.
"""

import html
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from kernelwright.core.progress import OnProgress, Progress

PIPE_COLUMNS = 80
"""The longest line in a pipe or a log file."""
PIPE_PAUSE_S = 1.0
"""Seconds between two lines of one stage in a pipe."""
MIN_SUBJECT, MAX_BEST = 8, 28
"""Columns: a subject with fewer is left out; the best result never takes more."""
ELLIPSIS = "..."

logger = logging.getLogger("kernelwright")
Clock = Callable[[], float]


def status(step: Progress, columns: int = PIPE_COLUMNS) -> str:
    """One line: "0:12 of 10:00  writing kernels 3/16: matmul+...+gelu  best: 1.8x faster".

    The clock comes first and is never cut. The subject is shortened in its middle to fit.
    """
    clock = duration(step.spent_s)
    if step.budget_s is not None:
        clock += f" of {duration(step.budget_s)}"
    number = ""
    if step.total is not None or step.done:
        number = f" {step.done}" if step.total is None else f" {step.done}/{step.total}"
    best = f"  best: {shortened(step.best, MAX_BEST)}" if step.best else ""
    head = f"{clock}  {step.stage}{number}"
    left = columns - len(head) - len(best) - len(": ")
    subject = f": {shortened(step.subject, left)}" if left >= MIN_SUBJECT and step.subject else ""
    line = head + subject + best
    return line if len(line) <= columns else line[: columns - len(ELLIPSIS)] + ELLIPSIS


def duration(seconds: float) -> str:
    """Minutes and seconds, or hours: 75 -> "1:15", 4000 -> "1:06:40"."""
    whole = int(seconds)
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02}"
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def shortened(text: str, columns: int) -> str:
    """The text on one line, without its middle where it is longer than `columns`."""
    text = " ".join(text.split())
    if len(text) <= columns:
        return text
    # At least one letter stays at each end.
    kept = max(columns - len(ELLIPSIS), 2)
    tail = kept // 2
    return text[: kept - tail] + ELLIPSIS + text[len(text) - tail :]


@contextmanager
def displayed(
    progress: bool | OnProgress = True, *, in_pipes: bool = False
) -> Iterator[OnProgress]:
    """A callback that logs each step and shows it in the way that fits the place.

    Args:
        progress: True shows steps, False only logs them, a callable gets them.
        in_pipes: also print plain lines where stderr is neither a terminal nor a notebook.
    """
    if callable(progress):
        yield _logging(progress)
        return
    console = Console(stderr=True, highlight=False)
    if not progress:
        yield _logging(lambda _: None)
    elif _in_notebook():
        yield _logging(NotebookBar().show)
    elif console.is_terminal:
        view = TerminalLine()
        with Live(view, console=console, transient=True, refresh_per_second=4):
            yield _logging(view.show)
    elif in_pipes:
        lines = PipeLines(_to_stderr)
        yield _logging(lines.show)
        lines.close()
    else:
        yield _logging(lambda _: None)


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _logging(show: OnProgress) -> OnProgress:
    """Log a step where more than its clock has changed, then show it."""
    last: list[tuple[object, ...]] = []

    def log_and_show(step: Progress) -> None:
        facts = _facts(step)
        # Most steps differ from the step before by the clock alone, which a log does not need.
        if [facts] != last:
            last[:] = [facts]
            logger.info("%s", status(step))
        show(step)

    return log_and_show


def _facts(step: Progress) -> tuple[object, ...]:
    """All of a step but its clock."""
    return step.stage, step.subject, step.done, step.total, step.best


class TerminalLine:
    """A spinner, the status and a bar of the budget, drawn anew four times a second."""

    def __init__(self, now: Clock = time.monotonic) -> None:
        self._now = now
        self._spinner = Spinner("dots")
        self._step, self._since_s = Progress(stage="starting"), now()

    def show(self, step: Progress) -> None:
        """Take over a step; its clock runs on until the next one."""
        self._step, self._since_s = step, self._now()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        spent_s = self._step.spent_s + self._now() - self._since_s
        step = replace(self._step, spent_s=spent_s)
        line = Table.grid(padding=(0, 1))
        # Three columns are for the spinner and its padding.
        line.add_row(self._spinner, Text(status(step, options.max_width - 3), no_wrap=True))
        yield line
        if step.budget_s:
            width = min(options.max_width, PIPE_COLUMNS)
            yield ProgressBar(step.budget_s, min(spent_s, step.budget_s), width=width)


class PipeLines:
    """Plain lines: each change of stage at once, other changes at most once a second."""

    def __init__(self, write: Callable[[str], None], now: Clock = time.monotonic) -> None:
        self._write, self._now = write, now
        self._written: Progress | None = None
        self._written_s = float("-inf")
        self._waiting: Progress | None = None

    def show(self, step: Progress) -> None:
        """Print the step, or keep it until a second has passed."""
        if self._written is not None and _facts(step) == _facts(self._written):
            return
        is_new_stage = self._written is None or step.stage != self._written.stage
        if is_new_stage or self._now() - self._written_s >= PIPE_PAUSE_S:
            self._print(step)
        else:
            # A newer step replaces the step that waits, so lines never lag behind.
            self._waiting = step

    def close(self) -> None:
        """Print the last step, if it still waits."""
        if self._waiting is not None:
            self._print(self._waiting)

    def _print(self, step: Progress) -> None:
        self._written, self._written_s, self._waiting = step, self._now(), None
        self._write(status(step, PIPE_COLUMNS))


class NotebookBar:
    """A bar of the budget with the status below it, updated in place in the cell's output."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, step: Progress) -> None:
        text = status(step, 100)
        bar = ""
        if step.budget_s:
            used = min(step.spent_s / step.budget_s, 1.0)
            bar = f'<progress value="{used:.3f}" max="1" style="width: 100%"></progress><br>'
        shown = {"text/plain": text, "text/html": f"{bar}<code>{html.escape(text)}</code>"}
        if self._handle is None:
            # IPython is there in notebooks alone, and no dependency of this package.
            show = import_module("IPython.display").display
            self._handle = show(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


def _in_notebook() -> bool:
    """Whether this process is the kernel of a Jupyter notebook."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"
