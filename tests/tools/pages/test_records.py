"""docs/records.md lists the fields of every declared kind."""

from pathlib import Path

from tools.pages import records

PUBLISHED = Path(__file__).parents[3] / "docs" / "records.md"


def test_the_published_page_is_of_the_current_kinds():
    assert PUBLISHED.read_text() == records.page()


def test_fields_have_types_and_meanings():
    rows = records.page().splitlines()
    assert "### `benchmark_case` (CaseLine)" in rows
    assert "| `sample` | `int` | Number of the answer among those to the same task. |" in rows
    assert "### `part` (PartLine)" in rows
    assert "| `from` | `str \\| None` |  |" in rows
