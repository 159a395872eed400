"""Some of what a recycled run accepted is judged again, fresh, and the fresh verdict holds."""

from dataclasses import replace

from test_many import RECIPE, Fake, job, records, verdict

from kernelwright.core.verdict import Code
from kernelwright.verify.many import judge_many
from kernelwright.verify.many_audit import FOLDER, audit_many
from kernelwright.verify.run_folder import RunFolder

RECYCLED = replace(RECIPE, grade="recycled")
ACCEPTED = verdict(grade="recycled").to_json()
WRONG = verdict(Code.WRONG_VALUES).to_json()


def judged(tmp_path, num=10):
    jobs = [job(str(n), f"source {n}") for n in range(num)]
    find = {each.candidate: lambda _: {"verdict": ACCEPTED} for each in jobs}
    judge_many(jobs, RECYCLED, tmp_path, Fake(find))
    return jobs


def test_a_share_is_judged_again_in_a_run_of_its_own(tmp_path):
    jobs = judged(tmp_path)
    found = audit_many(jobs, RECYCLED, tmp_path, lambda _: Fake())
    assert found == {"audited": 1, "differ": []}
    assert len(records(tmp_path, "verdict")) == 10
    assert len(records(tmp_path / FOLDER, "verdict")) == 1


def test_the_fresh_judges_are_of_the_grade_fresh_and_take_no_times(tmp_path):
    recipes = []
    audit_many(judged(tmp_path), RECYCLED, tmp_path, lambda r: recipes.append(r) or Fake())
    assert [(r.grade, r.timing) for r in recipes] == [("fresh", False)]


def test_where_the_grades_differ_the_fresh_verdict_holds(tmp_path):
    jobs = judged(tmp_path)
    find = {each.candidate: lambda _: {"verdict": WRONG} for each in jobs}
    (differs,) = audit_many(jobs, RECYCLED, tmp_path, lambda _: Fake(find))["differ"]
    settled = RunFolder(tmp_path, RECYCLED).by_id[differs]
    assert settled["audited"]
    assert settled["verdict"]["code"] == "wrong_values"


def test_nothing_accepted_is_nothing_to_audit(tmp_path):
    jobs = [job("a", "bad")]
    judge_many(jobs, RECYCLED, tmp_path, Fake({"bad": lambda _: {"verdict": WRONG}}))
    assert audit_many(jobs, RECYCLED, tmp_path, lambda _: Fake()) == {"audited": 0, "differ": []}
