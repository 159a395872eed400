"""docs/collect.md: the yield of collections, as the table that ends the page."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.kinds.data import CollectLine

HEADING = "## Yields\n"
_COLUMNS = ("target", "version", "modules", "lowered", "programs", "by calls", "gave nothing",
            "parts left out", "seconds")  # fmt: skip


def write_table(records: Path, page: Path) -> None:
    """Replace what follows the page's heading by a table of the records of `data collect`.

    Raises:
        UsageError: there are none, or the page lacks the heading.
    """
    lines = list(record.of_kind(record.read(records), CollectLine))
    if not lines:
        raise UsageError("no records of data collect", file=str(records))
    text, heading, _ = page.read_text(encoding="utf-8").partition(HEADING)
    if not heading:
        raise UsageError(f"no heading {HEADING.strip()!r}", file=str(page))
    rows = [_COLUMNS, tuple("---" for _ in _COLUMNS), *map(_row, lines)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    page.write_text(f"{text}{heading}\n{_head(records, lines)}\n\n{table}\n", encoding="utf-8")


def _head(records: Path, lines: Sequence[CollectLine]) -> str:
    versions = sorted({str(line["environment"]["versions"]["torch"]) for line in lines})
    commits = sorted({str(line["environment"]["commit"]) for line in lines})
    return (
        f"Generated from {records.name}: torch {', '.join(versions)}, commit {', '.join(commits)}; "
        "seconds with the workers of the run, on a machine that did other things too."
    )


def _row(line: CollectLine) -> tuple[str, ...]:
    parts = {reason: count for reason, count in line["parts"].items() if reason != "parts"}
    return (
        f"`{line['target']}`",
        line["version"] or "",
        str(line["found"]),
        str(line["lowered"]),
        str(line["programs"]),
        " / ".join(str(count) for count in line["by_level"].values()),
        _counts(line["refused"]),
        _counts(parts),
        f"{line['seconds']:.0f} ({line['workers']})",
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in counts.items())
