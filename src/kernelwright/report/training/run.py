"""Reads a training run from the records in its folder.

A resumed run has several parts in one file. A file may be read while the run writes it: a last line
without its end is left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.kinds.training import (
    AuditLine,
    ExampleLine,
    PartLine,
    PromotionLine,
    RlStepLine,
    RlValidationLine,
    StepLine,
    TrainingSummaryLine,
    ValidationLine,
)
from kernelwright.core.record import Record
from kernelwright.report.suite.page import RECORDS

AUDITS, EXAMPLES = "audits.jsonl", "examples.jsonl"
"""Beside the records; either may be missing."""
STEP = {"train sft": "step", "train rl": "rl_step"}
"""The kind of the step records, by command."""
VALIDATION = {"train sft": "validation", "train rl": "rl_validation"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """The records of a training run, over all of its parts."""

    folder: Path
    parts: list[PartLine]
    """Where the run began, and wherever it was resumed."""
    lines: dict[str, list[Record]]
    """Kind -> its records, over all parts; each step is there once."""
    audits: list[AuditLine] = field(default_factory=list)
    examples: list[ExampleLine] = field(default_factory=list)

    @property
    def command(self) -> str:
        return str(self.parts[0]["command"])

    @property
    def is_rl(self) -> bool:
        return self.command == "train rl"

    @property
    def steps(self) -> list[Record]:
        return self.lines.get(STEP[self.command], [])

    @property
    def validations(self) -> list[Record]:
        return self.lines.get(VALIDATION[self.command], [])

    @property
    def sft_steps(self) -> list[StepLine]:
        return self._of(StepLine)

    @property
    def sft_validations(self) -> list[ValidationLine]:
        return self._of(ValidationLine)

    @property
    def rl_steps(self) -> list[RlStepLine]:
        return self._of(RlStepLine)

    @property
    def rl_validations(self) -> list[RlValidationLine]:
        return self._of(RlValidationLine)

    def _of(self, kind: type[record.Kind]) -> list[record.Kind]:
        return list(record.of_kind(self.lines.get(record.word_of(kind), []), kind))

    @property
    def promotions(self) -> list[PromotionLine]:
        return self._of(PromotionLine)

    @property
    def summary(self) -> TrainingSummaryLine:
        """The summary of the last part; empty if that part was killed or is still running."""
        summaries = self._of(TrainingSummaryLine)
        is_whole = summaries and summaries[-1]["step"] >= self.steps[-1]["step"]
        return summaries[-1] if is_whole else TrainingSummaryLine()

    @property
    def gpu_hours(self) -> float | None:
        """GPU-hours over all parts and processes; None without a GPU.

        They come from the run's summary, or without one from the seconds of its steps.
        """
        if not self.parts[-1]["environment"]["gpu"]:
            return None
        if (hours := self.summary.get("gpu_hours")) is not None:
            return hours
        ends = [part["from_step"] for part in self.parts[1:]] + [self.steps[-1]["step"]]
        seconds = sum(
            (self._seconds_until(end) - self._seconds_until(part["from_step"])) * part["processes"]
            for part, end in zip(self.parts, ends, strict=True)
        )
        return seconds / 3600

    def _seconds_until(self, step: int) -> float:
        """Seconds of training since the run's beginning."""
        if self.is_rl:
            return sum(line["seconds"]["step"] for line in self.rl_steps if line["step"] <= step)
        took = [line["seconds"] for line in self.sft_steps if line["step"] <= step]
        return took[-1] if took else 0.0


def is_training(records: Path) -> bool:
    """Whether a file is one that `train` wrote."""
    return record.command_of(records) in STEP


def has_steps(records: Path) -> bool:
    """Whether a file is one that `train` wrote, with a step that has ended."""
    step = STEP.get(record.command_of(records))
    return step is not None and any(
        line.get("record") == step for line in record.read(records, whole=True)
    )


def read_training(folder: Path) -> Training:
    """The run in a folder that `train sft` or `train rl` wrote.

    Raises:
        UsageError: it holds no such run, or no step of it yet.
    """
    path = folder / RECORDS
    if not is_training(path):
        raise UsageError("no training run", file=str(path))
    parts: list[PartLine] = []
    kept: list[Record] = []
    for line in record.read(path, whole=True):
        part = record.as_kind(line, PartLine)
        if part is None:
            kept.append(line)
        else:
            # A resumed part trains the steps after its checkpoint again: each counts once.
            kept = [earlier for earlier in kept if earlier["step"] <= part["from_step"]]
            parts.append(part)
    lines: dict[str, list[Record]] = {}
    for line in kept:
        lines.setdefault(line["record"], []).append(line)
    training = Training(
        folder=folder,
        parts=parts,
        lines=lines,
        audits=list(
            record.of_kind(_beside(folder / AUDITS, ("step", "program", "source")), AuditLine)
        ),
        examples=list(record.of_kind(_beside(folder / EXAMPLES, ("step", "program")), ExampleLine)),
    )
    if not training.steps:
        raise UsageError("no step is recorded yet", file=str(path), remedy="ask again later")
    return training


def _beside(path: Path, key: Iterable[str]) -> list[Record]:
    """The records of a file beside the run's. Of records with equal keys the last one counts: a
    resumed run writes some again."""
    names = tuple(key)
    lines = record.read(path, whole=True) if path.is_file() else iter(())
    return list({tuple(line[name] for name in names): line for line in lines}.values())
