"""A suite through the real product on CPU: records, resumption, cases that break their process."""

import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kernelwright.bench import suite as suite_module
from kernelwright.bench import worker as bench_worker
from kernelwright.bench.suite import (
    WORKER,
    SuiteCase,
    SuiteRun,
    describe,
    failure,
    module_cases,
    run_suite,
)
from kernelwright.bench.worker import BenchWorker
from kernelwright.core import record
from kernelwright.core.errors import InfraError, UsageError

TASK = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x) * 2.0 + 1.0


def get_inputs():
    return [torch.randn(4, 8)]


def get_init_inputs():
    return []
"""


def run(tmp_path, **changes):
    values = {
        "suite": "kernelbench",
        "policy": "teacher",
        "out": tmp_path / "out",
        "options": {"device": "cpu", "mode": "hybrid", "precision": "strict", "budget_s": 600.0},
        "jobs": 1,
        "deadline_s": math.inf,
        "timeout_s": 900.0,
    }
    return SuiteRun(**values | changes)


def job(spec, tmp_path):
    options = run(tmp_path).options
    return {"spec": str(spec), "candidate": None, "folder": str(tmp_path / "case"),
            "options": options, "max_autotune": False, "room": str(tmp_path),
            "alone": False, "timeout_s": 900.0}  # fmt: skip


@pytest.fixture
def cases(tmp_path):
    good, broken = tmp_path / "2_good.py", tmp_path / "10_broken.py"
    good.write_text(TASK)
    broken.write_text("def get_inputs(:\n")
    return [
        SuiteCase(level="L1", id=int(path.name.partition("_")[0]), name=path.stem, spec=str(path))
        for path in (good, broken)
    ]


def test_factories_are_named_by_their_function():
    assert [case.name for case in module_cases(["a.b:one", "c:two"])] == ["one", "two"]


@pytest.mark.slow
def test_every_case_leaves_one_record_and_is_not_run_again(cases, tmp_path):
    said, suite = [], run(tmp_path)
    run_suite(suite, cases, said.append)
    lines = list(record.read(suite.records))
    assert [line["record"] for line in lines] == ["run", "benchmark_case", "benchmark_case"]
    good, broken = sorted(lines[1:], key=lambda line: line["id"])
    assert good["correct"]
    assert good["has_triton"]
    assert good["candidates"] > 0
    assert good["rejected"] == {}
    assert good["errors"]["rms_candidate"] <= good["errors"]["rms_allowed"]
    assert good["optimized"] is None, "no time without a GPU"
    assert (broken["correct"], broken["code"]) == (False, "usage")
    assert len(said) == 2
    run_suite(run(tmp_path), cases, said.append)
    assert list(record.read(suite.records)) == lines
    assert (suite.work / "L1" / "2_good" / "log.txt").exists()


def test_a_run_is_resumed_as_it_was_begun_or_not_at_all(tmp_path):
    run_suite(run(tmp_path), [], print)
    run_suite(run(tmp_path, jobs=2, timeout_s=1.0), [], print)
    with pytest.raises(UsageError, match="max_autotune = false, not true"):
        run_suite(run(tmp_path, max_autotune=True), [], print)
    with pytest.raises(UsageError, match="begun with policy"):
        run_suite(run(tmp_path, policy="kernels"), [], print)


def test_after_the_deadline_no_case_begins(cases, tmp_path):
    suite = run(tmp_path, deadline_s=0.0)
    left = run_suite(suite, cases, print)
    assert (left.not_begun, left.failed) == (2, 0)
    (head,) = record.read(suite.records)
    assert (head["record"], head["cases"]) == ("run", 2)


def test_a_run_that_goes_on_at_another_commit_says_so_before_its_next_cases(
    cases, tmp_path, monkeypatch
):
    suite = run(tmp_path, deadline_s=0.0)
    for commit in ("a", "a", "b"):
        monkeypatch.setattr(record, "environment", lambda _, commit=commit: {"commit": commit})
        run_suite(suite, cases, print)
    heads = list(record.read(suite.records))
    assert [line["environment"]["commit"] for line in heads] == ["a", "b"]


@pytest.mark.slow
def test_a_failure_of_ours_is_tried_again(cases, tmp_path):
    slow = tmp_path / "3_slow.py"
    slow.write_text("import time\ntime.sleep(1e4)\n")
    case = SuiteCase(level="L1", id=3, name="3_slow", spec=str(slow))
    suite = run(tmp_path, timeout_s=6.0)
    assert run_suite(suite, [case], print).failed == 1
    slow.write_text("def get_inputs(:\n")
    run_suite(run(tmp_path), [case], print)
    found = list(record.read(suite.records))[1:]
    assert [line["code"] for line in found] == ["infra", "usage"]
    assert "no end within 6 s" in found[0]["message"]


class Short:
    """A worker whose cases find memory only when they are alone."""

    def __init__(self, _module, _log, gpu, jobs):
        self.asked, self.gpu = [], gpu

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def run(self, job, _timeout_s):
        self.asked.append(job["alone"])
        return failure("memory" if not job["alone"] else "usage", f"asked {self.asked}")


def codes(suite):
    return [line["code"] for line in record.read(suite.records) if "code" in line]


def test_what_finds_no_memory_beside_others_comes_last_alone(cases, tmp_path, monkeypatch):
    monkeypatch.setattr(suite_module, "BenchWorker", Short)
    suite = run(tmp_path, jobs=2)
    run_suite(suite, cases, print)
    assert codes(suite) == ["memory", "memory", "usage", "usage"]


def test_a_case_that_is_alone_anyway_is_not_run_again(cases, tmp_path, monkeypatch):
    monkeypatch.setattr(suite_module, "BenchWorker", Short)
    suite = run(tmp_path)
    run_suite(suite, cases[:1], print)
    assert codes(suite) == ["memory"]
    run_suite(run(tmp_path, jobs=2), cases[:1], print)
    assert codes(suite) == ["memory", "usage"], "resumed, it is alone at once"


def test_processes_are_spread_over_gpus_each_with_room_of_its_own(cases, tmp_path, monkeypatch):
    asked, both = set(), threading.Barrier(2)

    class Watched(Short):
        def run(self, job, _timeout_s):
            both.wait(30.0)
            asked.add((self.gpu, Path(job["room"]).name))
            return failure("usage", "")

    monkeypatch.setattr(suite_module, "BenchWorker", Watched)
    run_suite(run(tmp_path, jobs=2, gpus=["3", "5"]), cases[:2], print)
    assert asked == {("3", "gpu-3"), ("5", "gpu-5")}


def serving(tmp_path, monkeypatch, body, after="pass"):
    """A module `tells` that answers jobs with the body of a function of `job`."""
    text = "import os\nfrom kernelwright.bench.serving import serve\n"
    text += f"def answer(job):\n    {body}\ndef after():\n    {after}\nserve(answer, after)\n"
    (tmp_path / "tells.py").write_text(text)
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


def is_running(pid):
    """Whether a process has not ended yet; its parent may not have noticed the end."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().split()[2] != "Z"


