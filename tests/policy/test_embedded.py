"""Making, saving and loading a small model; every broken folder is named with its remedy."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from kernelwright.core.errors import UsageError
from kernelwright.policy.embedded import fresh_model, load_embedded, load_model, save_model
from kernelwright.policy.tokenizer import train_tokenizer

TINY = {"hidden": 32, "layers": 2, "heads": 4, "kv_heads": 2, "intermediate": 64}


def tokenizer_of(vocabulary=300):
    return train_tokenizer(["relu kernel\n" * 9], vocabulary=vocabulary, max_length=256)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a tiny model and its tokenizer."""
    torch.manual_seed(0)
    tokenizer = tokenizer_of()
    model = fresh_model(len(tokenizer), max_length=256, **TINY)
    folder = tmp_path_factory.mktemp("model")
    save_model(model, tokenizer, folder)
    assert model.dtype == torch.float32
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    """A copy to break."""
    return shutil.copytree(saved, tmp_path / "copy")


def test_what_is_saved_comes_back(saved):
    model, tokenizer = load_model(saved, "cpu")
    assert model.dtype == torch.bfloat16
    assert model.config.tie_word_embeddings
    assert model.config.eos_token_id == tokenizer.eos_token_id
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": "relu"}], add_generation_prompt=True, return_dict=False
    )
    logits = model(torch.tensor([ids])).logits
    again, _ = load_embedded("cpu", path=saved)
    assert torch.equal(logits, again(torch.tensor([ids])).logits)
    wide, _ = load_model(saved, "cpu", torch.float32)
    assert wide.dtype == torch.float32


@pytest.mark.parametrize("is_tied", [True, False])
def test_saving_leaves_the_model_as_it_is_and_makes_no_second_one(tmp_path, monkeypatch, is_tied):
    def never(*_):
        pytest.fail("a copy of the model takes as much memory again")

    tokenizer = tokenizer_of()
    model = fresh_model(len(tokenizer), max_length=256, **TINY)
    if not is_tied:
        model.config.tie_word_embeddings = False
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    dtype = model.config.dtype
    monkeypatch.setattr(type(model), "__deepcopy__", never, raising=False)
    save_model(model, tokenizer, tmp_path)
    assert model.config.dtype == dtype
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    saved = load_file(tmp_path / "model.safetensors")
    assert {value.dtype for value in saved.values()} == {torch.bfloat16}
    assert ("lm_head.weight" in saved) != is_tied
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "bfloat16"
    found, _ = load_model(tmp_path, "cpu")
    for name, value in found.state_dict().items():
        assert torch.equal(value, before[name].to(torch.bfloat16)), name


def test_the_size_that_ships_fits():
    model = fresh_model(
        4096, hidden=384, layers=9, heads=6, kv_heads=2, intermediate=1024, max_length=8192
    )
    assert 14e6 < sum(each.numel() for each in model.parameters()) < 16 * 2**20


@pytest.mark.parametrize(("hidden", "heads", "kv_heads"), [(32, 5, 1), (32, 4, 3), (36, 4, 2)])
def test_widths_that_do_not_divide_are_refused(hidden, heads, kv_heads):
    sizes = {**TINY, "hidden": hidden, "heads": heads, "kv_heads": kv_heads}
    with pytest.raises(ValueError, match="no even division"):
        fresh_model(300, max_length=64, **sizes)


def test_a_tokenizer_with_more_tokens_than_the_model_is_not_saved(tmp_path):
    tokenizer = tokenizer_of()
    with pytest.raises(ValueError, match="embeddings"):
        save_model(fresh_model(len(tokenizer) - 1, max_length=64, **TINY), tokenizer, tmp_path)


def refused(folder, match, load=load_model):
    with pytest.raises(UsageError, match=match) as caught:
        load(folder, "cpu") if load is load_model else load("cpu", path=folder)
    assert caught.value.remedy
    return caught.value.file


def test_no_weights_ship_is_said(tmp_path):
    assert refused(tmp_path, "comes without weights", load_embedded) == str(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    assert refused(folder, "safetensors" if "model" in name else name) == str(folder)


def test_a_folder_that_is_none(tmp_path):
    assert refused(tmp_path / "gone", "not a folder") == str(tmp_path / "gone")


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.5])
def test_truncated_weights_are_named(folder, share):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert refused(folder, "cannot be read") == str(path)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_half_a_json_is_named(folder, name):
    path = folder / name
    path.write_text(path.read_text()[:-40])
    assert refused(folder, "cannot be read") == str(path)


def test_weights_of_another_model_are_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    assert refused(folder, "missing or of other sizes") == str(folder)


def test_a_tokenizer_of_another_model_is_refused(folder):
    texts = [f"{a}{b}{c} " for a in "abcdefgh" for b in "ijklmnop" for c in "qrstuvwx"]
    train_tokenizer(texts, vocabulary=400, max_length=256).save_pretrained(folder)
    assert refused(folder, "the model 2") == str(folder / "tokenizer.json")


def test_a_tokenizer_without_the_marks_is_refused(folder):
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace("<plan>", "<other>"))
    assert refused(folder, "no tokens for <plan>", load_embedded) == str(path)
    load_model(folder, "cpu")  # of no concern where the model is somebody else's
