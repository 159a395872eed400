"""Some of what a recycled run accepted is judged again, fresh, and the fresh verdict holds."""

from dataclasses import replace

from test_many import RECIPE, Fake, job, records, verdict

from kernelwright.core.verdict import Code, Timing
from kernelwright.verify.many import judge_many
from kernelwright.verify.many_audit import FOLDER, audit_many, chosen
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


def test_the_fresh_verdict_holds_for_all_of_the_same_text(tmp_path):
    jobs = [job(str(n), "same source") for n in range(3)]
    judge_many(jobs, RECYCLED, tmp_path, Fake({"same source": lambda _: {"verdict": ACCEPTED}}))
    fresh = Fake({"same source": lambda _: {"verdict": WRONG}})
    assert audit_many(jobs, RECYCLED, tmp_path, lambda _: fresh)["differ"] == ["0", "1", "2"]
    settled = RunFolder(tmp_path, RECYCLED).by_id.values()
    assert [each["verdict"]["code"] for each in settled] == ["wrong_values"] * 3


def test_nothing_accepted_is_nothing_to_audit(tmp_path):
    jobs = [job("a", "bad")]
    judge_many(jobs, RECYCLED, tmp_path, Fake({"bad": lambda _: {"verdict": WRONG}}))
    assert audit_many(jobs, RECYCLED, tmp_path, lambda _: Fake()) == {"audited": 0, "differ": []}


def timed(candidate_ms):
    def timing(ms):
        return Timing(median_ms=ms, low_ms=ms, high_ms=ms, num_samples=9)

    return verdict(times={"reference": timing(1.0), "candidate": timing(candidate_ms)})


REJECTED = verdict(Code.TIMEOUT)


def test_a_share_of_the_accepted_is_chosen_and_never_the_rejected():
    verdicts = [verdict(), REJECTED] * 100
    found = chosen(verdicts, ["ref"] * 200, share=0.1)
    assert len(found) == 10
    assert all(verdicts[number].accepted for number in found)
    drawn = {tuple(chosen(verdicts, ["ref"] * 200, share=0.1)) for _ in range(5)}
    assert len(drawn) > 1


def test_one_is_always_chosen_and_nothing_of_nothing():
    assert len(chosen([verdict()] * 3, ["ref"] * 3)) == 1
    assert chosen([REJECTED], ["ref"]) == []
    assert chosen([], []) == []


def test_the_fastest_of_each_reference_is_chosen():
    verdicts = [timed(2.0), timed(0.5), timed(1.0), timed(3.0), REJECTED]
    assert chosen(verdicts, ["a", "a", "a", "b", "b"], share=0.0) == [1, 3]