def until(is_true, within_s=30.0):
    end_s = time.monotonic() + within_s
    while not is_true():
        assert time.monotonic() < end_s
        time.sleep(0.02)


@pytest.mark.slow
def test_a_process_that_an_error_has_broken_gives_its_answer_and_takes_no_other_job(
    tmp_path, monkeypatch
):
    serving(tmp_path, monkeypatch, "return {'pid': os.getpid()}", after="1 / 0")
    with BenchWorker("tells", tmp_path / "log") as worker:
        first, second = (worker.run({}, 60.0)["pid"] for _ in range(2))
    assert first != second


@pytest.mark.slow
def test_a_process_that_died_between_two_jobs_is_replaced(tmp_path, monkeypatch):
    serving(tmp_path, monkeypatch, "return {'pid': os.getpid()}")
    with BenchWorker("tells", tmp_path / "log") as worker:
        first = worker.run({}, 60.0)["pid"]
        os.kill(first, signal.SIGKILL)
        until(lambda: not is_running(first))
        assert worker.run({}, 60.0)["pid"] != first


@pytest.mark.slow
def test_all_that_a_killed_process_has_started_ends_with_it(tmp_path, monkeypatch):
    started = "__import__('subprocess').Popen(['sleep', '60'], start_new_session=True)"
    hangs = "__import__('time').sleep(60)"
    serving(tmp_path, monkeypatch, f"print({started}.pid, flush=True)\n    {hangs}")
    monkeypatch.setattr(bench_worker, "GRACE_S", 0.2)
    with BenchWorker("tells", tmp_path / "log") as worker:
        with pytest.raises(InfraError, match="no end within"):
            worker.run({}, 15.0)
        pid = int((tmp_path / "log").read_text().split()[-1])
        until(lambda: not is_running(pid), within_s=5.0)


