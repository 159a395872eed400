"""What the user gives wrong is named before anything is trained."""

import errno
import json
import os
import shutil

import pytest
import torch
from sft_runs import make_recipe, make_rows, make_tokenizer, run, save_qwen2, texts, write_rows
from transformers import PreTrainedTokenizerFast

from kernelwright.core.errors import UsageError
from kernelwright.policy.tokenizer import train_tokenizer
from kernelwright.train.model import fresh_tokenizer


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
