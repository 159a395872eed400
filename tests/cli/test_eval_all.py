"""`kernelwright eval all` with small queues, in child processes, in the interpreter."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from cli_runs import RELU, TASK, exit_code, write_programs
from typer.main import get_command

from kernelwright.bench.queue.runs import QUEUE, read_queue
from kernelwright.cli.main import app
from kernelwright.core import record
from kernelwright.policy.names import are_policies

OLD = "0123456789ab"
NUM_PROGRAMS = 4
END_S = 120.0


@pytest.fixture
def queue(tmp_path):
    """A queue of one run, which judges the teacher's answers to four programs."""
    rows = range(4, 4 + NUM_PROGRAMS)
    programs = write_programs(tmp_path / "programs.jsonl", RELU, rows=rows)
    synthetic = f"eval synthetic --policy teacher --programs '{programs}' --device cpu --workers 1"
    path = tmp_path / "queue.toml"
    path.write_text(
        f'[[run]]\nname = "answers"\ncommand = "{synthetic} -o {{folder}}"\nseconds = 30\n'
        '[[run]]\nname = "timed"\ncommand = "lint {kernelbench} --device cuda -o {folder}"\n'
        "seconds = 3\n"
    )
    return path


def eval_all(queue, folder, *argv):
    return exit_code(["eval", "all", "--queue", str(queue), "--out", str(folder), *argv])


def runs_of(capsys):
    return {run["name"]: run for run in json.loads(capsys.readouterr().out)["runs"]}


def started(queue, folder, *argv):
    command = [sys.executable, "-m", "kernelwright.cli.main", "eval", "all"]
    options = ["--queue", str(queue), "--out", str(folder), *argv]
    return subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)


def await_verdict(judged):
    """Return the lines of the judge's records, as soon as one is a verdict."""
    end_s = time.monotonic() + END_S
    while time.monotonic() < end_s:
        lines = list(record.read(judged, whole=True)) if judged.exists() else []
        if any(line["record"] == "verdict" for line in lines):
            return lines
        time.sleep(0.05)
    raise AssertionError("no verdict")


def test_the_table_says_what_is_missing_and_what_a_run_needs(queue, tmp_path, capsys):
    folder = tmp_path / "all"
    assert eval_all(queue, folder, "--status") == 0
    printed = capsys.readouterr().out
    assert "answers  missing" in printed
    assert "timed    needs --kernelbench PATH" in printed
    assert "0 of 2 runs done" in printed
    assert not folder.exists()


@pytest.mark.parametrize("run", read_queue(QUEUE), ids=lambda run: run.name)
def test_the_commands_of_the_published_queue_are_commands_of_ours(run):
    paths = dict.fromkeys(("kernelbench", "tritonbench", "checkout", "folder"), "path")
    words, command = run.arguments({**paths, "for": "540"}), get_command(app)
    while commands := getattr(command, "commands", None):
        command = commands[words.pop(0)]
    values = command.make_context("kernelwright", words).params
    policy = values.get("policy")
    assert policy is None or are_policies(policy)


def test_a_name_that_no_run_has_is_refused(queue, tmp_path, capsys):
    assert eval_all(queue, tmp_path / "all", "--only", "answers,others") == 2
    assert "no run is called others" in capsys.readouterr().err


def test_a_run_of_mixed_commits_is_marked_and_is_not_measured_again(queue, tmp_path, capsys):
    command = queue.read_text().split('command = "')[1].split('"')[0]
    environment = {"gpu": None, "commit": OLD}
    lines = [{"record": "run", "cases": 2, "environment": environment}]
    lines += [{"record": "benchmark_case", "id": number, "code": "ok"} for number in (1, 2)]
    lines[-1]["commit"] = "ba9876543210"
    record.append(tmp_path / "all" / "answers" / "records.jsonl", lines)
    last = {"record": "slice", "run": "answers", "command": command, "code": 0}
    record.append(tmp_path / "all" / "queue.jsonl", [last])
    assert eval_all(queue, tmp_path / "all", "--only", "answers") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "answers done 2 of 2 mixed: 0123456, ba98765 at another commit" in printed
    assert len((tmp_path / "all" / "queue.jsonl").read_text().splitlines()) == 1


