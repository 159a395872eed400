"""docs/teacher-split.md says how programs are split."""

from itertools import islice
from pathlib import Path

import pytest

from tools.pages.teacher_split import page_of, programs, row, split

PUBLISHED = Path(__file__).parents[3] / "docs" / "teacher-split.md"
SAMPLE = 12


@pytest.fixture(scope="module")
def variants():
    return [split(program) for program in islice(programs(), SAMPLE)]


@pytest.mark.slow
def test_the_published_page_is_how_they_are_split(variants):
    lines = page_of([row(variant) for variant in variants]).splitlines()
    published = PUBLISHED.read_text().splitlines()
    assert lines[-SAMPLE:] == published[-100:][:SAMPLE]


def test_programs_are_kernels_throughout(variants):
    found = [row(variant) for variant in variants]
    assert all(each.left == () for each in found)
    assert all(len(each.families) <= each.kernels < 20 for each in found)
