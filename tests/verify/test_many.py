"""Many judgements: one record a job, resumed, never under another recipe, failures never scored."""

import json
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from record_kinds import faults_in
from verdicts import times, verdict

from corpus import ROOT
from kernelwright.core import record
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.verdict import Code, Verdict
from kernelwright.sandbox.workers.executor import Done
from kernelwright.sandbox.workers.local import LocalExecutor
from kernelwright.verify.many import worker as many_worker
from kernelwright.verify.many.engine import TOGETHER, TOGETHER_FRESH, with_times
from kernelwright.verify.many.jobs import Job, read_jobs
from kernelwright.verify.many.pools import local_pools
from kernelwright.verify.many.recipe import JudgeRecipe
from kernelwright.verify.many.run import judge_many
from kernelwright.verify.many.worker import ClockWorker, JudgeWorker
from kernelwright.verify.recycled import Recycled

RELU = (ROOT / "tasks" / "relu.py").read_text()
GOOD = (ROOT / "honest" / "plain.py").read_text()
RECIPE = JudgeRecipe(device="cpu", seed=5, timing=False)


def job(job_id, source="good", reference="ref\n"):
    return Job(id=job_id, reference=reference, candidate=source)


class Fake:
    """An executor in this process: finds what a candidate's source says, and counts."""

    num_workers = 2

    def __init__(self, find=None, ends_after=None):
        self.find = find or {}
        self.seen, self.batches, self.ends_after = [], [], ends_after

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def run(self, jobs):
        for job_id, data in jobs:
            if self.ends_after == len(self.batches):
                raise InfraError("the machine went down")
            candidates = [c for b in data.get("batches", [data]) for c in b["candidates"]]
            self.batches.append([c["source"] for c in candidates])
            found = [self.finding(c) for c in candidates]
            if None in found:
                yield Done(job_id, None, "lost 3 workers")
            else:
                yield Done(job_id, {"found": found, "stages": {"run": 1.0}, "worker": "w"})

    def finding(self, candidate):
        source = candidate["source"]
        self.seen.append(source)
        found = self.find.get(source, lambda _: {"verdict": verdict().to_json()})
        made = found(self.seen.count(source))
        return made and {"id": candidate["id"], "begin_s": 1.0, "end_s": 3.0, **made}


def records(folder, kind):
    return [r for r in record.read(folder / "records.jsonl") if r["record"] == kind]


def test_every_job_has_one_record_and_the_first_is_the_recipe(tmp_path):
    wrong = verdict(Code.WRONG_VALUES).to_json()
    fake = Fake({"bad": lambda _: {"verdict": wrong}, "unusable": lambda _: {"usage": "no ref"}})
    jobs = [job("a"), job("b", "bad"), job("c", "unusable", "broken\n")]
    summary = judge_many(jobs, RECIPE, tmp_path, fake)
    assert summary["codes"] == {"ok": 1, "wrong_values": 1}
    assert (summary["usage"], summary["infra"]) == (1, 0)
    first = next(record.read(tmp_path / "records.jsonl"))
    assert faults_in(tmp_path / "records.jsonl") == set()
    assert first["record"] == "run"
    assert first["recipe"] == json.loads(json.dumps(RECIPE.to_json()))
    assert "versions" in first["environment"]
    assert {r["id"]: r["verdict"]["code"] for r in records(tmp_path, "verdict")} == {
        "a": "ok",
        "b": "wrong_values",
    }
    assert [r["id"] for r in records(tmp_path, "usage")] == ["c"]


def test_equal_texts_are_judged_once_and_each_job_has_its_record(tmp_path):
    fake = Fake()
    jobs = [job("a"), job("b"), job("c", reference="other\n"), job("d")]
    judge_many(jobs, RECIPE, tmp_path, fake)
    assert fake.seen == ["good", "good"]
    assert {r["id"]: r.get("same_as") for r in records(tmp_path, "verdict")} == {
        "a": None, "b": "a", "d": "a", "c": None,
    }  # fmt: skip
    later = Fake()
    judge_many([*jobs, job("e")], RECIPE, tmp_path, later)
    assert later.seen == []
    assert records(tmp_path, "verdict")[-1]["same_as"] == "a"


