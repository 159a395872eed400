"""The queue of `eval all`: runs from a file, and their states from records."""

import subprocess
import sys

import pytest

from kernelwright.bench.queue import slice as queue_slice
from kernelwright.bench.queue.runs import QUEUE, QueuedRun, read_queue
from kernelwright.bench.queue.state import QueueCall, RunState, ordered
from kernelwright.core import record
from kernelwright.core.errors import UsageError

PRESENT = "0123456789ab"
CASE = {"record": "benchmark_case", "suite": "kernelbench", "level": "L1", "sample": 0}


def head(commit, **facts):
    return {"record": "run", "environment": {"commit": commit, "gpu": None}, **facts}


def case(number, code="ok", **facts):
    return CASE | {"id": number, "code": code} | facts


def run(name="one", **changes):
    return QueuedRun(**{"name": name, "command": "eval x -o {folder}", "seconds": 10.0} | changes)


def call(folder, gpu=None, **values):
    environment = {"commit": PRESENT, "gpu": gpu}
    return QueueCall(folder=folder, values=values, environment=environment)


def status(folder, lines=(), code=None, queued=None):
    queued = queued or run()
    if lines:
        record.append(folder / queued.name / "records.jsonl", lines)
    if code is not None:
        last = {"record": "slice", "run": queued.name, "command": queued.command, "code": code}
        record.append(folder / "queue.jsonl", [last])
    return call(folder).status([queued])[0]


def test_a_table_makes_a_run_for_each_combination(tmp_path):
    path = tmp_path / "queue.toml"
    path.write_text(
        '[[run]]\nname = "l{level}-{type}"\nseconds = 5\n'
        'command = "eval kernelbench --root {kernelbench} --levels {level} {type} -o {folder}"\n'
        '[run.choices]\nlevel = { 1 = "1", 2 = "2" }\n'
        'type = { strict = "--precision strict", bf16 = "--dtype bfloat16" }\n'
    )
    runs = {one.name: one for one in read_queue(path)}
    assert list(runs) == ["l1-strict", "l1-bf16", "l2-strict", "l2-bf16"]
    words = runs["l2-bf16"].arguments({"kernelbench": "/a b", "folder": "/c"})
    assert " ".join(words[2:]) == "--root /a b --levels 2 --dtype bfloat16 -o /c"
    assert "/a b" in words


def test_a_file_with_an_unknown_key_or_a_name_twice_is_refused(tmp_path):
    path = tmp_path / "queue.toml"
    one = '[[run]]\nname = "one"\ncommand = "lint -o {folder}"\nseconds = 5\n'
    path.write_text(one + one)
    with pytest.raises(UsageError, match="two runs are called one"):
        read_queue(path)
    path.write_text(one + "secnods = 3\n")
    with pytest.raises(UsageError, match="secnods"):
        read_queue(path)


def test_the_published_queue_has_all_suites_and_each_run_a_folder_of_its_own():
    runs = read_queue(QUEUE)
    suites = {" ".join(one.words[: 1 + (one.words[0] == "eval")]) for one in runs}
    assert suites >= {"lint", "eval kernelbench", "eval synthetic", "eval tritonbench"}
    assert suites >= {"eval corpus", "eval throughput"}
    assert all("{folder}" in one.command for one in runs)
    types = [one for one in runs if one.name.startswith("level")]
    assert len(types) == 3 * 3 * 2 * 3, "levels, types, modes, writers"


def test_a_run_says_what_it_needs():
    queued = run(command="eval kernelbench --device cuda --root {kernelbench} -o {folder}")
    assert queued.lacks({}, has_gpu=True) == "needs --kernelbench PATH"
    assert queued.lacks({"kernelbench": "x"}, has_gpu=False) == "needs a GPU"
    assert queued.lacks({"kernelbench": "x"}, has_gpu=True) == ""
    assert "checkout of kernelwright" in run(command="x {checkout}").lacks({}, has_gpu=True)


def test_a_run_is_done_by_its_exit_code_and_counts_its_last_records(tmp_path):
    lines = [head(PRESENT, cases=3), case(1), case(2, "infra"), case(2), case(3, "infra")]
    state = status(tmp_path, lines, code=4)
    assert (state.state, state.cases, state.total) == (RunState.PART, 2, 3)
    assert not state.is_other
    state = status(tmp_path, [case(3)], code=0)
    assert (state.state, state.cases, state.total) == (RunState.DONE, 3, 3)
    changed = run(command="eval x --levels 1,2 -o {folder}")
    assert status(tmp_path, queued=changed).state is RunState.PART
    assert status(tmp_path, queued=run("two")).state is RunState.MISSING


def test_a_case_has_the_commit_of_its_own_or_of_the_environment_before_it(tmp_path):
    lines = [head("a" * 12, cases=3), case(1), head(PRESENT, cases=3), case(2)]
    state = status(tmp_path, [*lines, case(3, commit="b" * 12)], code=0)
    assert state.commits == (PRESENT, "a" * 12, "b" * 12)
    assert state.is_other
    state = status(tmp_path, [case(1, commit=PRESENT), case(3, commit=PRESENT)])
    assert state.commits == (PRESENT,), "the last record of a case counts"
    assert not state.is_other


def test_the_order_is_never_run_then_oldest_commit_then_shortest(tmp_path):
    runs = [run("new"), run("old"), run("long", seconds=50.0), run("short", seconds=5.0)]
    status(tmp_path, [head("b" * 12), case(1)], queued=runs[0])
    status(tmp_path, [head("a" * 12), case(1)], queued=runs[1])
    states = call(tmp_path).status(runs)
    names = [one.name for one in ordered(runs, states, {"a" * 12: 7, "b" * 12: 9})]
    assert names == ["short", "long", "old", "new"]


@pytest.mark.parametrize(
    ("name", "command", "more", "said"),
    [
        ("../a", "lint -o {folder}", "", "the name must be a name of a folder"),
        ("logs", "lint -o {folder}", "", "the name must be a name of a folder"),
        ("a", "lint", "", "has no {folder}"),
        ("a", "lint {folder} {nothing}", "", "no value for {nothing}"),
        ("a", "lint {folder} 'x", "", "cannot be split"),
        ("a", "lint {folder}", "case_s = nan", "numbers from 0"),
        ("a", "lint {folder}", 'copies = {"../x" = "y"}', "lead out of the folder"),
    ],
)
def test_a_run_that_cannot_be_run_is_refused_with_its_name(name, command, more, said, tmp_path):
    path = tmp_path / "queue.toml"
    text = f'[[run]]\nname = "{name}"\ncommand = "{command}"\nseconds = 1\n{more}\n'
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        read_queue(path)
    assert f"run {name!r}: " in str(error.value)
    assert said in str(error.value)


def test_a_child_that_dies_of_the_interruption_counts_as_interrupted():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], process_group=0)
    assert queue_slice._interrupted(child) == queue_slice.INTERRUPTED
