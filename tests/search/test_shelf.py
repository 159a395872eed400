"""A search begins where an earlier one ended: fragments in the library are not tuned again."""

import sys
import time
from dataclasses import replace

import pytest
from test_settle import verdict

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Code, Precision, Stage
from kernelwright.library.entry import FRAGMENT, MODULE, PROGRAM
from kernelwright.library.store import Library
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.fragments.fragment import extract
from kernelwright.programs.text import to_text
from kernelwright.report.run import read_run
from kernelwright.search import optimize as optimize_module
from kernelwright.search import search as search_module
from kernelwright.search import shelf as shelf_module
from kernelwright.search.optimize import judges, optimize_target
from kernelwright.search.options import SearchOptions
from kernelwright.search.shelf import Shelf, open_library
from kernelwright.search.sources import Sources
from kernelwright.search.telling.steps import SearchSteps
from kernelwright.search.tune import Tuned
from kernelwright.verify.judging import JudgeOptions, Rules
from kernelwright.verify.tasks.task import CPU

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
VERDICT = verdict(1.0)


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
    steps = (
        SearchSteps(lambda step: said.append(step.subject)) if said is not None else SearchSteps()
    )
    return Shelf(Library(folder), RULES, Sources("teacher"), steps)


def kept(folder, fragment, *, wins=True, limit=4, is_trusting=True, **changes):
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
    where = {"scope": FRAGMENT, "limit": limit, "is_trusting": is_trusting}
    shelf(folder).keep(replace(tuned, **changes), text, **where)
    return tuned


def known(folder, fragment, *, limit=4, scope=FRAGMENT):
    text = to_text(fragment.program)
    return shelf(folder).known(fragment, text, scope=scope, limit=limit)


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
    [similar] = shelf(folder).similar(text, is_trusting=True)
    assert similar.source == "# fast"


@pytest.mark.parametrize("name", ["get", "put", "similar", "has_foreign"])
@pytest.mark.parametrize("error", [UsageError("the disk is full"), OSError("the disk is full")])
def test_a_library_that_fails_is_left_alone(folder, fragment, monkeypatch, name, error):
    said = []
    broken = shelf(folder, said)

    def fails(*_, **__):
        raise error

    monkeypatch.setattr(Library, name, fails)
    text = to_text(fragment.program)
    tuned = Tuned(
        fragment=fragment, family="", candidates=(Candidate(source=""),), verdicts=(VERDICT,),
        winner=0, reason="",
    )  # fmt: skip
    for _ in range(2):
        assert broken.known(fragment, text, scope=FRAGMENT, limit=4) is None
        assert list(broken.similar(text, is_trusting=True)) == []
        assert not broken.has_foreign()
        broken.keep(tuned, text, scope=PROGRAM, limit=4, is_trusting=True)
    assert said == ["the disk is full"], "said once"
    assert not broken.is_used


@pytest.mark.parametrize("code", [Code.OUT_OF_MEMORY, Code.TIMEOUT, Code.CRASHED])
def test_what_other_processes_may_have_caused_is_not_kept(folder, fragment, code):
    lost = replace(VERDICT, accepted=False, stage=Stage.RUN, code=code)
    kept(folder, fragment, wins=False, verdicts=(VERDICT, lost))
    assert known(folder, fragment) is None
    kept(folder, fragment, verdicts=(VERDICT, VERDICT))
    assert known(folder, fragment) is not None


def test_the_best_that_lost_is_known_with_its_verdict(folder, fragment):
    wrong = replace(VERDICT, accepted=False, stage=Stage.COMPARE, code=Code.WRONG_VALUES)
    kept(folder, fragment, wins=False, verdicts=(wrong, VERDICT))
    found = known(folder, fragment)
    assert (found.winner, found.candidates[0].source) == (None, "# fast")
    assert found.verdicts[0].accepted


def test_a_kernel_that_was_judged_beside_others_is_not_trusted_later(folder, fragment):
    kept(folder, fragment, is_trusting=False)
    assert shelf(folder).has_foreign()
    assert known(folder, fragment).best.source == "# fast", "it was judged here"


def test_the_folder_comes_from_the_call_or_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("KERNELWRIGHT_LIBRARY", raising=False)
    assert open_library(None, SearchSteps()) is None
    monkeypatch.setenv("KERNELWRIGHT_LIBRARY", str(tmp_path / "a"))
    assert open_library(None, SearchSteps()).folder == tmp_path / "a"
    assert open_library(tmp_path / "b", SearchSteps()).folder == tmp_path / "b"


@pytest.mark.parametrize("policy", ["teacher", "teacher,embedded"])
@pytest.mark.parametrize("has_foreign", [False, True])
def test_with_kernels_of_others_the_teacher_s_candidates_are_not_trusted(policy, has_foreign):
    options = JudgeOptions(device="cpu")
    with judges(Sources(policy), options, has_foreign=has_foreign) as both:
        assert both[1].trusted == (not has_foreign)
        assert both[0].trusted == (policy == "teacher" and not has_foreign)


@pytest.fixture
def searched(folder, tmp_path):
    """Searches a program with the library; takes changes of the options."""
    path = tmp_path / "program.py"
    path.write_text(SOURCE)
    options = SearchOptions(device="cpu", budget_s=240.0, policy="teacher")

    def search(name="out", **changes):
        changed = replace(options, **changes)
        return optimize_target(str(path), changed, out=tmp_path / name, library=Library(folder))

    return search


def refuses(*_, **__):
    raise AssertionError("searched again")


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_larger_budget_searches_again(searched):
    searched(budget_s=239.5)
    assert "searched_s" in searched(budget_s=239.5)
    assert "searched_s" in searched(budget_s=60.0)
    again = searched(budget_s=300.0)
    assert "searched_s" not in again
    assert again["num_from_library"] == 1, "its fragments are not tuned again"


FACTORY = """
import torch
from numbers_of_{name} import NUMBERS

class Adds(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x + torch.tensor(NUMBERS))

def adds():
    return Adds().eval(), (torch.randn(8, 4),)
"""


@pytest.mark.slow
def test_constants_of_another_file_make_another_module(tmp_path, monkeypatch, folder):
    """The text of the program holds no values."""
    monkeypatch.syspath_prepend(str(tmp_path))
    options = SearchOptions(device="cpu", budget_s=120.0, policy="teacher")
    texts = []
    for name, numbers in (("one", [1.0, 2.0, 3.0, 4.0]), ("two", [4.0, 3.0, 2.0, 9.0])):
        (tmp_path / f"numbers_of_{name}.py").write_text(f"NUMBERS = {numbers}\n")
        (tmp_path / f"{name}.py").write_text(FACTORY.format(name=name))
        (tmp_path / "factory_of_adds.py").write_text(f"from {name} import adds\n")
        sys.modules.pop("factory_of_adds", None)
        result = optimize_target(
            "factory_of_adds:adds", options, out=tmp_path / f"out {name}", library=Library(folder)
        )
        assert "searched_s" not in result
        texts.append((tmp_path / f"out {name}" / "optimized.py").read_text())
    assert texts[0] != texts[1]


def test_an_interrupted_search_is_not_kept(searched, folder, monkeypatch):
    original = optimize_module.search_target

    def interrupted(*args, **kwargs):
        outcome = original(*args, **kwargs)
        outcome.result["interrupted_by"] = "SIGINT"
        return outcome

    monkeypatch.setattr(optimize_module, "search_target", interrupted)
    searched()
    assert {s.entry.key.scope for s in Library(folder).stored()} <= {FRAGMENT, PROGRAM}


@pytest.mark.slow
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
