"""The summary table of optimized targets, from their result records."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from kernelwright.core.record import Record
from kernelwright.report.format import count, quantity

NOT_MEASURED = "not measured: no GPU"


def results_table(results: Sequence[Record]) -> Table:
    """One row a target: what became Triton, the verdict, and what it saves."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("target")
    for column in ("operators", "fragments", "in Triton"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for column in ("launches", "bytes moved", "time"):
        table.add_column(column, justify="right")
    for result in results:
        table.add_row(*map(Text, _cells(result)))
    return table


def _cells(result: Record) -> tuple[str, ...]:
    verdict = result["verdict"]
    launches, moved = result["launches"], result["bytes"]
    return (
        str(result["target"]),
        str(result["num_operators"]),
        f"{result['num_triton']} of {result['num_fragments']}",
        "accepted" if verdict["accepted"] else f"rejected: {verdict['code']}",
        f"{count(launches['before'])} -> {count(launches['after'])}",
        f"{quantity(moved['before'], 'B')} -> {quantity(moved['after'], 'B')}",
        _time(result["times"]),
    )


def _time(times: dict[str, Record]) -> str:
    if "eager" not in times or "optimized" not in times:
        return NOT_MEASURED
    before, after = times["eager"]["median_ms"], times["optimized"]["median_ms"]
    return f"{before:.4g} -> {after:.4g} ms ({before / after:.2f}x)"
