"""The grade `recycled`: what one candidate leaves in a guest is found, and the next is not hurt."""

import os
import signal
from dataclasses import replace

import pytest
import torch

from corpus import ROOT, cheat, entries
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Code
from kernelwright.programs.text import parse
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.teacher.writer import write
from kernelwright.verify import recycled
from kernelwright.verify.guests import SPARE_AFTER, LongLived
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks import shared_cases
from kernelwright.verify.tasks.cases import PART_CHANGED, PERMUTED
from kernelwright.verify.tasks.load import load_task
from kernelwright.verify.tasks.program_task import program_task
from kernelwright.verify.tasks.task import FunctionTask

PLAIN = (ROOT / "honest" / "plain.py").read_text()
GOOD = Candidate(source=PLAIN)
QUICK = {
    "bare_tensor", "boolean_mask", "channels_last_output", "contiguous_inputs",
    "dictionary_of_outputs", "double_precision_sum", "early_return_when_empty", "heuristics",
    "packing_that_follows_updates", "plain", "returns_a_view", "running_statistics",
}  # fmt: skip
HONEST = [entry for entry in entries("honest") if entry.path.stem in QUICK]


@pytest.fixture
def judge():
    with Judge(JudgeOptions(device="cpu", mode="pure", grade="recycled")) as judge:
        yield judge


@pytest.fixture
def shared_judge(judge):
    """As on a GPU: many candidates in one guest."""
    judge.recycled.lives_on = True
    return judge


@pytest.fixture(scope="module")
def relu():
    return load_task(ROOT / "tasks" / "relu.py")


def leaving(what):
    """The good candidate, which also does `what`."""
    source = PLAIN.replace("    return [relu(x0)]", f"    {what}\n    return [relu(x0)]")
    return Candidate(source=f"import sys, threading, time\n{source}")


LEFT = {
    "a default dtype": ("torch.set_default_dtype(torch.float64)", Code.SETTINGS_CHANGED),
    "TF32": ("torch.backends.cuda.matmul.allow_tf32 = True", Code.SETTINGS_CHANGED),
    "a mode": ("torch.overrides.BaseTorchFunctionMode().__enter__()", Code.SETTINGS_CHANGED),
    "a thread": ("threading.Thread(target=time.sleep, args=(60,)).start()", Code.LEFT_RUNNING),
    "a patched function": ("torch.empty = torch.zeros", Code.TAMPERED),
    "a patched method": ("torch.Tensor.numel = torch.Tensor.nelement", Code.TAMPERED),
    "a module": ("sys.modules['spare'] = type(sys)('spare')", Code.TAMPERED),
    "another module": ("sys.modules['bisect'] = sys", Code.TAMPERED),
}


@pytest.mark.slow
@pytest.mark.parametrize(("what", "code"), LEFT.values(), ids=LEFT)
def test_what_a_candidate_leaves_is_its_verdict_and_ends_the_guest(
    shared_judge, relu, what, code, monkeypatch
):
    monkeypatch.setattr("kernelwright.verify.trial.findings", lambda *_, **__: [])
    guests = shared_judge.recycled.guests
    verdict = shared_judge.verify(relu, leaving(what))
    assert verdict.code is code, verdict.message
    assert guests.num_started == 1
    assert shared_judge.verify(relu, GOOD).accepted
    assert guests.num_started == 2


@pytest.mark.slow
@pytest.mark.parametrize(("what", "code"), LEFT.values(), ids=LEFT)
def test_a_fresh_guest_is_attested_too(relu, what, code, monkeypatch):
    monkeypatch.setattr("kernelwright.verify.trial.findings", lambda *_, **__: [])
    with Judge(JudgeOptions(device="cpu", mode="pure", budget_s=0.0)) as judge:
        verdict = judge.verify(relu, leaving(what))
    assert verdict.code is code, verdict.message


