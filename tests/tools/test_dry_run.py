"""The dry run of large models: jobs are recipes, models load, figures are those of the run."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from kernelwright.data.pairs.build import build
from kernelwright.data.pairs.recipe import PairsRecipe
from kernelwright.policy.embedded import WEIGHTS
from kernelwright.train.recipe import SupervisedRecipe as SftRecipe
from kernelwright.train.rl.recipe import RlRecipe
from tools.dry_run import JOBS, SIZES, SPARE, Job, Size, figures, large_tokenizer, run, save_model

TINY = Size(32, 1, 2, 1, 64, 4_200, True)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_every_job_is_a_recipe_with_its_settings(job):
    recipe = {"sft": SftRecipe, "rl": RlRecipe}[job.command]
    loaded = recipe.load(job.recipe, [f'model.path="{job.size}"', *job.settings])
    assert loaded.model.path == job.size
    assert job.size in SIZES


def test_sizes_are_those_of_the_names():
    """Parameters by the sizes alone; Qwen2.5-Coder has 0.49, 1.54 and 7.6 billion."""
    counts = {}
    for name, size in SIZES.items():
        head = size.hidden // size.heads
        attention = 2 * size.hidden * (size.hidden + size.kv_heads * head)
        layer = attention + 3 * size.hidden * size.intermediate
        ends = (1 if size.is_tied else 2) * size.vocabulary * size.hidden
        counts[name] = (size.layers * layer + ends) / 1e9
    assert counts == pytest.approx({"0.5b": 0.49, "1.5b": 1.54, "7b": 7.6}, rel=0.02)


def test_random_weights_have_the_size_and_read_the_tokenizers_tokens(tmp_path):
    save_model(tmp_path / "m", TINY)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "m", dtype="auto")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "m")
    assert model.dtype is torch.bfloat16
    assert model.get_input_embeddings().num_embeddings == TINY.vocabulary > len(tokenizer)
    assert model.config.eos_token_id == tokenizer.eos_token_id
    assert model.config.rope_parameters["rope_theta"] == 1e6


@pytest.mark.slow
def test_a_job_trains_and_its_record_says_how_fast(tmp_path):
    part = {"name": "few", "level": 1, "programs": 10, "draw": "small"}
    draw = {"small": {"operators": ["relu", "exp", "tanh"], "sizes": {"high": 64}}}
    bounds = {"bounds": {"bytes": [1, 65536]}, "quality": {"lint": False}}
    recipe = PairsRecipe.of(
        {"part": [part], "draw": {"small": draw["small"] | bounds}, "validation": 0.4}
    )
    build(recipe, tmp_path / "pairs", 1)
    file = tmp_path / "sft.toml"
    file.write_text(
        '[budget]\nsteps = 2\n[model]\npath = "x"\n[data]\nfiles = ["pairs"]\nmax_tokens = 1024\n'
        "[batch]\nstep_tokens = 1024\nmicro_tokens = 1024\n"
    )
    line = run(Job("tiny", "tiny", "sft", file, ("log_every_steps=1",)), TINY, tmp_path, 240.0)
    assert "error" not in line, line["error"]
    assert line["steps"] == 2
    assert line["tokens_per_s"] > 0
    assert json.dumps(line)


def test_a_tokenizer_of_the_vocabulary_of_a_large_model_reads_as_the_embedded_models(tmp_path):
    vocabulary = SIZES["7b"].vocabulary
    large_tokenizer(vocabulary).save_pretrained(tmp_path)
    large, own = (AutoTokenizer.from_pretrained(path) for path in (tmp_path, WEIGHTS))
    assert vocabulary - SPARE <= len(large) < vocabulary
    text = "def fused_operator(x0):\n    return torch.relu(x0)"
    assert large(text)["input_ids"] == own(text)["input_ids"]
    assert large.chat_template == own.chat_template


def test_a_job_that_fails_leaves_its_error(tmp_path):
    line = run(Job("none", "tiny", "sft", tmp_path / "none.toml", ()), TINY, tmp_path, 120.0)
    assert "none.toml" in line["error"]


def test_figures_of_a_run_without_steps_are_empty():
    assert figures([])["steps"] == 0
