"""What a candidate says is printed as text: no terminal obeys it, and no encoding fails for it."""

import io
import json
import os
import subprocess
import sys
import tempfile

import pytest
from cli_runs import NO_KERNEL, TASK

from kernelwright.cli import console, failures
from kernelwright.core import record

CANDIDATE = (
    "import torch\n\n\ndef fused_operator(x0):\n"
    "    torch.x['\u202e\u00e9\u4e2d\U0001f600'] = 1\n    return [x0]\n"
)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["table", "json"])
def test_an_ascii_console_shows_any_verdict(flags, tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "candidate.py").write_text(CANDIDATE, encoding="utf-8")
    argv = ["verify", "task.py", "candidate.py", "--device", "cpu", *flags]
    plain = {"PYTHONIOENCODING": "ascii", "LANG": "C", "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-m", "kernelwright.cli.main", *argv],
        cwd=tmp_path,
        env={**os.environ, **plain},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert b"UnicodeEncodeError" not in done.stderr
    text = done.stdout.decode("ascii")
    assert "\\u202e" in text or "no_kernel" in text


@pytest.mark.parametrize("name", ["stdout", "stderr"])
@pytest.mark.parametrize("is_terminal", [False, True], ids=["pipe", "terminal"])
def test_streams_escape_what_they_cannot_encode(name, is_terminal, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, name, stream)
    printer = console.out if name == "stdout" else console.err
    monkeypatch.setattr(printer, "_force_terminal", is_terminal)
    console.escape_what_cannot_be_encoded()
    printer.print("\u4e2d\ud800")
    stream.flush()
    assert stream.buffer.getvalue() == b"\\u4e2d\\ud800\n"


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["table", "json"])
def test_a_file_that_is_not_utf_8_is_a_rejected_candidate(flags, run, tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "candidate.py").write_bytes(NO_KERNEL.encode() + b"# caf\xe9\n")
    files = (tmp_path / "task.py", tmp_path / "candidate.py")
    done = run("verify", *files, "--device", "cpu", *flags)
    assert done.code == 1
    assert "not UTF-8" in done.out


def test_a_fault_of_ours_that_quotes_a_surrogate_has_its_traceback_written(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert failures.show(ValueError("\ud800"), as_json=False) == failures.INFRA_CODE
    (file,) = tmp_path.iterdir()
    assert "\\ud800" in file.read_text()


def test_notes_hold_no_control_codes(capsys):
    console.note("a\x1b[31m\u202eb\ud800")
    assert capsys.readouterr().err == "a\\x1b[31m\\u202eb\\ud800\n"


@pytest.mark.slow
def test_one_candidate_that_no_file_can_hold_leaves_the_others_alone(run, tmp_path):
    texts = [f"{NO_KERNEL}# {mark}\n" for mark in ("plain", "\x00", "\ud800")]
    lines = [{"id": str(n), "reference": TASK, "candidate": text} for n, text in enumerate(texts)]
    record.append(tmp_path / "jobs.jsonl", lines)
    argv = (tmp_path / "jobs.jsonl", "--out", tmp_path / "run", "--device", "cpu", "--workers", 1)
    done = run("verify-many", *argv, "--json")
    assert done.code == 0
    assert json.loads(done.out)["codes"] == {"syntax_error": 2, "no_kernel": 1}
