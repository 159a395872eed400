"""No honest kernel is refused, in Triton's interpreter.

Twins of cheats and unusual designs are judged `fresh`, the others `recycled`, which is quicker;
`kernelwright eval corpus` judges all of them `fresh`.
"""

import json
from contextlib import ExitStack

import pytest

from corpus import entries
from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Verdict
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.load import load_task

HONEST = [entry for entry in entries("honest") if not entry.needs_gpu]


@pytest.fixture(scope="module")
def judge_of():
    """The judge of a grade, a mode and a contract, the same in all tests."""
    judges = {}
    with ExitStack() as stack:

        def judge(grade, mode, contract):
            key = grade, mode, contract
            if key not in judges:
                new = Judge(JudgeOptions(device="cpu", mode=mode, contract=contract, grade=grade))
                judges[key] = stack.enter_context(new)
            return judges[key]

        yield judge


@pytest.mark.slow
@pytest.mark.parametrize("entry", HONEST, ids=lambda entry: entry.name)
def test_an_honest_kernel_is_accepted(entry, judge_of):
    grade = "fresh" if "/" in entry.name else "recycled"
    judge = judge_of(grade, entry.mode, entry.contract)
    candidate = Candidate(source=entry.path.read_text(), origin="file")
    verdict = judge.verify(load_task(entry.task, judge.rules.device), candidate)
    assert verdict.accepted, f"{verdict.code}: {verdict.message}"
    assert verdict.grade == grade
    assert len(verdict.cases) >= 2
    assert verdict.launches
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict


def test_every_honest_kernel_says_what_is_unusual_and_names_a_task():
    honest = entries("honest")
    assert len(honest) >= 160
    assert len({entry.facts["what"] for entry in honest}) == len(honest)
    assert all(entry.task.is_file() for entry in honest)
