"""A search begins where an earlier one ended: fragments in the library are not tuned again."""

import time
from dataclasses import replace

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Code, Stage, Verdict
from kernelwright.library.entry import FRAGMENT, MODULE, PROGRAM
from kernelwright.library.store import Library
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.fragment import extract
from kernelwright.programs.text import to_text
from kernelwright.report.run import read_run
from kernelwright.search import optimize as optimize_module
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

SOURCE = """
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
    where = {"scope": FRAGMENT, "limit": limit}
    shelf(folder).keep(replace(tuned, **changes), text, Writers.TEACHER, **where)
    return tuned


def known(folder, fragment, *, limit=4, scope=FRAGMENT, writers=Writers.TEACHER):
    text = to_text(fragment.program)
    return shelf(folder).known(fragment, text, writers, scope=scope, limit=limit)


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
    assert known(folder, fragment, scope=PROGRAM) is None
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
    where = {"scope": FRAGMENT, "limit": 4}
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


@pytest.fixture
def searched(folder, tmp_path):
    """Searches a program with the library; takes changes of the options."""
    path = tmp_path / "program.py"
    path.write_text(SOURCE)
    options = {"device": "cpu", "budget_s": 240.0, "policy": "teacher", "library": Library(folder)}

    def search(name="out", **changes):
        return optimize_target(str(path), out=tmp_path / name, **(options | changes))

    return search


def refuses(*_, **__):
    raise AssertionError("searched again")


def test_a_module_is_searched_once(searched, folder, tmp_path, monkeypatch):
    first = searched("1")
    monkeypatch.setattr(optimize_module, "search_target", refuses)
    second = searched("2")
    assert first["form"] == second["form"] == "kernels"
    assert second["searched_s"] <= time.time()
    assert second["budget"]["spent_s"] < first["budget"]["spent_s"]
    one, two = ((tmp_path / name / "optimized.py").read_text() for name in "12")
    assert one == two
    assert read_run(tmp_path / "2" / "records.jsonl").result["searched_s"] == second["searched_s"]
    monkeypatch.undo()
    (tmp_path / "program.py").write_text(SOURCE.replace("96", "32"))
    assert "searched_s" not in searched("3"), "another size is another module"


def test_a_larger_budget_searches_again_where_the_deadline_had_decided(searched, folder):
    searched()
    library = Library(folder)
    [module] = [s.entry for s in library.stored() if s.entry.key.scope == MODULE]
    assert module.limit == 240
    *others, last = module.records
    outcome = last["outcome"] | {"left_out": ["The budget of 240 s ended before one was tried."]}
    library.put(replace(module, records=(*others, last | {"outcome": outcome})))
    assert "searched_s" in searched(budget_s=240.0)
    again = searched(budget_s=300.0)
    assert "searched_s" not in again
    assert again["num_from_library"] == 1, "its fragments are not tuned again"


def test_an_interrupted_search_is_not_kept(searched, folder, monkeypatch):
    original = optimize_module.search_target

    def interrupted(*args, **kwargs):
        outcome = original(*args, **kwargs)
        outcome.result["interrupted_by"] = "SIGINT"
        return outcome

    monkeypatch.setattr(optimize_module, "search_target", interrupted)
    searched()
    assert {s.entry.key.scope for s in Library(folder).stored()} <= {FRAGMENT, PROGRAM}


def test_fragments_that_are_known_are_not_tuned_and_the_whole_is_judged_again(
    searched, folder, monkeypatch
):
    searched()
    library = Library(folder)
    library.remove([s.digest for s in library.stored() if s.entry.key.scope == MODULE])
    monkeypatch.setattr(search_module, "tune", refuses)
    second = searched()
    assert (second["form"], second["num_from_library"]) == ("kernels", 1)
    assert second["verdict"]["accepted"]
