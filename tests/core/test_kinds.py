"""Published records are of the kinds that `core.kinds` declares, and hold no other fields."""

import json
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from kernelwright.core import record
from kernelwright.core.kinds.suites import CaseLine

RESULTS = Path(__file__).parents[2] / "results"
MODULES = ("searching", "suites", "judging", "training", "data")
KINDS = {
    name: kind
    for module in MODULES
    for name, kind in vars(import_module(f"kernelwright.core.kinds.{module}")).items()
    if name.endswith("Line")
}
COMMANDS = ("optimize", "verify-many", "eval", "lint", "data")
"""First words of commands whose runs are declared. Tools of the checkout write their own runs."""


def by_word():
    """Word in the field `record` -> the kinds that have the word."""
    kinds = {}
    for name, kind in KINDS.items():
        (word,) = kind.__annotations__["record"].__args__
        kinds.setdefault(word, []).append(name)
    return kinds


WORDS = by_word()


def fault_of(line, kind):
    """What is wrong with a line of a kind; "" where nothing is."""
    unknown = sorted(line.keys() - kind.__annotations__.keys())
    if unknown:
        return f"unknown fields {unknown}"
    try:
        msgspec.convert(line, kind)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def faults_of(line):
    """The faults of a line under each kind of its word; none where some kind fits."""
    faults = [fault_of(line, KINDS[name]) for name in WORDS[line["record"]]]
    return [] if "" in faults else faults


def is_declared(line):
    if line.get("record") == "run":
        return line.get("command", "").partition(" ")[0] in COMMANDS
    return line.get("record") in WORDS


def published():
    files = [*RESULTS.glob("*.jsonl"), *RESULTS.glob("embedded/*.jsonl")]
    return [pytest.param(path, id=path.name) for path in sorted(files)]


@pytest.mark.parametrize("path", published())
def test_published_records_are_of_declared_kinds(path):
    declared = [line for line in record.read(path) if is_declared(line)]
    faults = {f"{line['record']}: {fault}" for line in declared for fault in faults_of(line)}
    assert not faults


def test_an_unknown_field_and_a_wrong_type_are_faults():
    line = {"record": "benchmark_case", "level": "L1", "id": 1}
    assert fault_of(line, CaseLine) == ""
    assert fault_of(line | {"levle": "L1"}, CaseLine) == "unknown fields ['levle']"
    assert "Expected `int`" in fault_of(line | {"id": "1"}, CaseLine)


def test_lines_of_a_kind_are_told_from_others(tmp_path):
    path = tmp_path / "records.jsonl"
    lines = [{"record": "run"}, {"record": "benchmark_case", "id": 3}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [case["id"] for case in record.of_kind(record.read(path), CaseLine)] == [3]
