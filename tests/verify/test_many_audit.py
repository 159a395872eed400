"""Some of what a recycled run accepted is judged again, fresh, and the fresh verdict holds."""

from dataclasses import replace

from test_many import RECIPE, Fake, job, records
from verdicts import times, verdict

from kernelwright.core.verdict import Code
from kernelwright.verify.many.audit import FOLDER, audit_many, chosen
from kernelwright.verify.many.run import judge_many
from kernelwright.verify.many.run_folder import RunFolder

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


def test_a_rejection_that_fresh_does_not_confirm_is_put_right(tmp_path):
    jobs = [job("a", "bad")]
    rejected = {"verdict": verdict(Code.WRONG_VALUES, grade="recycled").to_json()}
    judge_many(jobs, RECYCLED, tmp_path, Fake({"bad": lambda _: rejected}))
    found = audit_many(jobs, RECYCLED, tmp_path, lambda _: Fake())
    assert found == {"audited": 1, "differ": ["a"]}
    assert RunFolder(tmp_path, RECYCLED).by_id["a"]["verdict"]["accepted"]


def test_one_difference_has_all_of_that_guest_judged_again(tmp_path):
    """And nothing of other guests beyond their shares."""
    jobs = [job(str(number), f"source {number}") for number in range(60)]
    guest_of = {each.candidate: f"guest {int(each.id) // 30}" for each in jobs}
    find = {
        each.candidate: lambda _, name=each.candidate: {
            "verdict": ACCEPTED,
            "guest": guest_of[name],
        }
        for each in jobs
    }
    judge_many(jobs, RECYCLED, tmp_path, Fake(find))
    spoiled = [each for each in jobs if guest_of[each.candidate] == "guest 0"]
    fresh = Fake({each.candidate: lambda _: {"verdict": WRONG} for each in spoiled})
    for _ in range(20):  # until the share has one of the spoiled guest
        found = audit_many(jobs, RECYCLED, tmp_path, lambda _: fresh)
        if found["differ"]:
            break
    assert sorted(found["differ"], key=int) == [each.id for each in spoiled]


def timed(candidate_ms):
    return verdict(times=times(reference=1.0, candidate=candidate_ms))


REJECTED = verdict(Code.TIMEOUT)


def test_a_share_of_the_accepted_is_chosen_and_one_of_the_rejected():
    verdicts = [verdict(), REJECTED] * 100
    found = chosen(verdicts, ["ref"] * 200, share=0.1)
    assert len(found) == 20
    assert sum(verdicts[number].accepted for number in found) == 10
    drawn = {tuple(chosen(verdicts, ["ref"] * 200, share=0.1)) for _ in range(5)}
    assert len(drawn) > 1


def test_one_is_always_chosen_and_nothing_of_nothing():
    assert len(chosen([verdict()] * 3, ["ref"] * 3)) == 1
    assert chosen([REJECTED], ["ref"]) == [0]
    assert chosen([], []) == []


def test_the_fastest_of_several_with_one_reference_is_chosen():
    verdicts = [timed(2.0), timed(0.5), timed(1.0), timed(3.0), timed(4.0), REJECTED]
    assert chosen(verdicts, ["a", "a", "a", "b", "b", "b"], share=0.0) == [1, 3]


def test_one_candidate_a_reference_is_not_chosen_for_its_time():
    """The greedy answers of a model: fresh judgements of all took ten minutes of a GPU."""
    verdicts = [timed(1.0)] * 50
    references = [f"ref {number}" for number in range(50)]
    assert chosen(verdicts, references, share=0.0) == []
    assert len(chosen(verdicts, references, share=0.02)) == 1
    assert chosen([timed(1.0), REJECTED], ["a", "a"], share=0.0) == []
