"""A search begins where an earlier one ended: fragments in the library are not tuned again."""

import json
from dataclasses import replace

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Code, Stage, Verdict
from kernelwright.library.store import Library
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.fragment import extract
from kernelwright.programs.text import to_text
from kernelwright.search import search as search_module
from kernelwright.search import shelf as shelf_module
from kernelwright.search.optimize import judges, optimize_target
from kernelwright.search.shelf import Shelf, open_library
from kernelwright.search.sources import Sources, Writers
from kernelwright.search.steps import Steps
from kernelwright.search.tune import Tuned
from kernelwright.verify.compare import Precision
from kernelwright.verify.judging import Rules
from kernelwright.verify.task import CPU

PROGRAM = """
import torch

def get_inputs():
    return [torch.randn(64, 96), torch.randn(96)]

def fused_operator(x0, x1):
    t0 = torch.add(x0, x1)
    t1 = torch.relu(t0)
    return [t1]
"""
RULES = Rules(CPU, Precision.STRICT, "hybrid")
VERDICT = Verdict(
    accepted=True,
    stage=Stage.ACCEPTED,
    code=Code.OK,
    message="",
    mode="hybrid",
    precision="strict",
    device="cpu",
)


@pytest.fixture
def fragment():
    builder = Builder()
    [y] = builder.call("relu", input=builder.input(TensorType((4, 3))))
    program = builder.program(builder.call("exp", input=y))
    return extract(program, {0, 1})


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "library"


def shelf(folder, said=None):
    steps = Steps(lambda step: said.append(step.subject)) if said is not None else Steps()
    return Shelf(Library(folder), RULES, Sources("teacher"), steps)


def kept(folder, fragment, *, wins=True, limit=4, **changes):
    """A fragment that an earlier search kept."""
    tuned = Tuned(
        fragment=fragment,
        family="pointwise",
        candidates=(Candidate(source="# slow"), Candidate(source="# fast")),
        verdicts=(VERDICT, replace(VERDICT, message="the second")),
        winner=1 if wins else None,
        reason="because",
        saving=3.0 if wins else 0.0,
    )
    text = to_text(fragment.program)
    where = {"is_whole": False, "limit": limit}
    shelf(folder).keep(replace(tuned, **changes), text, Writers.TEACHER, **where)
    return tuned


def known(folder, fragment, *, limit=4, is_whole=False, writers=Writers.TEACHER):
    text = to_text(fragment.program)
    return shelf(folder).known(fragment, text, writers, is_whole=is_whole, limit=limit)


def test_a_winner_is_known_with_its_verdict(folder, fragment):
    kept(folder, fragment)
    found = known(folder, fragment, limit=99)
    assert (found.best.source, found.verdicts[0].message) == ("# fast", "the second")
    assert (found.reason, found.saving, found.winner) == ("because", 3.0, 0)


def test_that_pytorch_stays_counts_only_after_as_many_candidates(folder, fragment):
    kept(folder, fragment, wins=False, limit=4)
    assert known(folder, fragment, limit=4).winner is None
    assert known(folder, fragment, limit=5) is None


def test_another_question_has_no_answer(folder, fragment):
    kept(folder, fragment)
    assert known(folder, fragment, is_whole=True) is None
    assert known(folder, fragment, writers=Writers.MODELS) is None


@pytest.mark.parametrize("changes", [{"num_cut_off": 1}, {"verdicts": (), "candidates": ()}])
def test_what_the_deadline_decided_is_not_kept(folder, fragment, changes):
    kept(folder, fragment, wins=False, **changes)
    assert known(folder, fragment) is None


def test_another_judge_or_teacher_has_the_kernel_as_its_first_candidate(
    folder, fragment, monkeypatch
):
    kept(folder, fragment)
    monkeypatch.setattr(shelf_module, "_versions", lambda: "later")
    assert known(folder, fragment) is None
    text = to_text(fragment.program)
    [similar] = shelf(folder).similar(text, Writers.TEACHER, is_trusting=True)
    assert similar.source == "# fast"


def test_a_library_that_fails_is_left_alone(folder, fragment, monkeypatch):
    said = []
    broken = shelf(folder, said)

    def fails(*_):
        raise UsageError("the disk is full")

    for name in ("get", "put", "similar"):
        monkeypatch.setattr(Library, name, fails)
    text = to_text(fragment.program)
    where = {"is_whole": False, "limit": 4}
    assert broken.known(fragment, text, Writers.TEACHER, **where) is None
    assert broken.similar(text, Writers.TEACHER, is_trusting=True) == ()
    assert said == ["the disk is full"], "said once"


def test_the_folder_comes_from_the_call_or_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("KERNELWRIGHT_LIBRARY", raising=False)
    assert open_library(None, Steps()) is None
    monkeypatch.setenv("KERNELWRIGHT_LIBRARY", str(tmp_path / "a"))
    assert open_library(None, Steps()).folder == tmp_path / "a"
    assert open_library(tmp_path / "b", Steps()).folder == tmp_path / "b"


def test_with_kernels_of_others_no_candidate_is_trusted(folder, fragment, tmp_path):
    kept(folder, fragment)
    with judges(Sources("teacher"), 10.0, Library(folder), device="cpu") as (judge, _):
        assert judge.trusted
    Library(folder).export_to(tmp_path / "all.jsonl")
    other = Library(tmp_path / "other")
    other.import_from(tmp_path / "all.jsonl")
    with judges(Sources("teacher"), 10.0, other, device="cpu") as (judge, _):
        assert not judge.trusted


def test_a_second_search_tunes_nothing_and_delivers_the_same(folder, tmp_path, monkeypatch):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    options = {"device": "cpu", "budget_s": 240.0, "policy": "teacher"}
    first = optimize_target(str(path), out=tmp_path / "1", library=Library(folder), **options)
    assert (first["form"], first["num_from_library"]) == ("kernels", 0)

    def tunes(*_, **__):
        raise AssertionError("tuned again")

    monkeypatch.setattr(search_module, "tune", tunes)
    second = optimize_target(str(path), out=tmp_path / "2", library=Library(folder), **options)
    assert (second["form"], second["num_from_library"]) == ("kernels", 1)
    assert second["verdict"]["accepted"], "the whole is judged again"
    texts = [(tmp_path / number / "optimized.py").read_text() for number in "12"]
    assert texts[0] == texts[1]
    lines = (tmp_path / "2" / "records.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["num_from_library"] == 1
