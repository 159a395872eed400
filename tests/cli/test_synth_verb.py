"""`kernelwright synth`: files, what they hold, and what is refused."""

import json

import pytest

from kernelwright.core import record
from kernelwright.programs.text import parse
from kernelwright.synth import benchmark

RECIPE = """
operators = ["relu", "tanh", "sum", "mm"]
dtypes = ["float32"]
max_rank = 2
[bounds]
bytes = [16, 1e9]
[quality]
ranges = false
lint = true
avoid_benchmarks = false
"""


@pytest.fixture
def synth(run):
    return lambda *argv: run("synth", *argv)


@pytest.fixture
def draw(synth, tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPE)
    options = ("--recipe", tmp_path / "recipe.toml", "--workers", 1, "--no-lint")
    return lambda out, *argv: synth("--out", tmp_path / out, *options, *argv)


def test_programs_of_each_level_are_drawn_and_counted(draw, synth, tmp_path):
    done = draw("out.jsonl", "--level", "1,3", "--num", 6, "--seed", 7)
    assert done.code == 0
    assert "12  programs drawn" in done.out
    header, *programs = record.read(tmp_path / "out.jsonl")
    assert header["recipe"]["quality"]["lint"] is False
    assert [line["level"] for line in programs] == [1, 3] * 6
    assert all(len(parse(line["text"]).calls) == line["level"] for line in programs)
    done = synth("stats", tmp_path / "out.jsonl", "--html", tmp_path / "page.html")
    assert done.code == 0
    assert "of 4" in done.out
    assert (tmp_path / "page.html").read_text().count("<svg") == 11
    counted = json.loads(synth("stats", tmp_path / "out.jsonl", "--json").out)
    assert counted["programs"] == 12
    assert counted["groups"] == {"level 1": 6, "level 3": 6}
    assert sum(counted["operators"].values()) == 6 * 1 + 6 * 3


def test_the_same_command_again_adds_nothing_and_another_seed_is_refused(draw, tmp_path):
    draw("out.jsonl", "--level", 2, "--num", 3)
    before = (tmp_path / "out.jsonl").read_bytes()
    assert "3  were there before" in draw("out.jsonl", "--level", 2, "--num", 3).out
    refused = draw("out.jsonl", "--level", 2, "--num", 3, "--seed", 1)
    assert (refused.code, "seed = 0, not 1" in refused.err) == (2, True)
    assert (tmp_path / "out.jsonl").read_bytes() == before


def test_programs_of_other_files_are_avoided(draw, tmp_path):
    draw("one.jsonl", "--level", 2, "--num", 20)
    draw("two.jsonl", "--level", 2, "--num", 20, "--avoid", tmp_path / "one.jsonl")
    one, two = (
        {line["fingerprint"] for line in record.read(tmp_path / name) if "fingerprint" in line}
        for name in ("one.jsonl", "two.jsonl")
    )
    assert len(one) == len(two) == 20
    assert not one & two


def test_programs_of_the_frozen_set_are_avoided(draw, tmp_path, monkeypatch):
    draw("one.jsonl", "--level", 2, "--num", 20)
    frozen = {line["fingerprint"] for line in record.read(tmp_path / "one.jsonl") if "text" in line}
    monkeypatch.setattr(benchmark, "_text", lambda *_: (tmp_path / "one.jsonl").read_text())
    draw("two.jsonl", "--level", 2, "--num", 20)
    drawn = [line for line in record.read(tmp_path / "two.jsonl") if "text" in line]
    assert len(drawn) == len(frozen) == 20
    assert not frozen & {line["fingerprint"] for line in drawn}
    assert drawn[0]["drawn"]["refused"]["avoided"] >= 1


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--level", "5"], "no file"),
        (["--level", "five", "--out", "x.jsonl"], "--level five"),
        (["--level", "1,1", "--out", "x.jsonl"], "--level 1,1"),
    ],
    ids=["out", "level", "twice"],
)
def test_bad_usage_is_named_and_nothing_is_written(synth, argv, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = synth(*argv)
    assert (done.code, message in done.err) == (2, True)
    assert not (tmp_path / "x.jsonl").exists()