@pytest.mark.slow
def test_a_process_ends_with_the_process_that_it_works_for(tmp_path, monkeypatch):
    serving(
        tmp_path, monkeypatch, "print(os.getpid(), flush=True)\n    __import__('time').sleep(60)"
    )
    owner = (
        "import pathlib, sys\nfrom kernelwright.bench.worker import BenchWorker\n"
        "BenchWorker('tells', pathlib.Path(sys.argv[1])).run({}, 60.0)\n"
    )
    log = tmp_path / "log"
    process = subprocess.Popen([sys.executable, "-c", owner, str(log)])
    try:
        until(lambda: log.exists() and log.read_text().endswith("\n"))
    finally:
        process.kill()
        process.wait()
    pid = int(log.read_text().split()[-1])
    until(lambda: not is_running(pid))


def test_a_worker_sees_its_gpu_alone(tmp_path, monkeypatch):
    serving(tmp_path, monkeypatch, "return dict(os.environ)")
    with BenchWorker("tells", tmp_path / "log", "7") as worker:
        assert worker.run({}, 60.0)["CUDA_VISIBLE_DEVICES"] == "7"


@pytest.mark.parametrize(("cores", "jobs", "threads"), [(16, 1, "16"), (16, 3, "5"), (2, 8, "1")])
def test_workers_share_the_cores(tmp_path, monkeypatch, cores, jobs, threads):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    serving(tmp_path, monkeypatch, "return dict(os.environ)")
    with BenchWorker("tells", tmp_path / "log", jobs=jobs) as worker:
        assert worker.run({}, 60.0)["OMP_NUM_THREADS"] == threads


@pytest.mark.slow
def test_a_job_that_ends_the_process_is_an_error_and_the_next_one_runs(cases, tmp_path):
    killer = tmp_path / "1_killer.py"
    killer.write_text("import os\nos._exit(3)\n")
    with BenchWorker(WORKER, tmp_path / "worker.log") as worker:
        with pytest.raises(InfraError, match="died"):
            worker.run(job(killer, tmp_path), 200.0)
        assert worker.run(job(cases[1].spec, tmp_path), 200.0)["code"] == "usage"


def timing(median_ms):
    return {"median_ms": median_ms}


def test_a_case_in_words_leads_with_the_better_of_eager_and_torch_compile():
    line = {"correct": True, "code": "ok", "eager": timing(2.0), "optimized": timing(1.0)}
    assert describe(line) == "2.00x over eager, 1.000 ms"
    both = {"compiled": timing(1.5), "form": "compiled_kernels"}
    intervals = {"eager": [1.9, 2.1], "compiled": [1.4, 1.6]}
    assert describe(line | both | {"speedup_intervals": intervals}) == (
        "1.50x over the better of both (1.40 to 1.60), 1.50x over torch.compile (1.40 to 1.60),"
        " 2.00x over eager (1.90 to 2.10), 1.000 ms, form compiled_kernels"
    )


def test_a_case_without_a_kernel_says_what_the_user_gets_and_why():
    lost = {"correct": False, "code": "no_kernel", "message": "no fragment won", "form": "compiled"}
    times = {"eager": timing(3.0), "compiled": timing(1.5), "optimized": None}
    assert describe(lost | times) == (
        "1.00x over the better of both, 1.00x over torch.compile, 2.00x over eager, 1.500 ms,"
        " no_kernel: no fragment won, form compiled"
    )


def test_a_case_without_times_in_words():
    assert describe({"correct": False, "code": "usage", "message": "why"}) == "usage: why"
    assert describe({"correct": True, "code": "ok"}) == "ok"
