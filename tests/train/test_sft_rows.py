"""Packing keeps every token once, and pairs of a row apart."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sft_runs import make_tokenizer, save_qwen2
from transformers import Qwen2Config, Qwen2ForCausalLM

from kernelwright.core.errors import UsageError
from kernelwright.train import attention
from kernelwright.train.recipe import Attention, Data, Packing
from kernelwright.train.rows import IGNORED, Collator, pack, select


def dataset(lengths, *, levels=None, sources=None, splits=None):
    """Pairs whose tokens say of which pair they are, and where in it; second halves are trained."""
    from datasets import Dataset

    count = len(lengths)
    return Dataset.from_dict(
        {
            "input_ids": [[1000 * i + j for j in range(n)] for i, n in enumerate(lengths)],
            "trained": [[j >= n // 2 for j in range(n)] for n in lengths],
            "tokens": lengths,
            "level": levels or [1] * count,
            "source": sources or ["teacher"] * count,
            "split": splits or ["train"] * count,
        }
    ).with_format("numpy")


@settings(max_examples=20)
@given(st.lists(st.integers(1, 64), min_size=1, max_size=40), st.sampled_from(list(Packing)))
def test_every_token_is_in_one_row_and_in_order(lengths, packing):
    data = Data(max_tokens=64, packing=packing)
    rows = pack(dataset(lengths), np.arange(len(lengths)), data)
    batch = Collator(pad_id=-7, max_tokens=64, packing=packing)(list(rows))
    ids, labels = batch["input_ids"].numpy(), batch["labels"].numpy()
    assert int(batch["num_tokens"]) == sum(lengths)
    found = ids[ids != -7]
    assert sorted(found) == [1000 * i + j for i, n in enumerate(lengths) for j in range(n)]
    for row in ids:
        kept = row[row != -7]
        assert (row[len(kept) :] == -7).all()
        same_pair = kept[1:] // 1000 == kept[:-1] // 1000
        assert (np.diff(kept)[same_pair] == 1).all()
    trained = labels[labels != IGNORED]
    assert (trained == ids[labels != IGNORED]).all()
    assert sorted(trained) == [
        1000 * i + j for i, n in enumerate(lengths) for j in range(n // 2, n)
    ]
    if packing is Packing.DOCUMENTS:
        positions = batch["position_ids"].numpy()
        assert (positions[ids != -7] == ids[ids != -7] % 1000).all()


def test_best_fit_leaves_little_room():
    lengths = np.random.default_rng(0).integers(5, 30, 1000).tolist()
    rows = pack(dataset(lengths), np.arange(1000), Data(max_tokens=64))
    assert sum(lengths) / (64 * len(rows)) > 0.97


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_qwen2(tmp_path_factory.mktemp("qwen2"), make_tokenizer()).eval()


def mean_loss(model, lengths, packing, how=Attention.MASKED):
    """Of the trained tokens, all rows in one batch."""
    pairs = dataset(lengths)
    pairs = pairs.map(lambda row: {"input_ids": row["input_ids"] % 300}).with_format("numpy")
    rows = pack(pairs, np.arange(len(lengths)), Data(max_tokens=64, packing=packing))
    batch = Collator(pad_id=0, max_tokens=64, packing=packing, attention=how)(list(rows))
    batch.pop("num_tokens")
    with torch.no_grad():
        return model(**batch, use_cache=False).loss.item()


def test_packed_pairs_do_not_see_each_other(model):
    lengths = [40, 20, 30, 25, 9, 64]
    alone = mean_loss(model, lengths, Packing.NONE)
    assert mean_loss(model, lengths, Packing.DOCUMENTS) == pytest.approx(alone, rel=1e-5)
    assert mean_loss(model, lengths, Packing.PLAIN) != pytest.approx(alone, rel=1e-5)


def one_by_one(query, key, value, begins, _, longest, __, *, scale, window_size):
    """What PyTorch computes on a GPU: (tokens, H, D), causal within each sequence."""
    before, after = window_size
    assert after == 0
    parts = []
    for a, b in pairwise(begins.tolist()):
        assert b - a <= longest
        q, k, v = (each[a:b].transpose(0, 1) for each in (query, key, value))
        seen = torch.ones(b - a, b - a, dtype=torch.bool).tril()
        if before >= 0:
            seen = seen.triu(-before)
        made = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=seen, scale=scale
        )
        parts.append(made.transpose(0, 1))
    return torch.cat(parts)


@pytest.fixture(scope="module")
def windowed():
    """Its second layer attends to eight tokens."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=320, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
        use_sliding_window=True, sliding_window=8, max_window_layers=1, initializer_range=0.4,
    )  # fmt: skip
    return Qwen2ForCausalLM(config).eval()


@pytest.mark.parametrize("name", ["model", "windowed"])
def test_attention_by_lengths_is_that_by_masks(name, request, monkeypatch):
    model = request.getfixturevalue(name)
    lengths = [40, 20, 30, 25, 9, 64]
    masked = mean_loss(model, lengths, Packing.DOCUMENTS)
    monkeypatch.setattr(attention, "varlen_attn", one_by_one)
    attention.register()
    model.set_attn_implementation(attention.NAME)
    try:
        by_lengths = mean_loss(model, lengths, Packing.DOCUMENTS, Attention.VARLEN)
    finally:
        model.set_attn_implementation("sdpa")
    assert by_lengths == pytest.approx(masked, rel=1e-5)


def test_mixtures_have_the_factors_of_level_and_source():
    number = 4000
    pairs = dataset(
        [3] * number,
        levels=[1 + i % 2 for i in range(number)],
        sources=["teacher" if i < number // 2 else "llm" for i in range(number)],
    )
    data = Data(levels={"2": 0.3}, sources={"llm": 2.5})
    chosen = select(pairs, data, seed=0).train
    counts = np.bincount(chosen, minlength=number).reshape(2, -1, 2).mean(axis=1)
    assert counts[0, 0] == 1
    assert counts[1, 0] == pytest.approx(2.5, abs=0.1)
    assert counts[0, 1] == pytest.approx(0.3, abs=0.05)
    assert counts[1, 1] == pytest.approx(0.75, abs=0.08)
    assert (select(pairs, data, seed=0).train == chosen).all()
    assert select(pairs, data, seed=1).train.tolist() != chosen.tolist()


@pytest.mark.parametrize(
    ("data", "said", "there"),
    [
        (Data(levels={"1": 1.0, "3": 2.0}), "data.levels.3", "the pairs have 1, 2"),
        (Data(sources={"teachr": 0.5}), "data.sources.teachr", "the pairs have llm, teacher"),
    ],
)
def test_a_factor_of_what_no_pair_has_is_refused(data, said, there):
    pairs = dataset([3, 3], levels=[1, 2], sources=["teacher", "llm"])
    with pytest.raises(UsageError, match=said) as caught:
        select(pairs, data, seed=0)
    assert caught.value.remedy == there


def test_validation_pairs_are_never_trained_and_are_limited_by_level():
    pairs = dataset(
        [3] * 90 + [99] * 10,
        levels=[1 + i % 3 for i in range(100)],
        splits=["validation" if i % 2 else "train" for i in range(100)],
    )
    chosen = select(pairs, Data(max_tokens=64, validation_pairs=7), seed=0)
    assert chosen.too_long == 10
    assert {level: len(rows) for level, rows in chosen.validation.items()} == {1: 7, 2: 7, 3: 7}
    held = np.concatenate(list(chosen.validation.values()))
    assert (held % 2 == 1).all()
    assert sorted(chosen.train) == list(range(0, 90, 2))
