"""Errors of every verb: one message with place and remedy, the right code, JSON where asked for."""

import contextlib
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_runs import verdict

from kernelwright.cli.failures import RESUMABLE, show, show_interrupted
from kernelwright.cli.main import app
from kernelwright.core.errors import InfraError, UsageError, file_error

NOT_UTF8 = b"x = 1\n\xff\xfe\n"


@pytest.fixture(autouse=True)
def _files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("bad.py", "bad.jsonl", "bad.toml"):
        (tmp_path / name).write_bytes(NOT_UTF8)
    (tmp_path / "torn.jsonl").write_text('{"a": \n')
    (tmp_path / "torn.toml").write_text("a = \n")
    (tmp_path / "file").write_text("")
    (tmp_path / "ok.py").write_text("import torch\n")
    (tmp_path / "folder").mkdir()


MISSING = [
    "optimize no.py",
    "generate no.py",
    "verify no.py ok.py",
    "verify ok.py no.py",
    "verify-many no.jsonl -o x",
    "lint no.py",
    "synth --recipe no.toml -o x.jsonl",
    "synth --avoid no.jsonl -o x.jsonl",
    "synth stats no.jsonl",
    "synth balance --recipe no.toml -o x.toml",
    "data build no.toml -o x",
    "data collect no.py -o x.jsonl",
    "data fingerprints no.py -o x.json",
    "train sft no.toml -o x",
    "train rl no.toml -o x",
    "report no",
    "eval kernelbench --root no",
    "eval synthetic --policy teacher --programs no -o x",
    "eval modules nomodule:f",
    "eval corpus --root no -o x",
]
UNWRITABLE = [
    "optimize ok.py -o file/x",
    "verify-many torn.jsonl -o file",
    "lint ok.py -o folder",
    "synth -o file/x.jsonl",
    "synth benchmark -o folder",
    "data collect ok.py -o file/x.jsonl",
    "data fingerprints ok.py -o file/x.json",
    "eval throughput -o file",
    "eval synthetic --policy teacher -o file",
    "eval modules json:f -o file",
]
UNREACHABLE = [
    "optimize ok.py --policy teacher,openai:http://127.0.0.1:9#m",
    "generate ok.py --policy openai:http://127.0.0.1:9#m",
    "verify ok.py ok.py --advise openai:http://127.0.0.1:9#m",
    "eval synthetic --policy openai:http://127.0.0.1:9#m -o x",
    "eval modules json:f --policy openai:http://127.0.0.1:9#m",
    "optimize ok.py --policy hf:no",
    "optimize ok.py --policy nobody",
    "generate ok.py --policy nobody",
]
NOT_TEXT = [
    "optimize bad.py",
    "generate bad.py",
    "verify bad.py ok.py",
    "synth --recipe bad.toml -o x.jsonl",
    "synth stats bad.jsonl",
    "synth stats torn.jsonl",
    "data build bad.toml -o x",
    "data build torn.toml -o x",
    "train sft bad.toml -o x",
]


@pytest.mark.parametrize("line", MISSING + UNWRITABLE + UNREACHABLE + NOT_TEXT)
def test_bad_input_of_every_verb_gives_a_line_a_remedy_and_json(run, line):
    done = run(*line.split(), "--json")
    assert done.code == 2
    error = json.loads(done.out)["error"]
    assert error["kind"] == "usage"
    assert error["message"]
    assert error["remedy"]
    assert error["message"] in done.err
    assert "Traceback" not in done.err
    assert not [name for name in ("x", "x.jsonl", "x.json", "out") if Path(name).exists()]


@pytest.mark.slow
@pytest.mark.parametrize("line", [*MISSING, *UNREACHABLE])
def test_a_wrong_path_is_told_before_torch_is_imported(line):
    code = (
        "import sys, kernelwright.cli.main as cli\n"
        f"code = cli.run({line.split()!r})\n"
        "sys.exit(code if 'torch' not in sys.modules else 99)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr


def test_a_line_that_is_not_utf8_is_named(run):
    assert "bad.py:2: this line is not UTF-8" in run("optimize", "bad.py").err
    assert "torn.jsonl:1: this line is not JSON" in run("synth", "stats", "torn.jsonl").err


@pytest.mark.parametrize("words", [["optimize", "--polcy", "x"], ["nonsense"], ["verify", "a"]])
def test_wrong_options_are_json_too(run, words):
    done = run(*words, "--json")
    assert done.code == 2
    assert json.loads(done.out)["error"]["remedy"].endswith("--help`")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ENOENT])
