"""docs/teacher-coverage.md says what the teacher writes."""

from pathlib import Path

import pytest

from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from tools.pages.teacher_coverage import CALLS, WrittenRow, page, page_of, with_neighbours


@pytest.mark.slow
def test_the_published_page_is_what_the_teacher_writes():
    published = Path(__file__).parents[3] / "docs" / "teacher-coverage.md"
    assert page() == published.read_text()


def test_neighbours_are_pointwise_calls_of_what_is_read_and_returned():
    b = Builder()
    x = b.input(TensorType((3, 4)))
    values, where = b.call("max", input=x, dim=1)
    program = b.program([values, *b.call("isnan", input=x), where])
    before, after = (with_neighbours(program, before=before) for before in (True, False))
    assert [call.op for call in before.calls] == ["mul", "max", "isnan"]
    assert [call.op for call in after.calls] == ["max", "isnan", "add", "logical_not", "add"]


def test_a_call_without_a_form_is_named():
    relu = WrittenRow("relu", ("pointwise",), CALLS, CALLS, CALLS, ())
    text = page_of({"loss": [relu, WrittenRow("odd", (), 0, 0, 0, ("odd of x",))]})
    assert "All calls alone are written of 1 of 2 operators." in text
    assert "| odd | none | 0 | 0 | 0 |" in text
    assert "- 1 like odd of x" in text
