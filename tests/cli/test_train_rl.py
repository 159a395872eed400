"""`kernelwright train rl`: what it says and exits with."""

import functools

import pytest
from cli_runs import exit_code
from rl_runs import FakeJudges, make_programs, save_policy, write_programs

from kernelwright.train.rl import run

RECIPE = """
micro_tokens = 1024
[budget]
steps = 2
[model]
path = "model"
[programs]
files = ["programs.jsonl"]
[curriculum]
stages = [{ levels = { 1 = 1.0 } }]
[rollouts]
programs = 2
group = 2
max_tokens = 32
[judging]
device = "cpu"
[validation]
programs = 1
share = 0.3
"""
COMMAND = ["train", "rl", "recipe.toml", "--out", "run", "--workers", "1"]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    programs = make_programs(sizes=(24, 40))
    write_programs(tmp_path / "programs.jsonl", programs)
    save_policy(tmp_path / "model", programs, steps=20)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    with_fakes = functools.partial(run.train_rl, make_judges=lambda *_: FakeJudges())
    monkeypatch.setattr(run, "train_rl", with_fakes)


def test_a_run_says_how_far_it_came_and_where_its_weights_are(tmp_path, capsys):
    assert exit_code(COMMAND) == 0
    said = capsys.readouterr()
    assert "2 steps" in said.out
    assert "best validation" in said.out
    assert "run/best" in said.err
    assert (tmp_path / "run" / "last" / "model.safetensors").exists()
    assert exit_code(COMMAND) == 2
    assert "--resume" in capsys.readouterr().err
    assert exit_code([*COMMAND, "--resume"]) == 0
    assert exit_code([*COMMAND, "--resume", "--set", "budget.steps=3"]) == 0
    assert "3 steps" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ('[objective]\nreward = "applause"', "objective.reward"),
        ('[objective]\nreward = "hierarchical"', "hrd"),
        ('[objective]\nloss = "drpo"', "log_speed"),
        ("[objective]\nupdates = 3", "objective.updates"),
        ("[optimizer]\nlearning_rate = 0.0", "optimizer.learning_rate"),
        ("[checkpoints]\nevery = 3", "checkpoints.every"),
    ],
)
def test_what_makes_no_sense_is_bad_usage(setting, told, tmp_path, capsys):
    (tmp_path / "recipe.toml").write_text(f"{RECIPE}\n{setting}\n")
    assert exit_code(COMMAND) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