@pytest.mark.slow
def test_ctrl_c_loses_nothing_and_the_next_call_goes_on(queue, tmp_path, capsys):
    folder = tmp_path / "all"
    judged = folder / "answers" / "judged" / "records.jsonl"
    process = started(queue, folder)
    before = await_verdict(judged)
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=END_S)
    assert process.returncode == 128 + signal.SIGINT
    assert "part" in printed
    assert [line["code"] for line in record.read(folder / "queue.jsonl")] == [None, 143]
    assert eval_all(queue, folder, "--json") == 0
    runs = runs_of(capsys)
    assert runs["answers"]["state"] == "done"
    assert (runs["answers"]["cases"], runs["answers"]["total"]) == (NUM_PROGRAMS, NUM_PROGRAMS)
    assert runs["timed"]["state"] == "missing"
    after = list(record.read(judged))
    assert after[: len(before)] == before
    ids = [line["id"] for line in after if line["record"] == "verdict"]
    assert len(ids) == len(set(ids)) == NUM_PROGRAMS


@pytest.mark.slow
def test_a_run_that_the_time_ends_is_left_for_the_next_call(queue, tmp_path, capsys):
    begin_s = time.monotonic()
    assert eval_all(queue, tmp_path / "all", "--for", "2", "--json") == 4
    assert time.monotonic() - begin_s < 60
    assert runs_of(capsys)["answers"]["state"] != "done"


@pytest.mark.slow
def test_a_run_that_cannot_begin_is_a_failure_and_its_error_is_shown(tmp_path, capfd):
    queue = tmp_path / "queue.toml"
    command = "eval synthetic --policy hf:missing -o {folder}"
    queue.write_text(f'[[run]]\nname = "answers"\ncommand = "{command}"\nseconds = 3\n')
    assert eval_all(queue, tmp_path / "all") == 3
    streams = capfd.readouterr()
    assert "answers  missing                 exit code 2" in streams.out
    assert "there is no such folder" in streams.err


def lint_queue(folder, lines):
    """A queue with a run that lints one task; `lines` are further lines of its table."""
    task, queue = folder / "task.py", folder / "queue.toml"
    task.write_text(TASK)
    queue.write_text(
        f'[[run]]\nname = "lint"\n{lines}\nends = [0, 1]\n'
        f"command = \"lint '{task}' --device cpu -o {{folder}}/records.jsonl\"\n"
    )
    return queue


@pytest.mark.slow
def test_a_measurement_that_was_cut_is_moved_aside_and_begun_anew(tmp_path, capsys):
    queue = lint_queue(tmp_path, "seconds = 500\nwhole = true")
    record.append(tmp_path / "all" / "lint" / "records.jsonl", [{"record": "lint", "task": "cut"}])
    assert eval_all(queue, tmp_path / "all", "--for", "400", "--json") == 4
    assert runs_of(capsys)["lint"]["state"] == "part", "its whole time is not left"
    assert eval_all(queue, tmp_path / "all", "--json") == 0
    assert runs_of(capsys)["lint"]["cases"] == 1
    assert (tmp_path / "all" / "earlier" / "lint-unknown" / "records.jsonl").exists()


@pytest.mark.slow
def test_again_moves_the_old_records_aside_and_measures_anew(tmp_path, capsys):
    queue = lint_queue(tmp_path, "seconds = 20")
    old = {"record": "lint", "task": "old", "commit": OLD}
    record.append(tmp_path / "all" / "lint" / "records.jsonl", [old])
    assert eval_all(queue, tmp_path / "all", "--again", "--json") == 0
    run = runs_of(capsys)["lint"]
    assert (run["state"], run["cases"], run["is_other"]) == ("done", 1, False)
    moved = tmp_path / "all" / "earlier" / "lint-0123456" / "records.jsonl"
    assert list(record.read(moved)) == [old]


@pytest.mark.slow
def test_two_calls_do_not_work_in_one_folder(queue, tmp_path, capsys):
    folder = tmp_path / "all"
    process = started(queue, folder)
    try:
        await_verdict(folder / "answers" / "judged" / "records.jsonl")
        assert eval_all(queue, folder) == 2
        assert "another process" in capsys.readouterr().err
    finally:
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=END_S)
