"""The yield of collections, as the table of docs/collect.md.

python -m kernelwright.report.collect_table results/collect.jsonl docs/collect.md
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record

HEADING = "## Yields\n"
_COLUMNS = ("target", "version", "modules", "lowered", "programs", "by calls", "gave nothing",
            "parts left out", "seconds")  # fmt: skip


def write_table(records: Path, page: Path) -> None:
    """Replace what follows the page's heading by a table of the records of `data collect`.

    Raises:
        UsageError: there are none, or the page lacks the heading.
    """
    lines = [line for line in record.read(records) if line["record"] == "collect"]
    if not lines:
        raise UsageError("no records of data collect", file=str(records))
    text, heading, _ = page.read_text(encoding="utf-8").partition(HEADING)
    if not heading:
        raise UsageError(f"no heading {HEADING.strip()!r}", file=str(page))
    rows = [_COLUMNS, tuple("---" for _ in _COLUMNS), *map(_row, lines)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    page.write_text(f"{text}{heading}\n{_head(records, lines)}\n\n{table}\n", encoding="utf-8")


def _head(records: Path, lines: Sequence[Record]) -> str:
    versions = sorted({line["environment"]["versions"]["torch"] for line in lines})
    commits = sorted({str(line["environment"]["commit"]) for line in lines})
    return (
        f"Generated from {records.name}: torch {', '.join(versions)}, commit {', '.join(commits)}; "
        "seconds with the workers of the run, on a machine that did other things too."
    )


def _row(line: Record) -> tuple[str, ...]:
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


def _counts(counts: Record) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in counts.items())


if __name__ == "__main__":
    write_table(Path(sys.argv[1]), Path(sys.argv[2]))
