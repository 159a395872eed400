"""Programs to be examined on, from the frozen set and from files."""

from collections import Counter

import pytest
from asked import problem

from kernelwright.bench.problems import ProblemSelection, problems_of
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.programs.record import program_record
from kernelwright.programs.text import to_text
from kernelwright.synth.benchmark import V1

CALLS = ["relu", "exp", "tanh", "sigmoid", "sin", "cos"]


def programs(tmp_path, name="drawn"):
    path = tmp_path / f"{name}.jsonl"
    made = [problem(f"torch.{call}(x0)").program for call in CALLS]
    record.append(path, [{"record": "synth"}])
    record.append(path, ({"record": "program", **program_record(each)} for each in made))
    return path


def pairs(tmp_path):
    path = tmp_path / "pairs.jsonl"
    for call in CALLS:
        text = to_text(problem(f"torch.{call}(x0)").program)
        record.append(path, [{"program": text, "level": 1}] * 2)
    return path


def test_the_frozen_set_has_its_levels_and_two_programs_an_operator():
    found = problems_of([], ProblemSelection(limit=3))
    assert {each.suite for each in found} == {V1}
    counts = Counter(each.level for each in found)
    assert counts == dict.fromkeys(("L1", "L2", "L5", "L20", "operators"), 3)
    assert {len(each.program.calls) for each in found if each.level == "L20"} == {20}
    assert len({each.name for each in found}) == len(found)


def test_a_limit_takes_the_same_programs_every_time_and_a_larger_one_adds_to_them():
    few, more = (problems_of([], ProblemSelection(levels=["L5"], limit=n)) for n in (4, 9))
    assert few == problems_of([], ProblemSelection(levels=["L5"], limit=4))
    assert set(few) < set(more)
    assert [each.id for each in few] != [1, 2, 3, 4]


def test_a_file_of_programs_is_a_suite(tmp_path):
    found = problems_of([programs(tmp_path)], ProblemSelection())
    assert [(each.name, *each.operators) for each in found] == [
        (f"drawn/L1/{n}", call) for n, call in enumerate(CALLS, 1)
    ]


def test_pairs_give_every_program_once(tmp_path):
    found = problems_of([pairs(tmp_path)], ProblemSelection())
    assert [each.operators for each in found] == [[call] for call in CALLS]


def test_two_files_are_two_suites(tmp_path):
    files = [programs(tmp_path, "one"), programs(tmp_path, "other")]
    assert {each.suite for each in problems_of(files, ProblemSelection(limit=1))} == {
        "one",
        "other",
    }


def test_files_that_cannot_be_used_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        problems_of([tmp_path / "gone.jsonl"], ProblemSelection())
    with pytest.raises(UsageError, match="no programs of level L20"):
        problems_of([programs(tmp_path)], ProblemSelection(levels=["L20"]))
    with pytest.raises(UsageError, match="one suite"):
        problems_of([tmp_path / "x" / "a.jsonl", tmp_path / "y" / "a.jsonl"], ProblemSelection())
    (tmp_path / "bad.jsonl").write_text('{"text": "import os\\n", "level": 1}\n')
    with pytest.raises(UsageError, match=r"bad\.jsonl:1: not a program"):
        problems_of([tmp_path / "bad.jsonl"], ProblemSelection())
