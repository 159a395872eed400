"""One row of the table of all tasks: text to show and values to sort by."""

from dataclasses import dataclass

from kernelwright.core.commits import named
from kernelwright.core.delivered import (
    COMPILE,
    ORIGINAL,
    TIMED,
    delivered_timing,
    delivers_kernels,
    form_of,
    over,
)
from kernelwright.core.kinds.suites import CaseLine
from kernelwright.report import words
from kernelwright.report.format import factor, milliseconds
from kernelwright.report.suite import failures
from kernelwright.report.suite.scores import BASELINES, roofline_share, share_of_graph

KINDS = {
    "delivered": "kernels delivered",
    "kept_back": "correct, not delivered",
    "wrong": "not correct",
}
"""Results that a reader filters rows by, with their labels."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the table."""

    label: str
    """Heading of its column."""
    text: str = ""
    below: str = ""
    """A second line, smaller: an interval, or the other side."""
    value: float | None = None
    """To sort by; None is last. Text cells sort by their text."""
    is_number: bool = True
    raw: str = ""
    """Recorded text that a click opens."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of the table of tasks, or of another table that sorts and filters."""

    name: str
    link: str
    """The page of the task, relative to the page of the table; empty where there is none."""
    kind: str
    """The kind that a reader filters by: for tasks one of `KINDS`."""
    cells: tuple[Cell, ...]


def row_of(case: CaseLine, baselines: list[str], link: str, *, is_mixed: bool = False) -> TableRow:
    """The row of a case.

    Args:
        baselines: those that any case of the run was timed against; each has a column.
        link: page of the task; empty without one.
        is_mixed: the cases of the run are from several commits; the row names its own.
    """
    return TableRow(
        case_name(case),
        link,
        kind_of(case),
        (
            *(_against(case, baseline) for baseline in baselines),
            _result(case),
            _time(case),
            _errors(case),
            _share("of roofline", roofline_share(case)),
            Cell("rewrites", _rewrites(case), is_number=False),
            _share("as a graph", share_of_graph(case) if case.get("graph") else None),
            _count("seconds", case.get("seconds")),
            _count("candidates", case.get("candidates")),
            *([Cell("commit", named([case.get("commit", "")]), is_number=False)] * is_mixed),
        ),
    )


def case_name(case: CaseLine) -> str:
    """The name of a task with its level, and with the number of the answer after the first one."""
    level, name, sample = case["level"], case["name"], case.get("sample", 0)
    place = name if level in name.split("/") else f"{level}/{name}"
    return f"{place}, answer {sample + 1}" if sample else place


def kind_of(case: CaseLine) -> str:
    """The kind of a case's result, one of `KINDS`."""
    if not case["correct"]:
        return "wrong"
    return "delivered" if delivers_kernels(case) else "kept_back"


def _result(case: CaseLine) -> Cell:
    """The cell with the user's result, or with the reason why no kernel is right."""
    if not case["correct"]:
        return Cell("result", failures.why(case), is_number=False, raw=failures.raw(case))
    form = form_of(case)
    if delivers_kernels(case):
        return Cell("result", f"correct: {words.form(form)}", is_number=False)
    slower = _slower(case) if form == ORIGINAL else ""
    return Cell("result", f"correct, {words.form(form)}", slower, is_number=False)


def _slower(case: CaseLine) -> str:
    """The time of a right kernel that was not kept; "" where there is none."""
    timing = case.get(TIMED)
    return f"the kernel takes {milliseconds(timing['median_ms'])}" if timing else ""


def _time(case: CaseLine) -> Cell:
    """The cell with the time of a call as delivered, and its interval."""
    timing = delivered_timing(case)
    if not timing:
        return Cell("time")
    interval = f"{milliseconds(timing['low_ms'])} to {milliseconds(timing['high_ms'])}"
    median_ms = timing["median_ms"]
    return Cell("time", milliseconds(median_ms), interval, median_ms)


def _against(case: CaseLine, baseline: str) -> Cell:
    """The cell with the delivered ratio and its interval, or with the baseline's failure."""
    label = f"over {BASELINES[baseline]}"
    ratio = over(case, baseline)
    if ratio is None:
        failed = case.get("baselines_failed", {}).get(baseline, "")
        name = BASELINES[baseline]
        return Cell(label, f"{name} cannot run it" if failed else "", raw=failed)
    ends = ratio.interval
    below = f"{ends[0]:.2f} to {ends[1]:.2f}" if ends else ""
    if baseline == COMPILE and _is_inexact(case):
        below = "; ".join(filter(None, [below, "the judge rejects its values"]))
    return Cell(label, factor(ratio.value), below, ratio.value)


def _is_inexact(case: CaseLine) -> bool:
    """Whether a search found that the judge would reject the values of torch.compile, or those of
    its default mode."""
    contest = case.get("contest")
    if contest is None or COMPILE not in contest["median_ms"]:
        return False
    return not (contest["right"] and contest["moves_layouts"])


def _errors(case: CaseLine) -> Cell:
    if not (errors := case.get("errors")):
        return Cell("rms error")
    ours, theirs = errors["rms_candidate"], errors["rms_reference"]
    return Cell("rms error", f"{ours:.1e}", f"PyTorch {theirs:.1e}", ours)


def _rewrites(case: CaseLine) -> str:
    names = (*case.get("algebra", ()), *case.get("rewrites", ()))
    return ", ".join(name.replace("_", " ") for name in names)


def _share(label: str, share: float | None) -> Cell:
    return Cell(label) if share is None else Cell(label, f"{share:.2f}", value=share)


def _count(label: str, number: float | None) -> Cell:
    return Cell(label) if number is None else Cell(label, f"{number:.0f}", value=number)
