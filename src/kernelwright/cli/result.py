"""The summary table of optimized targets, from their records."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from kernelwright.core.record import Record
from kernelwright.report.format import count, factor, milliseconds, quantity
from kernelwright.report.run import Run

NOT_MEASURED = "not measured:\nno GPU"


def results_table(runs: Iterable[Run]) -> Table:
    """One block a target: what became Triton, the verdict, and what it saves."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("target", "in Triton"):
        table.add_column(column, overflow="fold")
    table.add_column("verdict", no_wrap=True)
    for column in ("launches", "bytes moved", "time"):
        table.add_column(column, justify="right", no_wrap=True)
    for run in runs:
        table.add_row(*map(Text, _cells(run)), end_section=True)
    return table


def _cells(run: Run) -> tuple[str, ...]:
    result = run.result
    launches, moved = result["launches"], result["bytes"]
    became_triton = (
        f"{result['operators_triton']}/{len(run.program['calls'])} operators",
        f"{result['num_triton']}/{result['num_fragments']} fragments",
        *(" + ".join(f["ops"]) for f in run.fragments if f["winner"] is not None),
    )
    return (
        str(result["target"]),
        "\n".join(became_triton),
        _outcome(result),
        f"{count(launches['before'])} to {count(launches['after'])}",
        f"{quantity(moved['before'], 'B')} to\n{quantity(moved['after'], 'B')}",
        _time(result["times"]),
    )


def _outcome(result: Record) -> str:
    if not result["num_triton"]:
        return "unchanged"
    verdict = result["verdict"]
    return "accepted" if verdict["accepted"] else f"rejected:\n{verdict['code']}"


def _time(times: dict[str, Record]) -> str:
    if "eager" not in times or "optimized" not in times:
        return NOT_MEASURED
    before_ms, after_ms = times["eager"]["median_ms"], times["optimized"]["median_ms"]
    gain = factor(before_ms / after_ms)
    return f"{milliseconds(before_ms)} to\n{milliseconds(after_ms)}, {gain}"