def test_a_changed_setting_is_named_with_both_values(judge, relu, monkeypatch):
    monkeypatch.setattr("kernelwright.verify.trial.findings", lambda *_, **__: [])
    message = judge.verify(relu, leaving("torch.set_default_dtype(torch.float64)")).message
    assert "default_dtype" in message
    assert "torch.float64" in message
    assert "torch.float32" in message


@pytest.mark.slow
def test_honest_candidates_in_a_row_are_accepted_in_guests_of_their_own(judge):
    pairs = [(load_task(e.task), Candidate(source=e.path.read_text())) for e in HONEST] * 2
    assert len(pairs) >= 20
    verdicts = list(judge.verify_many(pairs))
    assert [v.message for v in verdicts if not v.accepted] == []
    assert {v.grade for v in verdicts} == {"recycled"}
    assert judge.recycled.num_guests == len(pairs)
    assert judge.recycled.guests.num_started == 0


@pytest.mark.slow
def test_honest_candidates_in_a_row_share_one_guest_as_on_a_gpu(shared_judge):
    pairs = [(load_task(e.task), Candidate(source=e.path.read_text())) for e in HONEST]
    verdicts = list(shared_judge.verify_many(pairs))
    assert [v.message for v in verdicts if not v.accepted] == []
    assert shared_judge.recycled.guests.num_started == 1


def test_verdicts_come_in_order_and_the_wrong_do_not_hurt_the_others(judge, relu):
    sources = [
        PLAIN,
        PLAIN.replace("tl.maximum", "tl.minimum"),
        PLAIN.replace("tl.maximum", "tl.maximal"),
        PLAIN.replace("return [relu(x0)]", "raise ValueError('no')"),
        PLAIN.replace("return [relu(x0)]", "return [relu(x0).fill_(1 / 0)]"),
        PLAIN,
    ]
    pairs = [(relu, Candidate(source=source)) for source in sources]
    codes = [verdict.code for verdict in judge.verify_many(iter(pairs))]
    assert codes == [
        Code.OK,
        Code.WRONG_VALUES,
        Code.COMPILE_ERROR,
        Code.RUNTIME_ERROR,
        Code.RUNTIME_ERROR,
        Code.OK,
    ]


@pytest.mark.parametrize("name", ["device_memo_of_a_sample", "cache_by_fingerprint"])
def test_what_remembers_earlier_calls_is_wrong_in_the_very_calls_made_in_a_row(judge, relu, name):
    verdict = judge.verify(relu, Candidate(source=cheat(name).path.read_text()))
    assert verdict.code is Code.WRONG_VALUES, verdict.message
    assert PART_CHANGED in verdict.message


def test_a_call_that_fails_in_a_row_is_the_candidates_end(judge, relu):
    late = leaving("calls.append(1); assert len(calls) < 4").source
    verdict = judge.verify(relu, Candidate(source=f"calls = []\n{late}"))
    assert (verdict.code, len(verdict.cases)) == (Code.RUNTIME_ERROR, 1)
    assert "in a row" in verdict.message


def test_a_guest_that_died_is_replaced(judge, relu):
    deadly = Candidate(
        source=PLAIN.replace("return [relu(x0)]", "import ctypes; ctypes.string_at(0)")
    )
    hanging = Candidate(source=PLAIN.replace("return [relu(x0)]", "exit(3)"))
    verdicts = list(judge.verify_many([(relu, c) for c in (deadly, GOOD, hanging, GOOD)]))
    assert [v.accepted for v in verdicts] == [False, True, False, True]


def test_code_that_never_ends_costs_little_time(relu, monkeypatch):
    monkeypatch.setattr(recycled, "OWN_CODE_S", 0.2)
    with Judge(JudgeOptions(device="cpu", mode="pure", grade="recycled")) as judge:
        hanging = leaving("while True: pass")
        verdicts = list(judge.verify_many([(relu, hanging), (relu, GOOD)]))
        assert [v.code for v in verdicts] == [Code.TIMEOUT, Code.OK]
        assert "while True" in hanging.source.splitlines()[verdicts[0].line - 1]


