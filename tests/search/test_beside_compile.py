"""torch.compile beside the result: what the process answers, and what happens where it cannot."""

import json
import sys
import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.search import beside_compile_child, side_by_side
from kernelwright.search.beside_compile import LEAST_S, bar_of, beside_compile, compile_fields
from kernelwright.verify.compare import Precision
from kernelwright.verify.program_task import program_task

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


def timing(median_ms):
    return {"median_ms": median_ms, "low_ms": median_ms, "high_ms": median_ms, "num_samples": 30}


ANSWER = {
    "times": {"eager": timing(4.0), "compiled": timing(3.0), "optimized": timing(2.0)},
    "speedup_intervals": {"eager": [1.9, 2.1], "compiled": [1.4, 1.6]},
    "failed": {},
    "right": True,
    "moves_layouts": True,
    "seconds": 14.0,
}


@pytest.fixture
def task():
    builder = Builder()
    x = builder.input(TensorType((4, 3)))
    return program_task(builder.program(builder.call("relu", input=x)))


def process(text):
    return (sys.executable, "-c", f"import json, sys, time\njob = json.load(sys.stdin)\n{text}")


def asked(task, text, *, source="kernel", for_s=600.0):
    return beside_compile(task, source, precision="strict", for_s=for_s, command=process(text))


def test_an_answer_gives_times_and_ratios_with_intervals(task):
    fields = asked(task, f"print({json.dumps(ANSWER)!r})")
    assert fields["times"] == ANSWER["times"]
    assert fields["speedups"] == {"over_eager": [2.0, 1.9, 2.1], "over_compile": [1.5, 1.4, 1.6]}
    assert fields["torch_compile"] == {
        "timed": True,
        "message": "",
        "seconds": 14.0,
        "right": True,
        "moves_layouts": True,
    }


def test_the_process_gets_the_text_of_the_original_and_of_the_kernel(task, tmp_path):
    path = tmp_path / "job.json"
    asked(task, f"open({str(path)!r}, 'w').write(json.dumps(job)); print({json.dumps(ANSWER)!r})")
    job = json.loads(path.read_text())
    assert "torch.relu" in job["text"]
    assert (job["source"], job["precision"]) == ("kernel", "strict")


def test_a_torch_compile_that_fails_is_named_in_words(task):
    answer = ANSWER | {
        "failed": {"compiled": "BackendCompilerFailed: no\nsuch\nthing"},
        "times": {"eager": timing(4.0), "optimized": timing(2.0)},
        "speedup_intervals": {"eager": [1.9, 2.1]},
    }
    fields = asked(task, f"print({json.dumps(answer)!r})")
    assert fields["speedups"] == {"over_eager": [2.0, 1.9, 2.1]}
    assert fields["torch_compile"]["timed"] is False
    assert fields["torch_compile"]["message"] == (
        "torch.compile fails on this program: BackendCompilerFailed: no such thing"
    )


@pytest.mark.parametrize(
    ("compiled_ms", "right", "bar"), [(2.0, True, 2.0), (2.0, False, 1.0), (8.0, True, 1.0)]
)
def test_kernels_must_be_as_fast_as_torch_compile_where_that_is_right(compiled_ms, right, bar):
    times = {"eager": timing(4.0), "compiled": timing(compiled_ms)}
    assert bar_of({"times": times, "torch_compile": {"timed": True, "right": right}}) == bar
    assert bar_of({"torch_compile": {"timed": False}}) == 1.0


def test_too_little_time_starts_no_process(task, tmp_path):
    path = tmp_path / "started"
    fields = asked(task, f"open({str(path)!r}, 'w')", for_s=LEAST_S - 4)
    assert not path.exists()
    assert fields.keys() == {"torch_compile"}
    assert "8 s of the budget were left" in fields["torch_compile"]["message"]


def test_the_deadline_ends_the_process_and_what_it_started(task, tmp_path, monkeypatch):
    monkeypatch.setattr("kernelwright.search.beside_compile.LEAST_S", 0.0)
    path = tmp_path / "alive"
    inner = f"import time; time.sleep(4); open({str(path)!r}, 'w')"
    text = f"import subprocess; subprocess.run([sys.executable, '-c', {inner!r}])"
    fields = asked(task, text, for_s=1.0)
    assert "not ready after 1 s" in fields["torch_compile"]["message"]
    time.sleep(5)
    assert not path.exists()


def test_a_process_that_dies_gives_its_last_line(task):
    fields = asked(task, "raise ValueError('the reference needs a file')")
    assert fields.keys() == {"torch_compile"}
    assert fields["torch_compile"]["message"] == (
        "torch.compile was not timed: the process that times it failed: "
        "ValueError: the reference needs a file"
    )


def test_an_interruption_keeps_the_result(task, monkeypatch):
    def interrupted(process, *_, **__):
        started.append(process)
        raise KeyboardInterrupt

    started = []
    monkeypatch.setattr("subprocess.Popen.communicate", interrupted)
    judge = SimpleNamespace(
        rules=SimpleNamespace(precision=Precision.STRICT), rest=lambda: None, hold=nullcontext
    )
    verdict = SimpleNamespace(speedup=2.0, speedup_interval=(1.9, 2.1))
    whole = SimpleNamespace(variant=SimpleNamespace(chosen=(0,)), verdict=verdict, source="kernel")
    fields = compile_fields(whole, task, judge, for_s=600.0)
    assert fields["speedups"] == {"over_eager": [2.0, 1.9, 2.1]}
    assert fields["torch_compile"]["message"].endswith("the search was interrupted.")
    assert started[0].wait(60) < 0, "the process is killed"


@pytest.fixture
def on_cpu(monkeypatch):
    """The child's work without a GPU: a clock that counts calls, and no real compilation."""
    monkeypatch.setattr(side_by_side, "stopwatch", lambda: lambda call: (1.0, call()))
    monkeypatch.setattr(side_by_side, "gpu_lock", lambda **_: nullcontext())
    for module in (side_by_side, beside_compile_child):
        monkeypatch.setattr(module, "compile_ahead", lambda *_: None)
    monkeypatch.setattr(torch, "compile", lambda call, **_: call)


@pytest.mark.parametrize("kind", ["module", "flat program"])
def test_the_child_times_the_original_as_the_user_calls_it(task, kind, on_cpu):
    from kernelwright.programs.text import to_text

    text = MODEL if kind == "module" else to_text(task.program)
    job = {"text": text, "source": None, "precision": "strict"}
    answer = beside_compile_child.timed(job, torch.device("cpu"))
    assert set(answer["times"]) == {"eager", "compiled"}
    assert answer["times"]["eager"]["num_samples"] == 30
    assert (answer["speedup_intervals"], answer["failed"]) == ({}, {})


def test_the_child_says_why_torch_compile_fails(task, on_cpu, monkeypatch):
    def broken(_, **options):
        def call(*_):
            raise RuntimeError(f"no backend for {options['options']}")

        return call

    monkeypatch.setattr(torch, "compile", broken)
    answer = beside_compile_child.timed(
        {"text": MODEL, "source": None, "precision": "strict"}, torch.device("cpu")
    )
    assert answer["failed"] == {"compiled": "RuntimeError: no backend for None"}
    assert set(answer["times"]) == {"eager"}
