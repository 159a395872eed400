"""Training on a GPU: attention by lengths is attention under masks, and a compiled run learns."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sft_runs import losses, make_recipe, make_rows, run, write_rows
from transformers import AutoModelForCausalLM

from kernelwright.policy.embedded import fresh_model
from kernelwright.train import attention
from kernelwright.train.recipe import Attention, Packing
from kernelwright.train.rows import Collator

ROOT = Path(__file__).parents[2]
SFT_RUNS = ROOT / "tests" / "train"
SHARDED = ["-m", "accelerate.commands.launch", "--config_file", ROOT / "recipes/sft/fsdp.yaml"]


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


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_a_run_sharded_over_two_gpus_learns_as_one_does_and_goes_on(tmp_path):
    pairs = write_rows(tmp_path / "pairs.jsonl", make_rows(90))
    for name, launch in (("one", []), ("two", [*SHARDED, "--num_processes", "2"])):
        for steps, resume in ((6, False), (12, True)):
            script = tmp_path / f"{name}-{steps}.py"
            script.write_text(
                f"import sys; sys.path.insert(0, {str(SFT_RUNS)!r})\n"
                "from pathlib import Path; from sft_runs import make_recipe, run\n"
                f"recipe = make_recipe({str(pairs)!r}, budget={{'steps': {steps}}})\n"
                f"run(recipe, Path({str(tmp_path / name)!r}), resume={resume})\n"
            )
            command = [sys.executable, *launch, str(script)]
            subprocess.run(command, check=True, timeout=240)
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert list(two) == list(range(1, 13))
    for step in range(1, 9):  # within the first epoch both see the same rows
        assert two[step] == pytest.approx(one[step], rel=2e-2)
    AutoModelForCausalLM.from_pretrained(tmp_path / "two" / "last")
