"""A recipe of supervised training: model, pairs, batches, budget. A recipe is read from TOML,
checked, and saved in the folder of the run.

docs/sft.md explains every setting; recipes/sft has examples.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from kernelwright.core import strict
from kernelwright.core.errors import UsageError
from kernelwright.policy.tokenizer import Longest

FRESH = "fresh"


class Packing(StrEnum):
    """The way in which pairs share rows of `max_tokens`."""

    DOCUMENTS = "documents"
    """Whole pairs side by side. Attention does not cross from a pair to another pair."""
    PLAIN = "plain"
    """Whole pairs side by side under one causal mask: a pair attends to the earlier pairs of its
    row too."""
    NONE = "none"
    """One pair in a row, with padding."""


class Dtype(StrEnum):
    """Dtypes of weights in training."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class Decay(StrEnum):
    """The shape in which the learning rate falls after warming up."""

    LINEAR = "linear"
    COSINE = "cosine"
    CONSTANT = "constant"


class Attention(StrEnum):
    """The way in which attention is limited to the tokens of a pair, in rows of several pairs."""

    MASKED = "masked"
    """PyTorch's attention, under a mask of blocks."""
    VARLEN = "varlen"
    """Flash attention by lengths (train/attention.py): CUDA only."""


class LossHead(StrEnum):
    """The code that computes the loss from the last hidden states."""

    MODEL = "model"
    """The model's own code: all logits at once. This code can be compiled with the model. For small
    vocabularies."""
    CHUNKED = "chunked"
    """TRL's code: logits in tiles, only for trained tokens. For large vocabularies."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fresh:
    """A model without training, and its tokenizer trained on the pairs."""

    vocabulary: int = 4096
    hidden: int = 384
    layers: int = 8
    heads: int = 6
    kv_heads: int = 2
    intermediate: int = 1024
    longest: Longest = Longest.LINE
    """The longest text that a token holds."""
    tokenizer_pairs: int = 6_000
    """Pairs that the tokenizer is trained on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lora:
    """Low-rank adapters are trained; the model's own weights stay."""

    rank: int = 16
    alpha: int = 32
    dropout: float = 0.0
    targets: tuple[str, ...] = ()
    """Names of linear layers with adapters. Empty: all linear layers except the output layer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSettings:
    """The model to train, and how it computes."""

    path: str = FRESH
    """Folder of a causal language model in Hugging Face's layout, "embedded" or "fresh"."""
    dtype: Dtype = Dtype.FLOAT32
    """The dtype of the weights in training; a GPU computes in bfloat16."""
    compile: bool = False
    gradient_checkpointing: bool = False
    loss_head: LossHead = LossHead.CHUNKED
    attention: Attention = Attention.MASKED
    fresh: Fresh = Fresh()
    lora: Lora | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Data:
    """The pairs to train on, and how they become rows."""

    files: tuple[str, ...] = ()
    """JSONL or Parquet files of pairs, or folders of such files."""
    tokens: str = ""
    """The folder of the tokens, which runs on the same pairs can share. Empty: a folder of the
    run."""
    max_tokens: int = 2048
    """The most tokens of a row. Longer pairs are left out and counted: a cut pair would teach the
    model not to end its answer."""
    packing: Packing = Packing.DOCUMENTS
    plans: bool = True
    """Whether answers include their plan. Without plans, a model learns the code alone."""
    plans_alone: tuple[str, ...] = ()
    """Sources whose pairs end with the plan: the row has no code, so the loss covers the tokens of
    the plan. The plan says which operators share a kernel, so the plan decides the speed."""
    reasoning: bool = False
    """Whether the model also learns the text that another model wrote before its answer
    (distillation of reasoning)."""
    answers: int | None = None
    """The most answers to each program: the first answers in the files. None: all answers."""
    levels: Mapping[str, float] = field(default_factory=dict)
    """Level -> number of times that a pair occurs in an epoch. 0.5: half of the pairs, drawn by
    chance. 2: each pair twice. A level without a number has 1."""
    sources: Mapping[str, float] = field(default_factory=dict)
    """Source -> number of times that a pair occurs in an epoch. The numbers of a pair's level and
    source are multiplied."""
    validation_pairs: int = 256
    """The most validation pairs of each level."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchSettings:
    """Sizes of an optimiser step and of a forward pass."""

    step_tokens: int = 131_072
    """Tokens of an optimiser step, padding included, over all processes."""
    micro_tokens: int = 32_768
    """Tokens of a forward pass of one process."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerSettings:
    """Settings of AdamW and of the learning rate."""

    learning_rate: float = 1e-3
    decay: Decay = Decay.LINEAR
    final_share: float = 0.0
    """The share of the learning rate that is left at the end."""
    warmup_steps: int = 50
    """Steps in which the learning rate rises. A run also warms up after it loads weights without
    the optimiser's state."""
    beta1: float = 0.9
    beta2: float = 0.95
    weight_decay: float = 0.1
    clip: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingBudget:
    """The end of the training. A recipe has exactly one of these numbers."""

    steps: int | None = None
    tokens: int | None = None
    """Tokens without padding."""
    epochs: float | None = None
    minutes: float | None = None
    """Minutes of training, summed over all parts of a resumed run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationSettings:
    """How often the loss on held-out pairs is measured."""

    every_steps: int = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointSettings:
    """How often checkpoints are written, and how many are kept."""

    every_steps: int = 1000
    every_minutes: float = 10.0
    """Whichever comes first."""
    keep: int = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class SupervisedRecipe(strict.Recipe):
    """All settings of a run of `train sft`.

    The constructor raises UsageError for values that are out of range or contradict each other.
    """

    budget: TrainingBudget
    seed: int = 0
    model: ModelSettings = ModelSettings()
    data: Data = Data()
    batch: BatchSettings = BatchSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    validation: ValidationSettings = ValidationSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    log_every_steps: int = 10

    def __post_init__(self) -> None:
        if self.data.plans_alone and not self.data.plans:
            raise UsageError(
                "data.plans_alone beside data.plans = false: nothing is left to learn",
                remedy="leave one of them out",
            )
        limits = [value for value in asdict(self.budget).values() if value is not None]
        if len(limits) != 1 or limits[0] <= 0:
            remedy = "give one of steps, tokens, epochs, minutes, above 0"
            raise UsageError(f"[budget] {asdict(self.budget)}", remedy=remedy)
        positive = {
            "data.max_tokens": self.data.max_tokens,
            "data.validation_pairs": self.data.validation_pairs,
            "data.answers": 1 if self.data.answers is None else self.data.answers,
            "optimizer.learning_rate": self.optimizer.learning_rate,
            "validation.every_steps": self.validation.every_steps,
            "checkpoints.every_steps": self.checkpoints.every_steps,
            "checkpoints.keep": self.checkpoints.keep,
            "log_every_steps": self.log_every_steps,
        }
        check_positive(positive)
        not_negative = {
            "optimizer.warmup_steps": self.optimizer.warmup_steps,
            **{f"data.levels.{name}": value for name, value in self.data.levels.items()},
            **{f"data.sources.{name}": value for name, value in self.data.sources.items()},
        }
        for name, value in not_negative.items():
            if not value >= 0:
                raise UsageError(f"{name} = {value}", remedy="give 0 or more")
        if self.model.attention is Attention.VARLEN and self.data.packing is not Packing.DOCUMENTS:
            raise UsageError(
                'model.attention = "varlen" is for data.packing = "documents"',
                remedy="change one of them",
            )
        if self.batch.micro_tokens < self.data.max_tokens:
            raise UsageError(
                f"batch.micro_tokens = {self.batch.micro_tokens}: no row of "
                f"{self.data.max_tokens} tokens fits in",
                remedy="raise it, or lower data.max_tokens",
            )

    def rows(self, processes: int) -> tuple[int, int]:
        """Rows of a forward pass, and forward passes of an optimiser step, of each process.

        Raises:
            UsageError: a step is not a whole number of forward passes.
        """
        rows = self.batch.micro_tokens // self.data.max_tokens
        tokens = rows * self.data.max_tokens * processes
        passes = round(self.batch.step_tokens / tokens)
        if passes < 1 or passes * tokens != self.batch.step_tokens:
            raise UsageError(
                f"batch.step_tokens = {self.batch.step_tokens} is no multiple of {tokens}: "
                f"{rows} rows of {self.data.max_tokens} tokens on {processes} processes",
                remedy="change batch.step_tokens or batch.micro_tokens",
            )
        return rows, passes


def check_positive(values: Mapping[str, float]) -> None:
    """Raises a UsageError for the first setting that is not above 0."""
    for name, value in values.items():
        if value <= 0:
            raise UsageError(f"{name} = {value}", remedy="give a number above 0")


FREE_TO_CHANGE = ("budget", "checkpoints", "log_every_steps")
"""Settings that a resumed run may change. They do not change the computation of a step, except that
the learning rate may fall faster or more slowly."""


def changed(before: Mapping[str, Any], after: Mapping[str, Any], where: str = "") -> list[str]:
    """Names of settings that differ between two resolved recipes, as `to_json` gives them."""
    names = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            names += changed(old, new, f"{where}{name}.")
        elif old != new:
            names.append(where + name)
    return names
