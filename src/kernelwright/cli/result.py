"""The summary table of optimized targets, from their records."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from kernelwright.core.delivered import COMPILE, EAGER
from kernelwright.report.format import count, factor, milliseconds, quantity
from kernelwright.report.outcome import better, ending
from kernelwright.report.run import ReportedRun
from kernelwright.search.telling.display import shortened

MAX_TARGET, MAX_FRAGMENT = 20, 22
"""Columns: with the others they fit into 80."""


def results_table(runs: Iterable[ReportedRun]) -> Table:
    """A block for each target: operators in Triton, the verdict, time and memory traffic."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("target", "in Triton", "verdict"):
        table.add_column(column, no_wrap=True)
    table.add_column("before", justify="right", no_wrap=True)
    table.add_column("after", justify="right", no_wrap=True)
    for run in runs:
        table.add_row(*_cells(run), end_section=True)
    return table


def _cells(run: ReportedRun) -> tuple[Text, ...]:
    result = run.result
    covered = f"{result['operators_triton']} of {len(run.program['calls'])} operators"
    fragments = [" + ".join(f["ops"]) for f in run.fragments if f["winner"] is not None]
    lines = [covered, *(shortened(fragment, MAX_FRAGMENT) for fragment in fragments)]
    before, after = _figures(run)
    return (
        Text(shortened(str(result["target"]), MAX_TARGET)),
        Text("\n".join(lines)),
        _verdict(run),
        Text("\n".join(before)),
        Text("\n".join(after)),
    )


def _verdict(run: ReportedRun) -> Text:
    if not ending(run).is_optimized and run.result["verdict"]["code"] in ("ok", "no_kernel"):
        return Text("unchanged")
    verdict = run.result["verdict"]
    if verdict["accepted"]:
        return Text("accepted", "bold green")
    return Text(f"rejected:\n{verdict['code']}", "bold red")


def _figures(run: ReportedRun) -> tuple[list[str], list[str]]:
    """Launches, traffic and time, before and after: before is the better of PyTorch and
    torch.compile, where both were timed."""
    result = run.result
    launches, moved, times = result["launches"], result["bytes"], result["times"]
    before = [f"{count(launches['before'])} launches", quantity(moved["before"], "B")]
    after = [f"{count(launches['after'])}", quantity(moved["after"], "B")]
    if "eager" not in times or "optimized" not in times:
        return [*before, "not timed"], after
    name, *_ = better(run) or (EAGER,)
    before_ms, after_ms = times[name]["median_ms"], times["optimized"]["median_ms"]
    before += [milliseconds(before_ms), *(["compiled"] if name == COMPILE else [])]
    after.append(f"{milliseconds(after_ms)}, {factor(before_ms / after_ms)}")
    return before, after
