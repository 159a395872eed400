"""Training on a GPU: attention by lengths is attention under masks, and a compiled run learns."""

import numpy as np
import pytest
import torch
from sft_runs import losses, make_recipe, make_rows, run, write_rows

from kernelwright.policy.embedded import fresh_model
from kernelwright.train import attention
from kernelwright.train.recipe import Attention, Packing
from kernelwright.train.rows import Collator

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def gradients(model, how, rows):
    batch = Collator(pad_id=0, max_tokens=256, packing=Packing.DOCUMENTS, attention=how)(rows)
    batch.pop("num_tokens")
    batch = {name: x.cuda() if torch.is_tensor(x) else x for name, x in batch.items()}
    model.zero_grad()
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(**batch, use_cache=False).loss
    loss.backward()
    return loss.item(), torch.cat([each.grad.flatten() for each in model.parameters()])


def test_attention_by_lengths_has_the_gradients_of_attention_under_masks():
    rng = np.random.default_rng(0)
    rows = [
        {"input_ids": rng.integers(0, 300, 250), "trained": np.ones(250, bool), "seq_lengths": some}
        for some in ([100, 50, 1, 99], [250], [7] * 35 + [5])
    ]
    torch.manual_seed(0)
    model = fresh_model(
        320, hidden=96, layers=2, heads=6, kv_heads=2, intermediate=192, max_length=256
    ).cuda()
    loss, wanted = gradients(model, Attention.MASKED, rows)
    attention.register()
    model.set_attn_implementation(attention.NAME)
    by_lengths, found = gradients(model, Attention.VARLEN, rows)
    assert by_lengths == pytest.approx(loss, rel=2e-3)
    assert (found - wanted).norm() < 0.02 * wanted.norm()


def test_a_compiled_run_learns_and_goes_on(tmp_path):
    pairs = write_rows(tmp_path / "pairs.jsonl", make_rows(90))
    model = {"compile": True, "loss_head": "model", "attention": "varlen"}
    run(make_recipe(pairs, model=model), tmp_path / "run")
    run(make_recipe(pairs, model=model, budget={"steps": 20}), tmp_path / "run", resume=True)
    found = losses(tmp_path / "run")
    assert list(found) == list(range(1, 21))
    assert found[20] < found[12] < 0.8 * found[1]