def test_a_run_that_was_cut_short_goes_on_where_it_was(tmp_path):
    jobs = [job(str(n), f"source {n}") for n in range(20)]
    with pytest.raises(InfraError, match="went down"):
        judge_many(jobs, RECIPE, tmp_path, Fake(ends_after=2))
    before = len(records(tmp_path, "verdict"))
    assert 0 < before < 20
    rest = Fake()
    summary = judge_many(jobs, RECIPE, tmp_path, rest)
    assert len(rest.seen) == 20 - before
    assert summary["codes"] == {"ok": 20}
    ids = [r["id"] for r in records(tmp_path, "verdict")]
    assert sorted(ids) == sorted(j.id for j in jobs)


def test_a_torn_last_line_is_cut_and_its_job_judged_again(tmp_path):
    jobs = [job("a"), job("b", "other")]
    judge_many(jobs, RECIPE, tmp_path, Fake())
    path = tmp_path / "records.jsonl"
    lines = path.read_text().splitlines(keepends=True)[:3]  # the recipe and two verdicts
    path.write_text("".join(lines[:2]) + lines[2][:40])
    again = Fake()
    judge_many(jobs, RECIPE, tmp_path, again)
    assert len(again.seen) == 1
    assert sorted(r["id"] for r in records(tmp_path, "verdict")) == ["a", "b"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("precision", "tf32"), ("rules", "0123"), ("seed", 6), ("versions", {"torch": "9"})],
)
def test_a_changed_recipe_is_refused_and_named(tmp_path, field, value):
    judge_many([job("a")], RECIPE, tmp_path, Fake())
    before = (tmp_path / "records.jsonl").read_bytes()
    changed = JudgeRecipe(**{**RECIPE.to_json(), field: value})
    with pytest.raises(UsageError, match=field):
        judge_many([job("a"), job("b", "new")], changed, tmp_path, Fake())
    assert (tmp_path / "records.jsonl").read_bytes() == before


def test_a_job_that_changed_under_its_id_is_refused(tmp_path):
    judge_many([job("a")], RECIPE, tmp_path, Fake())
    with pytest.raises(UsageError, match="'a'"):
        judge_many([job("a", "edited")], RECIPE, tmp_path, Fake())


def test_a_folder_of_another_kind_of_run_is_refused(tmp_path):
    record.append(tmp_path / "records.jsonl", [{"record": "run", "command": "optimize"}])
    with pytest.raises(UsageError, match="verify-many"):
        judge_many([job("a")], RECIPE, tmp_path, Fake())


def test_ids_must_be_unique(tmp_path):
    with pytest.raises(UsageError, match="same id"):
        judge_many([job("a"), job("a", "b")], RECIPE, tmp_path, Fake())


def test_a_failure_of_ours_is_tried_once_more_and_never_scored(tmp_path):
    ok = {"verdict": verdict().to_json()}
    fake = Fake(
        {
            "flaky": lambda tries: {"infra": "no guest"} if tries == 1 else ok,
            "deadly": lambda _: None,
            "cursed": lambda _: {"infra": "still no guest"},
        }
    )
    jobs = [job(name, name) for name in ("flaky", "deadly", "cursed")]
    jobs += [job(f"good {n}", f"good {n}") for n in range(9)]
    summary = judge_many(jobs, RECIPE, tmp_path, fake)
    assert summary["codes"] == {"ok": 10}
    assert summary["infra"] == 2
    failed = {r["id"]: r["infra"] for r in records(tmp_path, "infra")}
    assert failed == {"deadly": "lost 3 workers", "cursed": "still no guest"}
    assert fake.seen.count("cursed") == 2
    assert ["deadly"] in fake.batches  # apart from those it came with
    mended = Fake()
    assert judge_many(jobs, RECIPE, tmp_path, mended)["codes"] == {"ok": 12}
    assert sorted(mended.seen) == ["cursed", "deadly"]


def test_candidates_of_one_task_come_together_and_spread_over_the_workers(tmp_path):
    jobs = [job(f"{t}{n}", f"{n}", f"task {t}\n") for n in range(8) for t in "ab"]
    fake = Fake()
    judge_many(jobs, RECIPE, tmp_path, fake)
    assert [len(batch) for batch in fake.batches] == [4, 4, 4, 4]


