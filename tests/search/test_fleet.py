"""A search with workers: the same result as without, whatever becomes of the workers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.core.errors import InfraError
from kernelwright.library.store import Library
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.text import to_text
from kernelwright.sandbox.workers.executor import Done, Feed
from kernelwright.search.fleet import Tuner, Workers, tuned_elsewhere
from kernelwright.search.optimize import optimize_target
from kernelwright.search.options import SearchOptions
from kernelwright.timing import stages
from kernelwright.timing.deadline import Budget

SRC = Path(__file__).parents[2] / "src"


@pytest.fixture
def target(tmp_path):
    """A program with two parts that nothing connects."""
    b = Builder()
    results = []
    for rows in (24, 40):
        [x] = b.call("exp", input=b.input(TensorType((rows, 16))))
        results += b.call("tanh", input=x)
    file = tmp_path / "program.py"
    file.write_text(to_text(b.program(results)))
    return file


class InThisProcess:
    """An executor whose jobs are done at once, some of which are lost.

    Args:
        lost: numbers of jobs whose workers are lost too often.
        failure: raised in the place of the second answer.
    """

    def __init__(self, lost=(), failure=None):
        self.lost, self.failure, self.jobs = lost, failure, []

    def __enter__(self):
        self.tuner = Tuner("cpu", "strict", "hybrid")
        return self

    def __exit__(self, *_):
        self.tuner.close()

    def run(self, jobs):
        for number, (job_id, job) in enumerate(jobs):
            if self.failure and number == 1:
                raise self.failure
            self.jobs.append(job["text"])
            is_lost = number in self.lost
            yield Done(job_id, None if is_lost else self.tuner.run(job), "lost" * is_lost)


def search(target, tmp_path, monkeypatch, executor, steps):
    monkeypatch.setattr(Workers, "executor", lambda *_: executor)
    return optimize_target(
        str(target),
        SearchOptions(device="cpu", budget_s=900, policy="teacher"),
        out=tmp_path / "out",
        library=Library(tmp_path / "library"),
        workers=Workers(),
        progress=steps.append,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("executor", "taken", "said"),
    [
        (InThisProcess(), 2, []),
        (InThisProcess(lost=[0]), 1, ["a fragment is left to this process: lost"]),
        (
            InThisProcess(failure=InfraError("no worker is left")),
            1,
            ["going on without workers: no worker is left"],
        ),
    ],
    ids=["all answer", "one is lost", "no worker is left"],
)
def test_the_search_takes_what_workers_found_and_tunes_the_rest(
    target, tmp_path, monkeypatch, executor, taken, said
):
    steps = []
    result = search(target, tmp_path, monkeypatch, executor, steps)
    assert result["verdict"]["accepted"], result["verdict"]["message"]
    assert result["operators_triton"] == 4
    assert result["num_from_library"] == taken
    assert len(set(executor.jobs)) == len(executor.jobs)
    assert without_workers(steps) == said


def without_workers(steps):
    """What a search says of fragments that workers did not tune."""
    stages = ("a fragment is left to this process", "going on without workers")
    return [f"{step.stage}: {step.subject}" for step in steps if step.stage in stages]


def test_a_thread_that_has_waited_for_hours_still_has_its_jobs_begun(monkeypatch):
    """Each thread counts the seconds that it waited; an executor reads jobs in another thread."""

    class Reading(InThisProcess):
        def run(self, jobs):
            feed = Feed(jobs, ahead=2)
            while not feed.has_ended:
                if (job := feed.take()) is not None:
                    yield Done(job[0], {"undecided": "read"}, "")

    monkeypatch.setattr(stages._open, "waited_s", 7_200.0)
    deadline = Budget.start(60.0).deadline
    jobs = [{"text": "one"}, {"text": "two"}]
    assert list(tuned_elsewhere(Reading(), jobs, deadline)) == ["read", "read"]


@pytest.mark.slow
def test_processes_of_this_machine_tune_side_by_side(target, tmp_path):
    steps = []
    result = optimize_target(
        str(target),
        SearchOptions(device="cpu", budget_s=900),
        out=tmp_path / "out",
        library=Library(tmp_path / "library"),
        workers=Workers(number=2),
        progress=steps.append,
    )
    assert result["num_from_library"] == 2, without_workers(steps)
    assert result["operators_triton"] == 4


@pytest.mark.slow
def test_a_cluster_loses_a_node_and_no_fragment(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'kernelwright[cluster]'")
    done = subprocess.run(
        [sys.executable, Path(__file__).parent / "cluster_search.py"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )
    assert done.returncode == 0, done.stderr[-3_000:]
