"""torch.compile beside the result: what the process answers, and what happens where it cannot."""

import json
import queue
import sys
import time
from contextlib import closing, nullcontext
from types import SimpleNamespace

import pytest
import torch

from kernelwright.core.verdict import Code, Stage
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.text import to_text
from kernelwright.search.contest import child as contest_child
from kernelwright.search.contest import side_by_side
from kernelwright.search.contest.contest import LEAST_S, Contest, hold_contest
from kernelwright.search.contest.process import WAITED, ContestProcess
from kernelwright.search.contest.warming import Ends, GuestTurns
from kernelwright.timing.cuda_timer import ColdCall
from kernelwright.timing.deadline import Budget
from kernelwright.timing.stages import stage
from kernelwright.verify.rejection import Rejected
from kernelwright.verify.tasks.program_task import program_task

MODEL = """
import torch


class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = torch.nn.Linear(size, 3)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.randn(5, 8)]


def get_init_inputs():
    return [8]
"""


ANSWER = {
    "samples": {
        "eager": [4.0, 4.1, 3.9],
        "compiled": [3.0, 3.1, 2.9],
        "ours": [2.0, 2.1, 1.9],
        "slow": [3.5, 3.5, 3.5],
    },
    "failed": {},
    "right": ["compiled"],
    "moves_layouts": True,
}


@pytest.fixture
def task():
    builder = Builder()
    x = builder.input(TensorType((4, 3)))
    return program_task(builder.program(builder.call("relu", input=x)))


def process(text):
    return (sys.executable, "-c", f"import json, sys, time\njob = json.load(sys.stdin)\n{text}")


def asked(task, text, *, wholes=None, for_s=600.0):
    wholes = {"ours": "kernel"} if wholes is None else wholes
    with closing(ContestProcess(process(text))) as started:
        deadline = Budget.start(for_s).deadline
        return hold_contest(task, wholes, precision="strict", deadline=deadline, process=started)


def contest(**changes):
    answer = ANSWER | changes
    return Contest(
        samples=answer["samples"],
        failed=answer["failed"],
        right=answer["right"],
        moves_layouts=answer["moves_layouts"],
    )


def test_an_answer_gives_times_and_ratios_with_intervals(task):
    held = asked(task, f"print({json.dumps(ANSWER)!r})")
    assert held.ranked == ["ours", "compiled", "slow", "eager"]
    fields = held.fields("ours")
    assert set(fields["times"]) == {"eager", "compiled", "optimized"}
    assert fields["times"]["optimized"]["median_ms"] == 2.0
    ratio, low, high = fields["speedups"]["over_compile"]
    assert ratio == 1.5
    assert low <= ratio <= high
    assert fields["speedups"]["over_eager"][0] == 2.0
    assert fields["torch_compile"]["timed"]
    assert fields["torch_compile"]["right"]
    assert fields["torch_compile"]["failed"] == {}


def test_where_nothing_of_ours_is_delivered_there_are_times_and_no_ratios():
    fields = contest().fields(None)
    assert set(fields["times"]) == {"eager", "compiled"}
    assert fields["speedups"] == {}


def test_the_process_gets_the_text_of_the_original_and_of_the_wholes(task, tmp_path):
    path = tmp_path / "job.json"
    asked(task, f"open({str(path)!r}, 'w').write(json.dumps(job)); print({json.dumps(ANSWER)!r})")
    job = json.loads(path.read_text())
    assert "torch.relu" in job["text"]
    assert (job["wholes"], job["precision"]) == ({"ours": "kernel"}, "strict")


def test_a_torch_compile_that_fails_is_named_in_words(task):
    answer = ANSWER | {
        "failed": {"compiled": "BackendCompilerFailed: no\nsuch\nthing"},
        "samples": {"eager": [4.0, 4.0], "ours": [2.0, 2.0]},
    }
    held = asked(task, f"print({json.dumps(answer)!r})")
    fields = held.fields("ours")
    assert set(fields["speedups"]) == {"over_eager"}
    assert not fields["torch_compile"]["timed"]
    assert set(fields["torch_compile"]["failed"]) == {"compiled"}
    assert not held.right
    assert fields["torch_compile"]["message"] == (
        "torch.compile fails on this program: BackendCompilerFailed: no such thing"
    )


