"""Which pairs are judged, and by what; the judge itself has tests of its own."""

from pairs_data import PROGRAMS, pair_line, recipe, shard_file

from kernelwright.data.pairs import judged
from kernelwright.data.pairs.select import select
from kernelwright.policy.answer import answer_text
from kernelwright.programs.text import parse
from kernelwright.teacher.whole import write_whole

(CANDIDATE,) = write_whole(parse(PROGRAMS[0]), limit=1, seed=0)
TAUGHT = {"name": "taught", "level": 1, "programs": 1}
OTHERS = {"name": "others", "level": 1, "programs": 1, "source": "inductor"}


def line(name, **columns):
    rules = {"precision": "strict", "mode": "pure", "program": PROGRAMS[0]}
    number = name.split("/")[1]
    answer = f"{number}\n{answer_text(CANDIDATE)}"
    return pair_line(name, answer) | rules | columns


def judging(tmp_path, lines, monkeypatch, **fields):
    """(precision, mode) -> the jobs that the judge was given."""
    seen = {}

    def judge_many(jobs, how, out, *_):
        seen[how.precision, how.mode] = jobs
        return {"infra": 0}

    class Folder:
        def __init__(self, out, how):
            self.by_id = {job.id: {"usage": "no"} for jobs in seen.values() for job in jobs}

    monkeypatch.setattr(judged, "judge_many", judge_many)
    monkeypatch.setattr(judged, "RunFolder", Folder)
    parts = sorted({each["id"].split("/")[0] for each in lines})
    paths = [
        shard_file(tmp_path, f"{part}-00000.jsonl", [e for e in lines if e["id"].startswith(part)])
        for part in parts
    ]
    made = recipe(TAUGHT, OTHERS, **fields)
    chosen = select(paths, made)
    verdicts = judged.judged(paths, chosen, made, tmp_path / "verify", 1, lambda _: None)
    assert set(verdicts) == {job.id for jobs in seen.values() for job in jobs}
    return seen


def test_a_share_of_the_teacher_s_is_judged_and_all_of_the_others(tmp_path, monkeypatch):
    names = [f"taught/{i}/0" for i in range(400)] + [f"others/{i}/0" for i in range(400, 420)]
    lines = [line(name) for name in names]
    fields = {"verify": {"share": 0.25, "device": "cpu"}}
    (jobs,) = judging(tmp_path, lines, monkeypatch, **fields).values()
    ids = [job.id for job in jobs]
    assert sum(name.startswith("others") for name in ids) == 20
    assert 60 < sum(name.startswith("taught") for name in ids) < 140
    assert {job.candidate for job in jobs} == {CANDIDATE.source}
    assert {job.reference for job in jobs} == {PROGRAMS[0]}


def test_rules_are_judged_apart_and_what_has_a_verdict_is_not_judged_again(tmp_path, monkeypatch):
    lines = [
        line("others/0/0"),
        line("others/1/0", precision="tf32"),
        line("others/2/0", mode="hybrid"),
        line("others/3/0", verdict="ok"),
        line("others/4/0", verdict="wrong_values", stage="compare"),
    ]
    seen = judging(tmp_path, lines, monkeypatch, verify={"device": "cpu"})
    found = {rules: [job.id for job in jobs] for rules, jobs in seen.items()}
    assert found == {
        ("strict", "pure"): ["others/0/0"],
        ("tf32", "pure"): ["others/1/0"],
        ("strict", "hybrid"): ["others/2/0"],
    }
