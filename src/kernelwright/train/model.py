"""Makes the model and the tokenizer of a recipe."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from kernelwright.core.errors import UsageError
from kernelwright.core.seed import derive
from kernelwright.policy.embedded import folder_of, fresh_model, load_model
from kernelwright.policy.tokenizer import train_tokenizer
from kernelwright.train import attention, checkpoints
from kernelwright.train.recipe import FRESH, Attention, Lora, SupervisedRecipe

if TYPE_CHECKING:
    from peft import LoraConfig
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def fresh_tokenizer(
    recipe: SupervisedRecipe, texts: Iterable[str], folder: Path
) -> "PreTrainedTokenizerBase":
    """The tokenizer of a fresh model. The tokenizer is trained once for a run, and then read from
    `folder`, which is complete or missing.

    Raises:
        UsageError: model.fresh.vocabulary is too small.
    """
    from transformers import AutoTokenizer

    if not (folder / "tokenizer.json").exists():
        fresh = recipe.model.fresh
        try:
            trained = train_tokenizer(
                texts,
                vocabulary=fresh.vocabulary,
                max_length=recipe.data.max_tokens,
                longest=fresh.longest,
            )
        except UsageError:  # a fault of the pairs
            raise
        except ValueError as error:
            raise UsageError(str(error), remedy="raise model.fresh.vocabulary") from error
        checkpoints.write_folder(folder, trained.save_pretrained)
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    return tokenizer


def make_model(
    recipe: SupervisedRecipe, tokenizer: "PreTrainedTokenizerBase | None"
) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """The model that a recipe names, on the CPU and ready to be trained, with its tokenizer.

    Args:
        tokenizer: the tokenizer of a fresh model. None for a model by path, whose folder has one.

    Raises:
        UsageError: the folder has no complete model, or the sizes of a fresh model contradict each
            other.
    """
    if recipe.model.attention is Attention.VARLEN and not torch.cuda.is_available():
        remedy = 'set model.attention = "masked"'
        raise UsageError('model.attention = "varlen" needs a CUDA device', remedy=remedy)
    model, tokenizer = _made(recipe, tokenizer)
    if recipe.model.attention is Attention.VARLEN:
        attention.register()
        model.set_attn_implementation(attention.NAME)
    return model, tokenizer


def _made(
    recipe: SupervisedRecipe, tokenizer: "PreTrainedTokenizerBase | None"
) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    dtype = getattr(torch, recipe.model.dtype)
    if recipe.model.path != FRESH:
        model, tokenizer = load_model(folder_of(recipe.model.path), "cpu", dtype)
        return model.train(), tokenizer
    assert tokenizer is not None
    fresh = recipe.model.fresh
    # `fresh_model` draws weights from torch's global generator.
    torch.manual_seed(derive(recipe.seed, "weights"))
    try:
        model = fresh_model(
            len(tokenizer),
            hidden=fresh.hidden,
            layers=fresh.layers,
            heads=fresh.heads,
            kv_heads=fresh.kv_heads,
            intermediate=fresh.intermediate,
            max_length=recipe.data.max_tokens,
        )
    except ValueError as error:
        raise UsageError(f"[model.fresh]: {error}", remedy="change its sizes") from error
    return model.to(dtype), tokenizer


def lora_config(lora: Lora) -> "LoraConfig":
    """PEFT's configuration of the adapters."""
    from peft import LoraConfig

    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets) or "all-linear",
        task_type="CAUSAL_LM",
    )