def test_kernels_must_be_as_fast_as_torch_compile_where_that_is_right():
    assert contest().bar == pytest.approx(4 / 3)
    assert contest().is_beaten("slow")
    assert not contest().is_beaten("ours")
    wrong = contest(right=[])
    assert (wrong.bar, wrong.best_original) == (1.0, "eager")
    assert not wrong.is_beaten("slow"), "nobody wants the wrong values of torch.compile"
    samples = ANSWER["samples"] | {"compiled": [9.0, 9.0, 9.0]}
    assert contest(samples=samples).bar == 1.0


def test_too_little_time_starts_no_process(task, tmp_path):
    path = tmp_path / "started"
    held = asked(task, f"open({str(path)!r}, 'w')", for_s=LEAST_S - 4)
    assert not path.exists()
    assert held.fields(None).keys() == {"torch_compile"}
    assert "8 s of the budget were left" in held.message


@pytest.mark.slow
def test_the_deadline_ends_the_process_and_what_it_started(task, tmp_path, monkeypatch):
    monkeypatch.setattr("kernelwright.search.contest.contest.LEAST_S", 0.0)
    path = tmp_path / "alive"
    inner = f"import time; time.sleep(4); open({str(path)!r}, 'w')"
    text = f"import subprocess; subprocess.run([sys.executable, '-c', {inner!r}])"
    assert "not ready after 1 s" in asked(task, text, for_s=1.0).message
    time.sleep(5)
    assert not path.exists()


@pytest.mark.slow
def test_past_the_deadline_the_last_whole_answer_counts(task, monkeypatch):
    monkeypatch.setattr("kernelwright.search.contest.contest.LEAST_S", 0.0)
    line = json.dumps(ANSWER)
    text = f"print({line!r}); print({line[:30]!r}, end='', flush=True); time.sleep(600)"
    assert asked(task, text, for_s=2.0).samples == ANSWER["samples"]


def test_a_process_that_dies_gives_its_last_line(task):
    held = asked(task, "raise ValueError('the reference needs a file')")
    assert held.samples == {}
    assert held.message == (
        "torch.compile was not timed: the process that times it failed: "
        "ValueError: the reference needs a file"
    )


def test_an_interruption_ends_the_process(task, monkeypatch):
    def interrupted(process, *_, **__):
        started.append(process)
        raise KeyboardInterrupt

    started = []
    monkeypatch.setattr("subprocess.Popen.communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        asked(task, "time.sleep(600)")
    assert started[0].wait(60) < 0, "the process is killed"


def test_a_whole_has_the_time_that_the_process_waited_for_others():
    begin_s = time.monotonic()
    ends = Ends(begin_s=begin_s, for_s=10.0, wall_s=100.0)
    before_s = ends.deadline().left_s()
    with stage("wait for the GPU", is_waiting=True):
        time.sleep(0.3)
    assert ends.deadline().left_s() == pytest.approx(before_s, abs=0.1)
    assert Ends(begin_s=begin_s - 100.0, for_s=200.0, wall_s=100.0).deadline().is_over


def test_the_child_tells_how_long_it_waits(monkeypatch):
    monkeypatch.setattr(contest_child, "TELLING_S", 0.02)
    told = queue.SimpleQueue()
    lines = SimpleNamespace(write=told.put)
    waiting = stage("wait for the GPU", is_waiting=True)
    with contest_child._telling_waiting(lines), waiting:  # also while the wait lasts
        first, second = (told.get(timeout=30)[WAITED] for _ in range(2))
    assert 0 < first < second


@pytest.fixture
def on_cpu(monkeypatch):
    """The child's work without a GPU: a clock that counts calls, and no real compilation."""
    monkeypatch.setattr(side_by_side, "stopwatch", lambda: lambda call: ColdCall(1.0, 0.1, call()))
    for module in (side_by_side, contest_child):
        monkeypatch.setattr(module, "gpu_lock", lambda **_: nullcontext())
    monkeypatch.setattr(contest_child, "compile_ahead", lambda *_: None)
    monkeypatch.setattr(contest_child, "waits", lambda *_: False)
    monkeypatch.setattr(torch, "compile", lambda call, **_: call)


def child(text, wholes=None):
    job = {"text": text, "training": None, "wholes": wholes or {}}
    job |= {"precision": "strict", "for_s": 600.0, "wall_s": 600.0, "is_sized": False}
    *_, answer = contest_child.contest(job, torch.device("cpu"), time.monotonic())
    return answer


@pytest.mark.parametrize("kind", ["module", "flat program"])
def test_the_child_times_the_original_as_the_user_calls_it(task, kind, on_cpu):
    answer = child(MODEL if kind == "module" else to_text(task.program))
    assert {name: len(times) for name, times in answer["samples"].items()} == {
        "eager": 30,
        "compiled": 30,
    }
    assert (answer["failed"], answer["right"], answer["moves_layouts"]) == ({}, ["compiled"], True)


def test_the_child_says_why_torch_compile_fails(on_cpu, monkeypatch):
    def broken(_, **options):
        def call(*_):
            raise RuntimeError(f"no backend for {options}")

        return call

    monkeypatch.setattr(torch, "compile", broken)
    answer = child(MODEL)
    assert answer["failed"] == {"compiled": "RuntimeError: no backend for {'dynamic': None}"}
    assert set(answer["samples"]) == {"eager"}


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [((), (["compiled"], True)), ((None,), (["compiled"], False)), ((None, "exact"), ([], True))],
    ids=["right", "inexact layouts", "wrong"],
)
def test_the_child_compares_what_torch_compile_returns(on_cpu, monkeypatch, wrong, expected):
    def compiled(call, dynamic=None, options=None):
        how = None if options is None else "exact"
        return (lambda x: call(x) + 1.0) if how in wrong else call

    monkeypatch.setattr(torch, "compile", compiled)
    answer = child(MODEL)
    assert (answer["right"], answer["moves_layouts"]) == expected


