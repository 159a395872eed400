"""What the throughput benchmark sends, and how it reads the answers."""

import time

import pytest
from record_kinds import faults_in

from kernelwright.bench.judge.breakage import Breakage, broken
from kernelwright.bench.judge.throughput import (
    ThroughputPlan,
    jobs_of,
    lines_of,
    measure,
    profile,
    rates,
    steady_span,
    surprises,
)
from kernelwright.bench.level1 import MAX_LOG2, MIN_LOG2, level1_programs
from kernelwright.bench.load import Load
from kernelwright.core import record
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Code
from kernelwright.programs.text import parse, to_text
from kernelwright.sandbox.shared.contract import Limits
from kernelwright.teacher.writer import write
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.program_task import program_task


def test_programs_cover_the_teachers_operators_at_model_like_sizes():
    programs = level1_programs(260, seed=3)
    assert all(len(program.calls) == 1 for program in programs)
    assert len({program.calls[0].op for program in programs}) >= 125
    assert {i.type.dtype for p in programs for i in p.inputs} >= {"float32", "bfloat16"}
    for program in programs:
        made = [i.type.numel for i in program.inputs]
        made += [t.numel for call in program.calls for t in call.types]
        assert 1 << MIN_LOG2 <= max(made) <= 1 << MAX_LOG2
        assert parse(to_text(program)) == program


def test_equal_seeds_give_equal_jobs():
    plan = ThroughputPlan(programs=3, candidates_each=3)
    assert jobs_of(plan) == jobs_of(plan)
    assert len({job.id for job in jobs_of(plan)}) == 9


BROKEN = {
    Breakage.WRONG_VALUES: {Code.WRONG_VALUES},
    Breakage.COMPILE_ERROR: {Code.COMPILE_ERROR},
    Breakage.ILLEGAL_ADDRESS: {Code.OUT_OF_BOUNDS},
    Breakage.HANG: {Code.TIMEOUT},
}


@pytest.mark.slow
@pytest.mark.parametrize("how", Breakage)
def test_a_broken_candidate_is_refused_for_what_was_done_to_it(how):
    text = (
        "import torch\n\n\ndef get_inputs():\n    return [torch.randn(8, 100)]\n\n\n"
        "def fused_operator(x0):\n    t0 = torch.sigmoid(x0)\n    return [t0]\n"
    )
    program = parse(text)
    good = write(program, limit=1)[0].source
    limits = Limits(wall_s=5.0 if how is Breakage.HANG else 60.0)
    with Judge(JudgeOptions(device="cpu", mode="pure", budget_s=1.0), limits=limits) as judge:
        verdict = judge.verify(program_task(program), Candidate(source=broken(good, how)))
    assert verdict.code in BROKEN[how], verdict.message


def lines(*spans, worker="a"):
    return [{"worker": worker, "begin_s": begin, "end_s": end} for begin, end in spans]


def test_the_steady_rate_leaves_out_the_start_and_the_end():
    slow = [(0.0, 10.0), *((10.0 + n, 11.0 + n) for n in range(100))]
    fast = [(0.0 + n, 1.0 + n) for n in range(110)]
    judged = [*lines(*slow), *lines(*fast, worker="b"), {"same_as": "x"}]
    found = rates(judged, steady_span(judged, 2))
    assert found["verdicts"] == 211
    assert found["per_second"] == pytest.approx(211 / 110)
    assert found["steady_per_second"] == pytest.approx(2.0, abs=0.05)


def test_a_run_too_short_has_no_steady_rate():
    assert steady_span(lines((0.0, 1.0)), 1) is None
    assert rates(lines((0.0, 1.0)), None)["steady_per_second"] is None
    assert rates([], None)["per_second"] is None


def test_what_is_judged_otherwise_than_it_was_made_is_named():
    def line(kind, code):
        return {
            "id": f"0/relu/float32/0/{kind}",
            "verdict": {"accepted": code == "ok", "code": code},
        }

    expected = [line("good", "ok"), line("hang", "timeout")]
    assert surprises(expected) == {}
    found = surprises([*expected, line("good", "timeout"), line("wrong_values", "ok")])
    assert list(found) == ["good: timeout", "wrong_values: ok"]


def test_the_profile_is_per_verdict_and_largest_first():
    assert list(profile({"run": 1.0, "pose": 3.0}, 10).items()) == [("pose", 300.0), ("run", 100.0)]


def test_load_is_a_share():
    with Load() as load:
        begin_s = time.time()
        while time.time() < begin_s + 0.6:
            pass
    assert 0.0 < load.cpu <= 1.0
    assert 0.0 < load.cpu_between(begin_s, time.time()) <= 1.0
    assert load.cpu_between(begin_s - 2.0, begin_s - 1.0) is None


@pytest.mark.slow
def test_a_small_run_on_the_cpu_writes_its_records(tmp_path):
    plan = ThroughputPlan(device="cpu", grade="fresh", programs=1, candidates_each=2, num_workers=1)
    found = measure(plan, tmp_path / "run", lambda _: None)
    assert found["verdicts"] == 2
    assert found["surprises"] == {}
    first, *_, last = record.read(tmp_path / "run" / "records.jsonl")
    assert first["environment"]["versions"]["torch"]
    assert last["record"] == "throughput"
    assert faults_in(tmp_path / "run" / "records.jsonl") == set()
    assert dict(lines_of(last))["left by our failures"] == "0"
    with pytest.raises(UsageError, match="new --out"):
        measure(plan, tmp_path / "run", lambda _: None)
