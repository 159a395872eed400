"""No cheat is accepted, no honest kernel refused: judged in full, in Triton's interpreter."""

import json

import pytest

from corpus import entries
from kernelwright.core.verdict import Verdict
from kernelwright.verify.api import verify

CHEATS, HONEST = (
    [entry for entry in entries(kind) if not entry.needs_gpu] for kind in ("cheats", "honest")
)


@pytest.mark.parametrize("entry", CHEATS, ids=lambda entry: entry.path.stem)
def test_a_cheat_is_rejected_by_its_code(entry):
    verdict = verify(entry.task, entry.path, device="cpu", mode=entry.mode)
    assert verdict.code.value == entry.facts["code"], verdict.message
    assert verdict.message


@pytest.mark.parametrize("entry", HONEST, ids=lambda entry: entry.path.stem)
def test_an_honest_kernel_is_accepted(entry):
    verdict = verify(entry.task, entry.path, device="cpu", mode=entry.mode)
    assert verdict.accepted, f"{verdict.code}: {verdict.message}"
    assert len(verdict.cases) >= 2
    assert verdict.launches
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict


def test_every_cheat_says_which_exploit_it_is_and_how_it_works():
    for entry in entries("cheats"):
        assert {"exploit", "how", "task", "code"} <= entry.facts.keys(), entry.path.name


def test_at_least_forty_odd_but_honest_kernels_are_on_file():
    assert len(entries("honest")) >= 40
    assert len({entry.facts["what"] for entry in entries("honest")}) == len(entries("honest"))
    assert all(entry.task.is_file() for entry in entries("honest"))