def test_a_disk_that_fails_is_the_users(capsys, number):
    error = OSError(number, os.strerror(number), "out/records.jsonl")
    assert show(error, as_json=True) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["file"] == "out/records.jsonl"
    assert error["remedy"]


def test_a_full_disk_below_a_failure_of_ours_is_the_users():
    cause = OSError(errno.ENOSPC, "full")
    error = InfraError("a step of ours")
    error.__cause__ = cause
    assert show(error, as_json=False) == 2


def test_an_os_error_without_a_path_is_ours():
    assert file_error(OSError(errno.ENOENT, "x")) is None
    assert file_error(ConnectionResetError(errno.ECONNRESET, "x", "path")) is None


def raised(error):
    """The error with a traceback."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def test_a_fault_of_ours_is_one_line_and_a_file_with_the_traceback(capsys, monkeypatch):
    monkeypatch.delenv("KERNELWRIGHT_TRACEBACK", raising=False)
    assert show(raised(RuntimeError("a bug")), as_json=False) == 3
    said = capsys.readouterr().err
    assert "Traceback" not in said
    path = Path(re.search(r"traceback: (\S+)", said)[1])
    assert "RuntimeError: a bug" in path.read_text()
    path.unlink()


def test_a_variable_shows_the_traceback(capsys, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_TRACEBACK", "1")
    show(raised(RuntimeError("a bug")), as_json=False)
    assert "Traceback" in capsys.readouterr().err


def test_under_json_what_modules_print_stays_off_stdout(run, monkeypatch):
    def verify(*args, **options):
        sys.stdout.write("hello")
        raise UsageError("no", remedy="yes")

    monkeypatch.setitem(sys.modules, "kernelwright.verify.api", SimpleNamespace(verify=verify))
    done = run("verify", "ok.py", "ok.py", "--json")
    assert json.loads(done.out)["error"]["message"] == "no"
    assert "hello" in done.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_verb_with_a_line_and_its_code(run, monkeypatch, number, code):
    def verify(*args, **options):
        os.kill(os.getpid(), number)
        time.sleep(10)

    monkeypatch.setitem(sys.modules, "kernelwright.verify.api", SimpleNamespace(verify=verify))
    before = signal.getsignal(number)
    done = run("verify", "ok.py", "ok.py", "--json")
    assert done.code == code
    assert json.loads(done.out)["error"]["kind"] == "interrupted"
    assert "verify was interrupted" in done.err
    assert signal.getsignal(number) is before


def test_forked_children_of_a_verb_die_of_signals_as_any_process_does(run, monkeypatch):
    """A handler in Python never runs in a child that has just begun to wait for a lock."""
    ends = []

    def verify(*args, **options):
        child = os.fork()
        if child == 0:
            is_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
            os._exit(0 if is_default and signal.getsignal(signal.SIGINT) is signal.SIG_DFL else 1)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return verdict(True)

    monkeypatch.setitem(sys.modules, "kernelwright.verify.api", SimpleNamespace(verify=verify))
    assert run("verify", "ok.py", "ok.py").code == 0
    assert ends == [0]


def test_a_verb_that_ends_well_after_a_signal_keeps_the_signals_code(run, monkeypatch):
    def verify(*args, **options):
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        return verdict(True)

    monkeypatch.setitem(sys.modules, "kernelwright.verify.api", SimpleNamespace(verify=verify))
    done = run("verify", "ok.py", "ok.py")
    assert done.code == 143
    assert "accepted" in done.out


def test_verbs_whose_help_promises_to_resume_are_resumable():
    from typer.main import get_command

    def promising(command, words):
        for name, inner in getattr(command, "commands", {}).items():
            yield from promising(inner, [*words, name])
        texts = [getattr(parameter, "help", None) or "" for parameter in command.params]
        if any("same command" in text for text in texts):
            yield " ".join(words)

    assert set(promising(get_command(app), [])) <= RESUMABLE


def test_resumable_verbs_exist_and_say_how_to_go_on(capsys):
    from typer.main import get_command

    for verb in RESUMABLE:
        command = get_command(app)
        for word in verb.split():
            command = command.commands[word]
        show_interrupted(verb, 130, as_json=False)
        assert "run the same command again" in capsys.readouterr().err.replace("\n", " ")
