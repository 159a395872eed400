"""A policy examined as a whole, in the interpreter."""

from dataclasses import replace

import pytest
from asked import NO_KERNEL, Saying, asking, problem
from record_kinds import faults_in

from kernelwright.bench import synthetic
from kernelwright.bench.answers import UNANSWERED
from kernelwright.bench.synthetic import PolicyPlan, cases_of, examine, jobs_of
from kernelwright.core import record
from kernelwright.core.errors import InfraError
from kernelwright.verify.many.recipe import JudgeRecipe


@pytest.fixture(scope="module")
def recipe():
    return JudgeRecipe(device="cpu").resolved()


def cases(folder):
    head, *lines = record.read(folder / "records.jsonl")
    assert head["command"] == "eval synthetic"
    return lines


@pytest.mark.slow
def test_a_second_call_asks_and_judges_nothing_and_writes_the_same(tmp_path, recipe):
    programs = [problem("torch.relu(x0)", 1), problem("torch.sum(x0, dim=1)", 2)]
    plan = PolicyPlan(asking=asking(Saying(NO_KERNEL)), recipe=recipe, out=tmp_path, workers=1)
    summary = examine(plan, programs, print)
    assert (summary["judged_now"], summary["infra"], summary["usage"]) == (2, 0, 0)
    assert [case["operators"] for case in cases(tmp_path)] == [["relu"], ["sum"]]
    before = (tmp_path / "records.jsonl").read_bytes()
    assert faults_in(tmp_path / "records.jsonl") | faults_in(tmp_path / "answers.jsonl") == set()
    silent = Saying(error=AssertionError("asked"), lasts=0)
    again = examine(replace(plan, asking=asking(silent)), programs, print)
    assert again["judged_now"] == 0
    assert (tmp_path / "records.jsonl").read_bytes() == before


@pytest.mark.slow
def test_a_case_has_the_commit_of_its_verdict(tmp_path, recipe, monkeypatch):
    for number, commit in ((1, "a" * 12), (2, "b" * 12)):
        monkeypatch.setattr(record, "environment", lambda *_, commit=commit: {"commit": commit})
        programs = [problem("torch.relu(x0)", 1), problem("torch.sum(x0, dim=1)", 2)][:number]
        plan = PolicyPlan(asking=asking(Saying(NO_KERNEL)), recipe=recipe, out=tmp_path, workers=1)
        examine(plan, programs, print)
    assert [case["commit"] for case in cases(tmp_path)] == ["a" * 12, "b" * 12]


@pytest.mark.slow
def test_samples_are_cases_each_with_its_own_reason(tmp_path, recipe):
    policy = Saying(NO_KERNEL, "no", NO_KERNEL)
    asked = asking(policy, samples=4, temperature=1.0)
    plan = PolicyPlan(asking=asked, recipe=recipe, out=tmp_path, workers=1)
    examine(plan, [problem()], print)
    found = cases(tmp_path)
    assert [case["sample"] for case in found] == [0, 1, 2, 3]
    codes = ["no_kernel", "no_code", "no_kernel", UNANSWERED]
    assert [case["code"] for case in found] == codes
    assert [case["malformed"] for case in found] == [None, "no_code", None, UNANSWERED]
    assert {case["policy"] for case in found} == {"saying T=1"}
    assert found[0]["content"] == found[2]["content"]


def test_a_run_that_is_cut_short_has_the_cases_that_are_settled(tmp_path, recipe, monkeypatch):
    plan = PolicyPlan(asking=asking(Saying(NO_KERNEL, "no"), samples=2, temperature=1.0),
                recipe=recipe, out=tmp_path, workers=1)  # fmt: skip

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(synthetic, "judge_many", stop)
    with pytest.raises(KeyboardInterrupt):
        examine(plan, [problem()], print)
    assert next(record.read(tmp_path / "records.jsonl"))["left"] == 1
    assert [case["code"] for case in cases(tmp_path)] == ["no_code"]


@pytest.mark.slow
def test_an_answer_to_an_unusable_program_has_no_case_and_the_run_says_why(tmp_path, recipe):
    without_inputs = "def fused_operator(x0):\n    return [x0]\n"
    programs = [replace(problem(), text=without_inputs)]
    plan = PolicyPlan(asking=asking(Saying(NO_KERNEL)), recipe=recipe, out=tmp_path, workers=1)
    assert examine(plan, programs, print)["usage"] == 1
    head = next(record.read(tmp_path / "records.jsonl"))
    assert head["left"] == 1
    assert cases(tmp_path) == []
    [(answer, why)] = head["unusable"].items()
    assert answer == f"{programs[0].name}/0"
    assert "get_inputs" in why


def test_every_candidate_is_a_job_and_their_order_is_mixed():
    problems = [problem(number=n) for n in range(1, 30)]
    given = {p.name: [{"source": "x", "schedule": ""}] * 2 for p in problems}
    found = [job.id for job in jobs_of(problems, given)]
    assert sorted(found) == sorted(f"{p.name}/{n}" for p in problems for n in (0, 1))
    assert found != [f"{p.name}/{n}" for p in problems for n in (0, 1)]
    assert found == [job.id for job in jobs_of(problems[::-1], given)]


def test_an_answer_that_could_not_be_judged_is_no_case():
    given = {"set/L1/1": [{"source": "x", "schedule": ""}, {"malformed": "empty", "message": ""}]}
    found = list(cases_of(asking(Saying(), samples=2), [problem()], given, verdicts={}))
    assert [(case["sample"], case["code"]) for case in found] == [(1, "empty")]


def test_a_policy_that_fails_leaves_no_records(tmp_path, recipe):
    policy = Saying(error=InfraError("no connection"), lasts=0)
    plan = PolicyPlan(asking=asking(policy), recipe=recipe, out=tmp_path, workers=1)
    with pytest.raises(InfraError, match="no connection"):
        examine(plan, [problem()], print)
    assert [path.name for path in tmp_path.iterdir()] == ["answers.jsonl"]
