"""How progress is shown: lines of 80 columns, the clock never cut, few lines in a pipe."""

import io
import logging
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from kernelwright.core.progress import Progress
from kernelwright.search.telling.display import (
    NotebookBar,
    PipeLines,
    TerminalLine,
    displayed,
    duration,
    shortened,
    status,
)

LONG = Progress(
    stage="writing kernels",
    subject="rms_norm+linear+split+reshape+transpose+rope+matmul+softmax+matmul+reshape",
    done=3,
    total=16,
    spent_s=75.0,
    budget_s=600.0,
    best="1.84x faster than PyTorch",
)


@pytest.mark.parametrize("columns", [30, 60, 80, 120])
def test_a_line_fits_and_keeps_its_clock(columns):
    line = status(LONG, columns)
    assert len(line) <= columns
    assert line.startswith("1:15 of 10:00  ")


def test_a_line_of_80_columns_has_stage_count_subject_and_best():
    line = status(LONG)
    assert "writing kernels 3/16: rms_" in line
    assert "..." in line
    assert line.endswith("best: 1.84x faster than PyTorch")


def test_a_short_step_is_shown_whole():
    step = Progress(stage="lowering", subject="mlp.py", spent_s=2.0)
    assert status(step) == "0:02  lowering: mlp.py"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (75, "1:15"), (3599, "59:59"), (4000, "1:06:40")]
)
def test_durations_are_clocks(seconds, text):
    assert duration(seconds) == text


def test_a_text_is_shortened_in_its_middle():
    assert shortened("abcdefghij", 7) == "ab...ij"
    assert shortened("a\nb", 7) == "a b"


def test_a_pipe_gets_stages_at_once_and_other_changes_once_a_second():
    lines, now = [], SimpleNamespace(s=0.0)
    pipe = PipeLines(lines.append, now=lambda: now.s)
    for s, done in ((0.0, 0), (0.1, 1), (0.2, 2), (1.3, 3), (1.3, 3)):
        now.s = s
        pipe.show(Progress(stage="judging", done=done, total=9))
    pipe.show(Progress(stage="timing"))
    pipe.show(Progress(stage="timing", done=1))
    assert [line.partition("  ")[2] for line in lines] == ["judging 0/9", "judging 3/9", "timing"]
    pipe.close()
    assert lines[-1].endswith("timing 1")


def test_a_clock_alone_is_no_change():
    lines = []
    pipe = PipeLines(lines.append, now=iter(range(100)).__next__)
    for spent_s in range(5):
        pipe.show(Progress(stage="judging", spent_s=spent_s))
    assert len(lines) == 1


def test_the_terminal_line_ticks_and_fits_80_columns():
    now = SimpleNamespace(s=0.0)
    view = TerminalLine(now=lambda: now.s)
    view.show(LONG)
    now.s = 10.0
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    console.print(view)
    shown = console.file.getvalue()
    assert "1:25 of 10:00" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_notebook_updates_one_output(monkeypatch):
    shown, updated = [], []
    handle = SimpleNamespace(update=lambda data, **_: updated.append(data))

    def display(data, raw, display_id):
        shown.append(data)
        return handle

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    bar = NotebookBar()
    bar.show(Progress(stage="<b>", budget_s=10.0, spent_s=5.0))
    bar.show(LONG)
    assert len(shown) == len(updated) == 1
    assert 'value="0.500"' in shown[0]["text/html"]
    assert "&lt;b&gt;" in shown[0]["text/html"]


def test_every_change_is_logged_once_even_where_nothing_is_shown(caplog, capsys):
    with caplog.at_level(logging.INFO, "kernelwright"), displayed(False) as show:
        show(LONG)
        show(LONG)
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert capsys.readouterr().err == ""


def test_a_callable_gets_the_steps():
    steps = []
    with displayed(steps.append) as show:
        show(LONG)
    assert steps == [LONG]


def test_a_pipe_is_silent_for_the_python_interface(capsys):
    with displayed(True) as show:
        show(LONG)
    assert capsys.readouterr().err == ""
    with displayed(True, in_pipes=True) as show:
        show(LONG)
    assert capsys.readouterr().err.count("\n") == 1
