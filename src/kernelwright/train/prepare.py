"""Prepares a run of supervised training: a model, and rows of tokens from files of pairs."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.train.disk import disk_may_be_full
from kernelwright.train.model import fresh_tokenizer, make_model
from kernelwright.train.pairs import TRAIN, FilePart, find_files, parts_of, read_part
from kernelwright.train.process import this_process
from kernelwright.train.recipe import FRESH, SupervisedRecipe
from kernelwright.train.rows import PairSelection, pack, select
from kernelwright.train.tokens import PairTokenizer, marked_template, token_dataset

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedData:
    """The model, the tokenizer and the rows of tokens of a run of supervised training."""

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    train: "Dataset"
    validation: "Mapping[int, Dataset]"
    """Level -> rows of validation pairs."""
    facts: Record
    """Numbers of pairs and seconds of stages, for the records."""


def prepare(recipe: SupervisedRecipe, folder: Path, workers: int) -> PreparedData:
    """Make the model, the tokenizer and the rows of tokens of a recipe.

    The first process of a machine does the work, and the others read the files that it made.

    Args:
        folder: the folder of the run.
        workers: the number of processes that tokenise.

    Raises:
        UsageError: there are no pairs to train on or to validate with, or a file or the model is
            broken.
    """
    files = find_files(recipe.data.files)
    with this_process().local_main_process_first(), disk_may_be_full(folder):
        times = [time.monotonic()]
        model, tokenizer = _model(recipe, parts_of(files), folder / "tokenizer")
        times.append(time.monotonic())
        how = PairTokenizer(
            tokenizer=tokenizer,
            template=marked_template(tokenizer),
            max_tokens=recipe.data.max_tokens,
            plans=recipe.data.plans,
            reasoning=recipe.data.reasoning,
            answers=recipe.data.answers,
            plans_alone=frozenset(recipe.data.plans_alone),
        )
        kept = Path(recipe.data.tokens) if recipe.data.tokens else folder / "tokens"
        pairs, digest = token_dataset(files, how, folder=kept, workers=workers)
        # Pairs without a plan were dropped on the way: a source that is gone had no plans.
        if how.plans_alone and (missing := how.plans_alone - set(pairs["source"])):
            raise UsageError(
                f"data.plans_alone: no pair of {', '.join(sorted(missing))} has a plan",
                remedy="name sources of the pairs, or leave data.plans_alone out",
            )
        pairs = pairs.with_format("numpy")
        times.append(time.monotonic())
        chosen = _chosen(pairs, recipe)
        train = pack(pairs, chosen.train, recipe.data)
        validation = {
            level: pack(pairs, rows, recipe.data) for level, rows in chosen.validation.items()
        }
        times.append(time.monotonic())
    stages = dict(zip(("model_s", "tokenize_s", "pack_s"), np.diff(times).tolist(), strict=True))
    facts = {"digest": digest, **_counts(pairs, chosen), "rows": len(train)}
    facts |= {"vocabulary": len(tokenizer), "parameters": model.num_parameters(), **stages}
    return PreparedData(
        model=model, tokenizer=tokenizer, train=train, validation=validation, facts=facts
    )


def _counts(pairs: "Dataset", chosen: PairSelection) -> Record:
    tokens = np.asarray(pairs["tokens"])
    return {
        "pairs": len(pairs),
        "pairs_too_long": chosen.too_long,
        "pairs_trained": len(chosen.train),
        "pairs_validation": {str(level): len(rows) for level, rows in chosen.validation.items()},
        "all_tokens": int(tokens.sum()),
        "epoch_tokens": int(tokens[chosen.train].sum()),
    }


def _model(
    recipe: SupervisedRecipe, parts: Sequence[FilePart], tokenizer_folder: Path
) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    if recipe.model.path != FRESH:
        return make_model(recipe, None)
    texts = _texts(parts, recipe.model.fresh.tokenizer_pairs)
    return make_model(recipe, fresh_tokenizer(recipe, texts, tokenizer_folder))


def _texts(parts: Sequence[FilePart], number: int) -> Iterator[str]:
    """Requests and answers of about `number` training pairs. All parts give equally many pairs."""
    for part in parts:
        pairs = (pair for pair in read_part(part) if pair.split == TRAIN)
        for pair in islice(pairs, -(-number // len(parts))):
            yield from (message["content"] for message in pair.messages)


def _chosen(pairs: "Dataset", recipe: SupervisedRecipe) -> PairSelection:
    chosen = select(pairs, recipe.data, recipe.seed)
    counts = {"train on": len(chosen.train), "validate with": len(chosen.validation)}
    for what, number in counts.items():
        if not number:
            raise UsageError(
                f"no pairs to {what}: of {len(pairs)}, {chosen.too_long} are longer than "
                f"{recipe.data.max_tokens} tokens",
                remedy="data needs both splits; see data.max_tokens, data.levels, data.sources too",
            )
    return chosen
