"""Computations that stand in for candidates: right ones pass the judge's numbers, wrong ones do
not."""

import json

import pytest
import torch

from kernelwright.programs.text import parse
from kernelwright.verify.tasks.cases import Cases
from kernelwright.verify.tasks.program_task import program_task
from tools import stand_ins

TEXT = """
def get_inputs():
    x0 = torch.randn((48, 96))
    x1 = torch.randn((96, 40))
    return [x0, x1]


def fused_operator(x0, x1):
    t0 = torch.mm(x0, x1)
    t1 = torch.softmax(t0, dim=1)
    t2 = torch.gt(t1, 0.02)
    return [RETURNED]
"""


def records(returned):
    task = program_task(parse(TEXT.replace("RETURNED", returned)), name="product")
    cases = Cases({"base": task}, stand_ins.RULES, seed=5)
    names = [*stand_ins.RIGHT, *stand_ins.WRONG]
    return {name: stand_ins.judged(task, name, cases, 1) for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("returned", ["t2", "t1, t2"])
def test_right_stand_ins_pass_and_wrong_ones_do_not(returned):
    found = records(returned)
    assert {name for name, each in found.items() if not each["refused"]} == set(stand_ins.RIGHT)
    assert all(found[name]["is_right"] == (name in stand_ins.RIGHT) for name in found)
    assert found["a stale tile"]["call"] == "softmax"


@pytest.mark.parametrize(
    ("threshold", "returned", "idle"),
    [("0.5", "t2", []), ("-2.0", "t0, t2", ["t1"]), ("0.5", "t0", ["t1", "t2"])],
    ids=["all matter", "one is never looked at", "two are never read"],
)
def test_a_call_is_idle_where_nothing_depends_on_what_it_makes(threshold, returned, idle):
    text = TEXT.replace("torch.softmax(t0, dim=1)", "torch.sign(t0)").replace("0.02", threshold)
    program = parse(text.replace("RETURNED", returned))
    cases = Cases({"base": program_task(program)}, stand_ins.RULES, seed=5)
    assert stand_ins.idle_calls(cases) == idle


def test_the_command_writes_a_record_of_each(monkeypatch, tmp_path):
    drawn = {"text": TEXT.replace("RETURNED", "t1"), "drawn": {"group": "level 5"}}
    other = {**drawn, "drawn": {"group": "level 20"}}
    monkeypatch.setattr(stand_ins, "benchmark_programs", lambda: [drawn, other])
    stand_ins.main(tmp_path / "out.jsonl", [5])
    run, ignored, *rest = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert run["record"] == "run"
    assert (ignored["program"], ignored["calls"]) == ("synthetic-v1/L5/1", ["t2"])
    wrong = [name for name in stand_ins.WRONG if name != "one value"]  # none is a whole number
    assert [each["stand_in"] for each in rest] == [*stand_ins.RIGHT, *wrong]


def test_a_program_that_cannot_be_run_is_recorded(monkeypatch, tmp_path):
    drawn = {"text": TEXT.replace("RETURNED", "t1"), "drawn": {"group": "level 5"}}
    monkeypatch.setattr(stand_ins, "benchmark_programs", lambda: [drawn])
    monkeypatch.setattr(stand_ins, "ignored_calls", lambda _: torch.zeros(2) @ torch.zeros(3))
    stand_ins.main(tmp_path / "out.jsonl", [5])
    _, left_out = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert (left_out["record"], left_out["program"]) == ("left_out", "synthetic-v1/L5/1")
    assert "inconsistent tensor size" in left_out["why"]
