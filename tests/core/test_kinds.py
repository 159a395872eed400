"""Published records are of the kinds that `core.kinds` declares, and hold no other fields."""

import ast
import json
from pathlib import Path

import pytest
from record_kinds import WORDS, fault_of, faults_in

from kernelwright.core import record
from kernelwright.core.kinds.suites import CaseLine

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PUBLISHED = sorted([*RESULTS.glob("*.jsonl"), *RESULTS.glob("embedded*/*.jsonl")])


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.name)
def test_published_records_are_of_declared_kinds(path):
    assert faults_in(path) == set()


@pytest.mark.slow
def test_every_kind_that_the_package_writes_is_declared():
    """Dictionaries with a literal `record`; kinds under other names are seen in runs."""
    written = {
        value.value
        for path in (ROOT / "src" / "kernelwright").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == "record"
        if isinstance(value, ast.Constant) and value.value.isidentifier()  # not a table of Python's
    }
    assert len(written) > 20
    assert written - WORDS.keys() == set()


def test_unknown_fields_and_wrong_types_are_faults_at_any_depth():
    line = {"record": "benchmark_case", "level": "L1", "id": 1}
    assert fault_of(line, CaseLine) == ""
    assert fault_of(line | {"levle": "L1"}, CaseLine) == "unknown fields ['levle']"
    assert fault_of(line | {"contest": {"rihgt": True}}, CaseLine) == (
        "unknown fields ['contest.rihgt']"
    )
    assert "Expected `int`" in fault_of(line | {"id": "1"}, CaseLine)


def test_lines_of_a_kind_are_told_from_others(tmp_path):
    path = tmp_path / "records.jsonl"
    lines = [{"record": "run"}, {"record": "benchmark_case", "id": 3}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [case["id"] for case in record.of_kind(record.read(path), CaseLine)] == [3]
    assert record.as_kind(lines[0], CaseLine) is None