@pytest.mark.slow
def test_a_guest_is_replaced_after_enough_candidates(relu, monkeypatch):
    monkeypatch.setattr("kernelwright.verify.recycled.MAX_CANDIDATES", 2)
    with Judge(JudgeOptions(device="cpu", mode="pure", grade="recycled")) as judge:
        judge.recycled.lives_on = True
        assert all(v.accepted for v in judge.verify_many([(relu, GOOD)] * 5))
        assert judge.recycled.guests.num_started >= 3


def test_inputs_are_drawn_anew_every_so_many_candidates(judge, relu, monkeypatch):
    monkeypatch.setattr(shared_cases, "REFRESH", 2)
    cases = [verdict.cases for verdict in judge.verify_many([(relu, GOOD)] * 4)]
    assert cases[0] == cases[1]
    assert cases[2] == cases[3]
    assert cases[1] != cases[2]


def test_cases_hold_both_poisons_every_family_and_another_shape(judge, relu):
    verdict = judge.verify(relu, GOOD)
    names = [case.split("/") for case in verdict.cases]
    base = {case[3] for case in names if case[0] == "base"}
    assert base >= {"nan poison", "finite poison"}
    assert {case[1] for case in names} >= {"plain", PART_CHANGED, PERMUTED}
    assert len({case[1] for case in names}) == 3 + shared_cases.NUM_FAMILIES
    assert len({case[0] for case in names}) == 2
    assert "outputs depend on each own kernel" in verdict.checks
    assert "process unchanged" in verdict.checks


def test_answers_are_dropped_when_they_take_too_much_memory(judge, relu, monkeypatch):
    monkeypatch.setattr(shared_cases, "MAX_POSED_BYTES", {"cpu": 0})
    other = replace(relu, name="another")
    pairs = [(relu, GOOD), (relu, GOOD), (other, GOOD), (relu, GOOD)]
    cases = [verdict.cases for verdict in judge.verify_many(pairs)]
    assert cases[0] == cases[1]
    assert cases[0] != cases[3]


def test_a_task_that_fails_is_the_users_at_its_place(judge, relu):
    bad = FunctionTask(name="bad", get_inputs=lambda: [torch.ones(3)], function=lambda x: x / "y")
    verdicts = judge.verify_many([(relu, GOOD), (bad, GOOD)])
    assert next(verdicts).accepted
    with pytest.raises(UsageError, match="bad"):
        next(verdicts)


def test_an_unknown_grade_is_refused():
    with pytest.raises(UsageError, match="grade"):
        Judge(JudgeOptions(device="cpu", grade="reused"))


def test_a_large_dot_in_the_interpreter_leaves_no_threads(judge):
    text = (
        "import torch\nimport torch.nn.functional as F\n\n\n"
        "def get_inputs():\n    x0 = torch.randn((256, 64), dtype=torch.bfloat16)\n"
        "    x1 = torch.randn((256, 64), dtype=torch.bfloat16)\n    return [x0, x1]\n\n\n"
        "def fused_operator(x0, x1):\n"
        "    t0 = F.linear(x0, x1)\n    return [t0]\n"
    )
    program = parse(text)
    large = next(c for c in write(program, limit=24) if "BLOCK_M=128 BLOCK_N=256" in c.schedule)
    verdict = judge.verify(program_task(program), large)
    assert verdict.accepted, verdict.message


def test_a_spare_takes_over_and_one_that_died_meanwhile_does_not():
    started = []

    def start():
        started.append(shared("cpu").guest())
        return started[-1]

    guests = LongLived(start, max_candidates=SPARE_AFTER, keeps_spare=True)
    try:
        first = [guests.next() for _ in range(SPARE_AFTER)]
        second = guests.next()
        assert len(set(first)) == 1
        assert (second, len(started), guests.num_started) == (started[1], 2, 2)
        for _ in range(SPARE_AFTER - 1):
            assert guests.next() is second
        guests._spare.result()
        os.kill(started[2].process.pid, signal.SIGKILL)
        assert guests.next() is started[3]
        assert guests.num_started == 3
    finally:
        guests.close()
    assert not any(guest.alive for guest in started)
