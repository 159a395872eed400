"""`kernelwright data build` as a whole."""

import json

import pytest

from kernelwright.core import record

RECIPE = """
title = "Two parts"
validation = 0.4

[draw.few]
operators = ["relu", "exp", "tanh", "sum"]
quality = { lint = false }
bounds = { bytes = [1, 4096] }

[[part]]
name = "level-1"
level = 1
draw = "few"
programs = 6
answers = 2

[[part]]
name = "level-2"
level = 2
draw = "few"
programs = 4
"""


def files(out):
    names = ("train.jsonl", "validation.jsonl", "README.md")
    return {name: (out / name).read_bytes() for name in names}


@pytest.fixture
def data_build(run, recipe):
    return lambda out, *argv: run("data", "build", recipe, "--out", out, *argv)


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


@pytest.mark.slow
def test_a_run_that_was_cut_goes_on_to_the_same_data_set(data_build, recipe, tmp_path):
    out = tmp_path / "set"
    summary = json.loads(data_build(out, "--workers", 2, "--json").out)
    assert summary["pairs"] == sum(summary["level"].values()) == sum(summary["split"].values())
    before = files(out)
    shards = sorted((out / "shards").iterdir())
    assert [shard.name for shard in shards] == ["level-1-00000.jsonl", "level-2-00000.jsonl"]
    shards[0].unlink()
    (out / "shards" / "level-1-00000.new").write_text('{"half": ')
    (out / "train.jsonl").unlink()
    assert "level 1" in data_build(out, "--workers", 1).out
    assert files(out) == before

    recipe.write_text(RECIPE.replace("programs = 6", "programs = 7"))
    refused = data_build(out)
    assert refused.code == 2
    assert "this file was begun with recipe.part" in refused.err
    assert files(out) == before


@pytest.mark.slow
def test_it_loads_as_a_data_set(data_build, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    out = tmp_path / "set"
    assert data_build(out, "--workers", 1, "--parquet").code == 0
    loaded = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))
    lines = list(record.read(out / "train.jsonl"))
    assert loaded["train"].num_rows == len(lines)
    assert loaded["train"][0]["prompt"] == lines[0]["prompt"]
    assert set(loaded["validation"]["split"]) == {"validation"}
    rows = datasets.Dataset.from_parquet(str(out / "train.parquet"), cache_dir=str(tmp_path))
    assert rows[0] == loaded["train"][0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("anwsers = 2", "recipe.toml: no setting 'part 1.anwsers'"),
        ("options = { depth = 3 }", "no setting 'options.depth'"),
        ('precision = "tf64"', "no such precision: tf64"),
        ('mode = "pur"', "no such mode: pur"),
        ('[verify]\ngrade = "recyled"', "no such grade: recyled"),
        ('source = "llm"\noptions = { model = "gpt" }', "not a model endpoint: gpt"),
    ],
)
def test_a_recipe_that_says_nonsense_leaves_no_folder(data_build, recipe, tmp_path, wrong, said):
    recipe.write_text(RECIPE.replace("answers = 2", wrong))
    refused = data_build(tmp_path / "set")
    assert refused.code == 2
    assert said in refused.err
    assert not (tmp_path / "set").exists()
