"""`kernelwright train sft`: what it needs, says and exits with."""

import os
import signal

import pytest
from cli_runs import exit_code
from sft_runs import make_rows, write_rows

from kernelwright.train import installed

RECIPE = """
log_every_steps = 1
[budget]
steps = 3
[model.fresh]
vocabulary = 320
hidden = 32
layers = 1
heads = 2
kv_heads = 1
intermediate = 64
[data]
files = ["pairs.jsonl"]
max_tokens = 256
[batch]
step_tokens = 512
micro_tokens = 512
"""
COMMAND = ["train", "sft", "recipe.toml", "--out", "run", "--workers", "1"]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "pairs.jsonl", make_rows(30))
    (tmp_path / "recipe.toml").write_text(RECIPE)


def test_a_run_says_where_its_weights_are(tmp_path, capsys):
    assert exit_code(COMMAND) == 0
    said = capsys.readouterr()
    assert "3 steps" in said.out
    assert "best validation loss" in said.out
    assert "run/best" in said.err
    assert (tmp_path / "run" / "best" / "model.safetensors").exists()
    assert exit_code(COMMAND) == 2
    assert "--resume" in capsys.readouterr().err
    assert exit_code([*COMMAND, "--resume"]) == 0


def test_a_run_that_a_signal_ends_says_so_in_its_exit_code(monkeypatch, capsys):
    from kernelwright.train.records import Recorder

    say = Recorder.on_log

    def on_log(self, *args, **logs):
        say(self, *args, **logs)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Recorder, "on_log", on_log)
    assert exit_code(COMMAND) == 128 + signal.SIGTERM
    assert "--resume" in capsys.readouterr().err


def test_an_unknown_setting_is_bad_usage(tmp_path, capsys):
    (tmp_path / "recipe.toml").write_text(RECIPE + "tokens_per_step = 5\n")
    assert exit_code(COMMAND) == 2
    said = capsys.readouterr().err
    assert "recipe.toml" in said
    assert "batch.tokens_per_step" in said
    assert not (tmp_path / "run").exists()


def test_without_the_extra_it_is_said_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(installed, "NEEDED", ("trl", "no_such_library"))
    assert exit_code(COMMAND) == 2
    assert "pip install 'kernelwright[train]'" in capsys.readouterr().err
