"""The page that sets the linter's findings on KernelBench beside the lists of others."""

from pathlib import Path

import pytest

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.lint.findings import KINDS
from kernelwright.report.known_flaws import FLAWS
from tools.pages.lint_kernelbench import write_page

RUN = {
    "record": "run",
    "command": "lint",
    "environment": {"gpu": "NVIDIA H200, 1", "versions": {"torch": "2.11"}, "commit": None},
}


def linted(task, *findings, scaled=False):
    keys = ("id", "severity", "tolerances")
    found = [dict(zip(keys, each, strict=True)) for each in findings]
    return {"record": "lint", "task": task, "findings": found, "scaled": scaled}


@pytest.fixture
def page(tmp_path):
    def write(*lines):
        records, made = tmp_path / "records.jsonl", tmp_path / "page.md"
        record.append(records, [RUN, *lines])
        write_page(records, made)
        return made.read_text()

    return write


def test_known_flaws_name_findings_that_exist():
    named = set().union(*(flaw.findings for flaw in FLAWS))
    assert named <= KINDS.keys()
    numbers = [n for flaw in FLAWS for numbers in flaw.tasks.values() for n in numbers]
    assert all(1 <= number <= 100 for number in numbers)


def test_found_missed_and_new_tasks_are_told_apart(page):
    text = page(
        linted("level1/19_ReLU.py", ("identity", "degenerate", ["strict", "1e-4", "1e-2"])),
        linted("level1/20_LeakyReLU.py"),
        linted("level1/1_New.py", ("constant_passes", "degenerate", ["1e-2"])),
        linted("level1/2_Weak.py", ("repeated_operator", "weak", [])),
    )
    assert "| identity | derived | 2 | 1 | L1/20 |" in text
    assert "L1/20 (identity)" in text
    assert "1 tasks with a reason" in text
    assert "- level1/1_New.py: constant_passes (1e-2)" in text
    assert "| 1 | 4 | 1 | 1 | 2 | 1 | 1 |" in text
    assert "| level1/2_Weak | *repeated_operator* |  |" in text
    assert "NVIDIA H200" in text


def test_tasks_that_could_not_be_linted_are_named(page):
    error = {"record": "lint_error", "task": "level2/80_X.py", "kind": "crash", "message": "died"}
    text = page(error, linted("level2/9_Y.py", scaled=True))
    assert "Not linted: L2/80." in text
    assert "| constant output | derived | 2 | 0 | L2/9, L2/80 |" in text
    assert "scaled down" in text


def test_a_later_record_replaces_an_earlier_one(page):
    error = {"record": "lint_error", "task": "level2/80_X.py", "kind": "crash", "message": "died"}
    text = page(error, linted("level2/80_X.py", ("constant_output", "degenerate", ["strict"])))
    assert "| constant output | derived | 1 | 1 | - |" in text


def test_a_file_without_tasks_is_refused(page):
    with pytest.raises(UsageError, match="no run of the linter"):
        page()


def test_the_published_page_is_what_its_records_give(tmp_path):
    root = Path(__file__).parents[3]
    write_page(root / "results" / "lint-kernelbench.jsonl", tmp_path / "page.md")
    published = (root / "docs" / "lint-kernelbench.md").read_text()
    assert (tmp_path / "page.md").read_text() == published
