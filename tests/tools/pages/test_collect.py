"""The table of docs/collect.md says what the records say, and touches nothing above it."""

import pytest

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from tools.pages.collect import write_table

LINE = {
    "record": "collect",
    "target": "pack.modules",
    "version": "1.2",
    "found": 7,
    "lowered": 5,
    "programs": 9,
    "by_level": {"1": 4, "2": 3, "3": 2},
    "refused": {"no_inputs": 1, "timeout": 1},
    "parts": {"parts": 20, "extern": 8, "repeated": 3},
    "seconds": 12.4,
    "workers": 2,
    "environment": {"versions": {"torch": "2.13.0"}, "commit": "abc"},
}


def test_a_row_for_each_collection(tmp_path):
    records, page = tmp_path / "collect.jsonl", tmp_path / "page.md"
    record.append(records, [LINE, {**LINE, "target": "other.py", "version": None}])
    page.write_text("# Title\n\ntext\n\n## Yields\n\nold\n")
    write_table(records, page)
    text = page.read_text()
    assert text.startswith(
        "# Title\n\ntext\n\n## Yields\n\nGenerated from collect.jsonl: torch 2.13"
    )
    assert "old" not in text
    assert (
        "| `pack.modules` | 1.2 | 7 | 5 | 9 | 4 / 3 / 2 | 1 no_inputs, 1 timeout"
        " | 8 extern, 3 repeated | 12 (2) |"
    ) in text
    assert "| `other.py` |  |" in text
    write_table(records, page)
    assert page.read_text() == text


def test_no_records_and_no_heading_are_said(tmp_path):
    records, page = tmp_path / "collect.jsonl", tmp_path / "page.md"
    record.append(records, [{"record": "lint"}])
    page.write_text("# Title\n")
    with pytest.raises(UsageError, match="no records"):
        write_table(records, page)
    record.append(records, [LINE])
    with pytest.raises(UsageError, match="no heading"):
        write_table(records, page)