def test_a_module_that_waits_for_launches_is_timed_as_cuda_graphs_too(on_cpu, monkeypatch):
    monkeypatch.setattr(contest_child, "waits", lambda *_: True)
    answer = child(MODEL)
    assert set(answer["samples"]) == {"eager", "compiled", "compiled_graphs"}
    assert answer["right"] == ["compiled", "compiled_graphs"]


def test_cuda_graphs_that_fail_leave_torch_compile(on_cpu, monkeypatch):
    def fails(*_):
        raise RuntimeError("no graph")

    monkeypatch.setattr(contest_child, "waits", lambda *_: True)
    monkeypatch.setattr(contest_child, "replayed", lambda *_: fails)
    answer = child(MODEL)
    assert set(answer["samples"]) == {"eager", "compiled"}
    assert answer["failed"] == {"compiled_graphs": "RuntimeError: no graph"}
    assert answer["right"] == ["compiled"]


def test_kernels_must_be_as_fast_as_cuda_graphs_of_torch_compile_where_those_are_right():
    samples = ANSWER["samples"] | {"compiled_graphs": [1.0, 1.0, 1.0]}
    right = contest(samples=samples, right=["compiled", "compiled_graphs"])
    assert (right.bar, right.best_original) == (4.0, "compiled_graphs")
    assert right.is_beaten("ours")
    assert not contest(samples=samples).is_beaten("ours")


COUNTING = MODEL.replace(
    "        self.linear",
    "        self.register_buffer('calls', torch.zeros(()))\n        self.linear",
).replace("return self.linear(x)", "self.calls += 1\n        return self.linear(x) * self.calls")


def test_a_module_that_changes_its_buffers_is_right_inside_torch_compile(on_cpu):
    answer = child(COUNTING)
    assert answer["right"] == ["compiled"]


def test_a_whole_that_fails_in_its_turn_is_left_out(on_cpu):
    class Fails:
        def prepare(self, *_):
            raise Rejected(Stage.RUN, Code.OUT_OF_MEMORY, "no room")

        def release(self):
            pass

    ours = side_by_side.CalledContender(torch.relu)
    contenders = {"eager": ours, "ours": GuestTurns("ours", Fails())}
    failed = {}
    samples = contest_child._samples(contenders, failed, lambda _: [torch.ones(2)], rounds=2)
    assert {name: len(times) for name, times in samples.items()} == {"eager": 6}
    assert failed == {"ours": "Rejected: no room"}


def test_what_the_users_code_prints_may_be_no_text(task):
    text = "sys.stderr.buffer.write(b'caf\\xe9'); sys.stderr.flush(); "
    assert asked(task, f"{text}print({json.dumps(ANSWER)!r})").ranked[0] == "ours"


def test_a_whole_that_cannot_be_loaded_takes_no_part(on_cpu):
    answer = child(MODEL, {"broken": "this is no Python"})
    assert set(answer["samples"]) == {"eager", "compiled"}
    assert answer["failed"]["broken"].startswith("Rejected: ")


def test_where_time_is_short_the_last_wholes_take_no_part(on_cpu, monkeypatch):
    monkeypatch.setattr(contest_child, "WARMING_SHARE", 0.0)
    answer = child(MODEL, {"ours": "kernel"})
    assert answer["failed"] == {"ours": "no time was left to compile it"}