def timed(ratio=2.0, code=Code.OK):
    if code is not Code.OK:
        return {"verdict": verdict(code, checks=("loads",)).to_json()}
    taken = times(reference=ratio, candidate=1.0)
    return {"verdict": verdict(times=taken, checks=("times plausible",)).to_json()}


def test_what_is_right_is_timed_and_what_is_wrong_is_not(tmp_path):
    wrong = verdict(Code.WRONG_VALUES).to_json()
    judges = Fake({"wrong": lambda _: {"verdict": wrong}})
    clock = Fake({"good": lambda _: timed(), "cheat": lambda _: timed(code=Code.WRONG_VALUES)})
    jobs = [job("a"), job("b", "wrong"), job("c", "cheat"), job("d")]
    summary = judge_many(jobs, RECIPE, tmp_path, judges, clock)
    assert sorted(clock.seen) == ["cheat", "good"]
    by_id = {r["id"]: Verdict.from_json(r["verdict"]) for r in records(tmp_path, "verdict")}
    assert by_id["a"].speedup == by_id["d"].speedup == 2.0
    assert by_id["c"].code is Code.WRONG_VALUES
    assert summary["codes"] == {"ok": 2, "wrong_values": 2}
    assert summary["clock"]["timed"] == 2


@pytest.mark.parametrize(("grade", "length"), [("recycled", TOGETHER), ("fresh", TOGETHER_FRESH)])
def test_times_are_taken_in_rows(tmp_path, grade, length):
    """Judges let go of the GPU once a row, not once a candidate. Rows of guests that serve one
    candidate are short, so that an interrupted run keeps most verdicts."""
    names = [f"good {number}" for number in range(2 * length + 9)]
    clock = Fake({name: lambda _: timed() for name in names})
    recipe = JudgeRecipe(device="cpu", seed=5, timing=False, grade=grade)
    summary = judge_many([job(name, name) for name in names], recipe, tmp_path, Fake(), clock)
    assert sorted(clock.seen) == sorted(names)
    assert len(clock.batches) <= 2 * (len(names) // length + 1)
    assert max(map(len, clock.batches)) <= length
    assert summary["clock"]["timed"] == len(names)


def test_a_lost_row_is_timed_again_one_by_one(tmp_path):
    """One candidate is to blame; the others have their times."""
    clock = Fake({"bad": lambda _: None, "good": lambda _: timed(), "fine": lambda _: timed()})
    jobs = [job("a"), job("b", "bad"), job("c", "fine")]
    summary = judge_many(jobs, RECIPE, tmp_path, Fake(), clock)
    assert clock.batches == [["good", "bad"], ["fine"], ["good"], ["bad"]], "two clock owners"
    assert (summary["codes"], summary["infra"]) == ({"ok": 2}, 1)
    (failure,) = records(tmp_path, "infra")
    assert failure["id"] == "b"


def test_a_clock_that_fails_leaves_the_job_unsettled(tmp_path):
    summary = judge_many([job("a")], RECIPE, tmp_path, Fake(), Fake({"good": lambda _: None}))
    assert (summary["codes"], summary["infra"]) == ({}, 1)


def test_what_was_judged_before_a_failure_has_its_record(tmp_path):
    """Also what arrived while the run ended."""
    fake = Fake(ends_after=3)
    with pytest.raises(InfraError, match="went down"):
        judge_many([job(f"{n}", f"{n}", f"task {n}\n") for n in range(6)], RECIPE, tmp_path, fake)
    assert len(records(tmp_path, "verdict")) == 3


def test_the_timed_verdict_keeps_what_correctness_rests_on():
    right = verdict(checks=("loads", "outputs"), cases=("base/plain/1",), grade="recycled")
    both = with_times({"verdict": right.to_json(), "worker": "w"}, timed())
    found = Verdict.from_json(both["verdict"])
    assert found.checks == ("loads", "outputs", "times plausible")
    assert (found.cases, found.grade, found.speedup) == (right.cases, "recycled", 2.0)


def test_kernels_go_from_the_judge_to_the_clock_and_not_into_records(tmp_path):
    handed = []

    class Clock(Fake):
        def finding(self, candidate):
            handed.append(candidate["kernels"])
            return super().finding(candidate)

    found = {"verdict": verdict().to_json()}
    judges = Fake({"good": lambda _: found | {"kernels": "/k"}, "plain": lambda _: dict(found)})
    clock = Clock({"good": lambda _: timed(), "plain": lambda _: timed()})
    judge_many([job("a"), job("b", "plain")], RECIPE, tmp_path, judges, clock)
    assert handed == ["/k", None]
    assert not any("kernels" in line for line in records(tmp_path, "verdict"))


# -- the real thing, in Triton's interpreter


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """Candidates are compiled as for a GPU: each into a folder of its own."""
    prepare, made = Recycled.prepare, []

    def prepare_with_kernels(self, shapes, candidate):
        prepared = prepare(self, shapes, candidate)
        prepared.trial.kernels = tmp_path / f"kernels-{len(made)}"
        prepared.trial.kernels.mkdir()
        made.append(prepared.trial.kernels)
        return prepared

    monkeypatch.setattr(Recycled, "prepare", prepare_with_kernels)
    return made


@pytest.mark.parametrize("timing", [True, False])
def test_kernels_of_what_is_right_and_to_be_timed_stay(compiled, timing):
    worker = JudgeWorker(replace(RECIPE, grade="recycled", timing=timing))
    wrong = GOOD.replace("tl.maximum", "tl.minimum")
    sources = [{"id": "good", "source": GOOD}, {"id": "wrong", "source": wrong}]
    good, bad = worker.run({"reference": RELU, "candidates": sources})["found"]
    worker.close()
    assert good["verdict"]["accepted"]
    assert not bad["verdict"]["accepted"]
    assert [folder.exists() for folder in compiled] == [timing, False]
    assert good.get("kernels") == (str(compiled[0]) if timing else None)
    assert "kernels" not in bad


def test_a_clock_owner_compiles_only_what_no_judge_has_compiled(compiled, monkeypatch, tmp_path):
    times = []

    def time_it(_recycled, prepared, _errors, _budget_s):
        times.append(prepared.trial.kernels)
        return verdict()

    monkeypatch.setattr(Recycled, "time", time_it)
    worker = ClockWorker(replace(RECIPE, grade="recycled"))
    (tmp_path / "known").mkdir()
    common = {"source": GOOD, "errors": None}
    known = common | {"id": "known", "kernels": str(tmp_path / "known")}
    gone = common | {"id": "gone", "kernels": str(tmp_path / "gone")}
    new = common | {"id": "new", "kernels": None}
    batches = [{"reference": RELU, "candidates": [known, gone]}]
    job = {"batches": [*batches, {"reference": RELU + "\n", "candidates": [new]}]}
    worker.begin(job)
    found = worker.run(job)["found"]
    worker.close()
    assert [each["id"] for each in found if each["verdict"]["accepted"]] == ["known", "gone", "new"]
    assert times == [tmp_path / "known", *compiled]
    assert len(compiled) == 2
    assert not any(folder.exists() for folder in times)


def test_a_failure_of_ours_leaves_the_gpu_before_judges_are_made_anew(
    compiled, monkeypatch, tmp_path
):
    held, events = [], []

    @contextmanager
    def lock(_index):
        held.append("held")
        yield
        held.pop()

    def time_it(_recycled, prepared, _errors, _budget_s):
        assert held
        if "doomed" in prepared.trial.candidate.source:
            raise RuntimeError("the context was lost")
        return verdict()

    def renew(_worker):
        events.append(("renew", list(held)))

    monkeypatch.setattr(many_worker, "gpu_lock", lock)
    monkeypatch.setattr(Recycled, "time", time_it)
    monkeypatch.setattr(ClockWorker, "_renew", renew)
    worker = ClockWorker(replace(RECIPE, grade="recycled"))
    monkeypatch.setattr(worker.judge.recycled.guests, "begin", lambda: None)
    names = ["first", "doomed", "last"]
    row = [
        {"id": n, "source": f"{GOOD}\n# {n}\n", "errors": None, "kernels": str(tmp_path / n)}
        for n in names
    ]
    for each in row:
        Path(each["kernels"]).mkdir()
    found = worker.run({"batches": [{"reference": RELU, "candidates": row}]})["found"]
    worker.close()
    assert [each["id"] for each in found] == names
    assert ["infra" in each for each in found] == [False, True, False]
    assert events == [("renew", [])]


@pytest.mark.slow
@pytest.mark.parametrize("grade", ["fresh", "recycled"])
def test_real_candidates_on_real_workers(tmp_path, grade):
    wrong = GOOD.replace("tl.maximum", "tl.minimum")
    sources = {"good": GOOD, "wrong": wrong, "again": GOOD, "none": "def fused_operator(x): pass"}
    jobs = [job(name, source, RELU) for name, source in sources.items()]
    jobs.append(job("broken", GOOD, RELU.replace("torch.relu", "torch.rely")))
    recipe = JudgeRecipe(device="cpu", grade=grade, budget_s=5.0).resolved()
    pools = local_pools(recipe, 2)
    assert isinstance(pools.judges, LocalExecutor)
    summary = judge_many(jobs, recipe, tmp_path, pools.judges, pools.clock)
    assert summary["codes"] == {"ok": 2, "wrong_values": 1, "no_kernel": 1}
    assert (summary["usage"], summary["infra"]) == (1, 0)
    assert {r["verdict"]["grade"] for r in records(tmp_path, "verdict")} == {grade}
    assert {"static rules", "compile", "pose", "load", "run"} <= summary["stages_s"].keys()


def test_a_judge_that_breaks_is_replaced_in_its_worker(monkeypatch):
    worker = JudgeWorker(RECIPE)
    broken = worker.judge
    monkeypatch.setattr(many_worker, "parse", lambda _: 1 / 0)
    answer = worker.run({"reference": "x\n", "candidates": [{"id": "a", "source": GOOD}]})
    assert "ZeroDivisionError" in answer["found"][0]["infra"]
    assert worker.judge is not broken
    worker.close()


def test_unknown_options_are_refused_before_anything_is_judged():
    with pytest.raises(UsageError, match="no such precision"):
        JudgeRecipe(device="cpu", precision="loose").resolved()


# -- reading jobs


@pytest.mark.parametrize("limit", ["timing_s", "wall_s", "budget_s"])
@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_limits_of_no_time_are_refused(limit, seconds):
    with pytest.raises(UsageError, match=f"{limit} = "):
        replace(RECIPE, **{limit: seconds}).resolved()


def test_jobs_name_files_or_hold_texts(tmp_path):
    (tmp_path / "ref.py").write_text(RELU)
    (tmp_path / "jobs.jsonl").write_text(
        json.dumps({"id": "a", "reference": "ref.py", "candidate": GOOD})
        + "\n"
        + json.dumps({"id": "b", "reference": "models:make", "candidate": GOOD})
        + "\n"
    )
    first, second = read_jobs(tmp_path / "jobs.jsonl")
    assert (first.reference, first.candidate) == (RELU, GOOD)
    assert second.reference == "models:make"
    assert first.content != second.content


def test_a_candidate_without_a_reference_is_refused(tmp_path):
    (tmp_path / "relu.reference.py").write_text(RELU)
    (tmp_path / "relu.candidate.py").write_text(GOOD)
    (tmp_path / "relu.bad.candidate.py").write_text(GOOD)
    with pytest.raises(UsageError, match=r"there is no relu\.bad\.reference\.py"):
        read_jobs(tmp_path)


def test_a_folder_of_pairs_is_a_list_of_jobs(tmp_path):
    (tmp_path / "relu.reference.py").write_text(RELU)
    (tmp_path / "relu.candidate.py").write_text(GOOD)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "reference.py").write_text(RELU)
    for number in (1, 2):
        (tmp_path / "sub" / f"candidate_{number}.py").write_text(GOOD)
    assert [j.id for j in read_jobs(tmp_path)] == ["relu", "sub/candidate_1", "sub/candidate_2"]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ('{"id": "a"}', "'reference' must be a text"),
        ('{"id": "a", "reference": "gone.py", "candidate": "x"}', "no such file"),
        ('{"id": "a", "reference": "r", "candidate": "c"}\n' * 2, "twice"),
        ("not json", "not JSON"),
        ("", "no jobs here"),
    ],
)
def test_bad_jobs_are_refused_by_line(tmp_path, lines, text):
    path = tmp_path / "jobs.jsonl"
    path.write_text(lines)
    with pytest.raises(UsageError, match=text):
        read_jobs(path)
