"""What the user gives wrong is named before anything is trained."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from sft_runs import make_recipe, make_rows, make_tokenizer, run, save_qwen2, texts, write_rows
from transformers import PreTrainedTokenizerFast

from kernelwright.core.errors import InfraError, UsageError
from kernelwright.policy.tokenizer import train_tokenizer
from kernelwright.train.folder import open_folder
from kernelwright.train.model import fresh_tokenizer
from kernelwright.train.process import beside_others

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("pairs") / "pairs.jsonl", make_rows(20))


@pytest.fixture(scope="module")
def qwen2(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "qwen2"
    save_qwen2(folder, make_tokenizer())
    return folder


def refused(recipe, folder, **options):
    with pytest.raises(UsageError) as caught:
        run(recipe, folder, **options)
    assert caught.value.remedy
    return str(caught.value)


def test_a_tokenizer_that_is_not_the_models(pairs, qwen2, tmp_path):
    model = shutil.copytree(qwen2, tmp_path / "model")
    lines = [json.dumps(row) for row in make_rows(200)]
    other = train_tokenizer(lines, vocabulary=1000, max_length=256)
    other.save_pretrained(model)
    said = refused(make_recipe(pairs, model={"path": str(model)}), tmp_path / "run")
    assert "tokenizer" in said
    assert str(model) in said


def test_a_tokenizer_that_was_half_written_is_none(pairs, tmp_path, monkeypatch):
    """The disk fills while it is saved; a resumed run trains it again."""
    recipe, rows = make_recipe(pairs), texts(make_rows(100))

    def saves_half(tokenizer, folder):
        (folder / "tokenizer.json").write_text(tokenizer.backend_tokenizer.to_str()[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(PreTrainedTokenizerFast, "save_pretrained", saves_half)
        with pytest.raises(OSError, match="No space"):
            fresh_tokenizer(recipe, rows, tmp_path / "tokenizer")
    assert not (tmp_path / "tokenizer").exists()
    made = fresh_tokenizer(recipe, rows, tmp_path / "tokenizer")
    again = fresh_tokenizer(recipe, [], tmp_path / "tokenizer")
    assert again.get_vocab() == made.get_vocab()
    assert again.chat_template == make_tokenizer().chat_template


def test_a_line_of_the_pairs_that_is_no_pair_is_not_blamed_on_the_vocabulary(tmp_path):
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text("not json\n")
    said = refused(make_recipe(pairs), tmp_path / "run")
    assert "is not JSON" in said
    assert "vocabulary" not in said


@pytest.mark.slow
def test_one_process_names_the_fault_and_the_other_blames_nobody(tmp_path):
    pairs, recipe = tmp_path / "pairs.jsonl", RECIPES / "sft" / "smoke.toml"
    pairs.write_text("not json\n")
    launch = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    verb = ["-m", "kernelwright.cli.main", "train", "sft", str(recipe), "--out", "run"]
    files = ["--set", f"data.files={json.dumps([str(pairs)])}"]
    command = [sys.executable, "-m", *launch, *verb, *files]
    source = str(RECIPES.parent / "src")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": source}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment
    )
    assert done.returncode
    assert done.stderr.count("is not JSON") == 1
    assert "Connection closed" not in done.stderr


def test_a_lost_connection_to_another_process_is_its_fault():
    with pytest.raises(InfraError, match="another process of this run has ended"), beside_others():
        raise RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:1")
    with pytest.raises(RuntimeError, match="out of memory"), beside_others():
        raise RuntimeError("CUDA out of memory")
    with pytest.raises(UsageError, match="closed by peer"), beside_others():
        raise UsageError("closed by peer")


def test_weights_that_end_too_early(pairs, qwen2, tmp_path):
    model = shutil.copytree(qwen2, tmp_path / "model")
    os.truncate(model / "model.safetensors", 100_000)
    said = refused(make_recipe(pairs, model={"path": str(model)}), tmp_path / "run")
    assert "model.safetensors" in said


def test_a_model_that_is_not_there(pairs, tmp_path):
    recipe = make_recipe(pairs, model={"path": str(tmp_path / "none")})
    assert "not a folder" in refused(recipe, tmp_path / "run")


def test_no_pairs(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    said = refused(make_recipe(tmp_path / "empty.jsonl"), tmp_path / "run")
    assert "empty" in said


@pytest.mark.parametrize(
    ("validation", "missing"), [(0.0, "to validate with"), (1.1, "to train on")]
)
def test_a_split_that_is_empty(validation, missing, tmp_path):
    path = write_rows(tmp_path / "a.jsonl", make_rows(20, validation=validation))
    assert f"no pairs {missing}" in refused(make_recipe(path), tmp_path / "run")


def test_pairs_that_are_all_too_long(pairs, qwen2, tmp_path):
    recipe = make_recipe(pairs, model={"path": str(qwen2)}, data={"max_tokens": 8})
    assert "20 are longer than 8 tokens" in refused(recipe, tmp_path / "run")


def test_a_source_that_no_pair_has(pairs, qwen2, tmp_path):
    recipe = make_recipe(pairs, model={"path": str(qwen2)}, data={"plans_alone": ["teecher"]})
    assert "no pair of teecher has a plan" in refused(recipe, tmp_path / "run")


def test_a_folder_in_use(pairs, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes").touch()
    assert "not empty" in refused(make_recipe(pairs), tmp_path / "run")
    assert "no run to resume" in refused(make_recipe(pairs), tmp_path / "run", resume=True)


def test_a_run_without_its_pairs_leaves_the_folder_usable(pairs, tmp_path):
    """The user corrects the name of the pairs, and gives the same command."""
    assert "mistyped" in refused(make_recipe(tmp_path / "mistyped.jsonl"), tmp_path / "run")
    open_folder(make_recipe(pairs), tmp_path / "run", resume=False)


def test_another_recipe_on_resuming(pairs, tmp_path):
    run(make_recipe(pairs, budget={"steps": 1}), tmp_path / "run")
    other = make_recipe(pairs, optimizer={"learning_rate": 0.5})
    said = refused(other, tmp_path / "run", resume=True)
    assert "optimizer.learning_rate" in said


def test_other_pairs_on_resuming(tmp_path):
    pairs = write_rows(tmp_path / "pairs.jsonl", make_rows(20))
    run(make_recipe(pairs, budget={"steps": 1}), tmp_path / "run")
    write_rows(pairs, make_rows(21))
    assert "not those" in refused(make_recipe(pairs), tmp_path / "run", resume=True)


def test_a_vocabulary_without_room(pairs, tmp_path):
    recipe = make_recipe(pairs, model={"fresh": {"vocabulary": 10}})
    assert "vocabulary" in refused(recipe, tmp_path / "run")


def test_heads_that_do_not_divide(pairs, tmp_path):
    recipe = make_recipe(pairs, model={"fresh": {"vocabulary": 320, "hidden": 31}})
    assert "model.fresh" in refused(recipe, tmp_path / "run")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_attention_that_this_machine_has_not(pairs, tmp_path):
    recipe = make_recipe(pairs, model={"attention": "varlen"})
    assert "CUDA" in refused(recipe, tmp_path / "run")


def test_fewer_rows_than_a_compiled_pass_takes(pairs, tmp_path):
    batch = {"step_tokens": 65_536, "micro_tokens": 65_536}
    recipe = make_recipe(pairs, model={"compile": True}, batch=batch)
    assert "fewer" in refused(recipe, tmp_path / "run")


def test_a_loss_that_is_no_number_ends_the_run(pairs, tmp_path):
    recipe = make_recipe(pairs, optimizer={"learning_rate": 1e30, "clip": 1e30})
    assert "not a number" in refused(recipe, tmp_path / "run")
