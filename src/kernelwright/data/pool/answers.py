"""The contents of a pool: programs, the answers to each, and the judge's findings about them.

A shard is JSONL, a line a program. Tokens and log-probabilities are base64 of little-endian int32
and float16: as JSON numbers they would take three times the room.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import numpy as np

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict

HEAD, SHARDS, JUDGED, STEPS = "pool.json", "shards", "judged", "steps"
CARD, SUMMARY = "README.md", "summary.json"
PROGRAM = "pool_program"


class Chosen(StrEnum):
    """Why an answer is judged."""

    GREEDY = "greedy"
    BEST = "best"
    RANDOM = "random"
    TEACHER = "teacher"


@dataclass(kw_only=True, slots=True)
class PoolAnswer:
    """One distinct answer to a program."""

    number: int
    """Among the answers to its program."""
    writer: str
    """"policy" or "teacher"."""
    text: str
    is_cut_off: bool = False
    seed: int = 0
    copies: int = 1
    """How often the policy wrote this text."""
    malformed: str = ""
    """Why the answer holds no candidate; empty where it holds one."""
    planned_s: float | None = None
    """Seconds by the cost model, which believes the plan (`programs.traffic`)."""
    spills: int | None = None
    """Bytes of registers that spill on sm_90; None where nothing was compiled."""
    chosen: Chosen | None = None
    """None: not judged. An answer without a candidate needs no judging: it is wrong."""
    tokens: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    """(n,) int32, with the token that ends the answer unless it was cut off; empty for answers that
    nobody learns from."""
    logps: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float16))
    """(n,) float16: of each token by the writer, at the recipe's temperature."""
    verdict: Verdict | None = None
    """None where the answer is not judged, or our side failed."""

    @property
    def is_settled(self) -> bool:
        """Whether it is known to be right or wrong."""
        return bool(self.malformed) or self.verdict is not None

    def to_json(self) -> Record:
        values: Record = {
            name: getattr(self, name)
            for name in self.__slots__
            if name not in ("tokens", "logps", "verdict")
        }
        return values | {
            "tokens": _packed(self.tokens, np.int32),
            "logps": _packed(self.logps, np.float16),
        }

    @classmethod
    def from_json(cls, values: Record, verdict: Verdict | None) -> Self:
        chosen = values["chosen"]
        return cls(
            **{
                **values,
                "chosen": Chosen(chosen) if chosen else None,
                "tokens": _unpacked(values["tokens"], np.int32),
                "logps": _unpacked(values["logps"], np.float16),
            },
            verdict=verdict,
        )


@dataclass(kw_only=True, slots=True)
class PoolProgram:
    """A program of a pool, and its answers."""

    name: str
    """LEVEL/NUMBER, as "L5/12"."""
    level: int
    text: str
    """The program's canonical text."""
    fingerprint: str
    eager_s: float
    """Seconds of PyTorch by the cost model."""
    answers: list[PoolAnswer]

    def job_id(self, answer: PoolAnswer) -> str:
        """The id under which records of the judge have an answer: LEVEL/PROGRAM/ANSWER."""
        return f"{self.name}/{answer.number}"

    def to_json(self) -> Record:
        values: Record = {name: getattr(self, name) for name in self.__slots__}
        return {
            "record": PROGRAM,
            **values,
            "answers": [answer.to_json() for answer in self.answers],
        }


def read_head(folder: Path) -> Record:
    """The head record of a pool: its recipe and its environment.

    Raises:
        UsageError: the folder holds no pool.
    """
    path = folder / HEAD
    if not path.is_file():
        remedy = "make one: kernelwright data pool RECIPE.toml --out FOLDER"
        raise UsageError("no pool here", file=str(folder), remedy=remedy)
    (head,) = record.read(path)
    return head


def read_pool(folder: Path) -> Iterator[PoolProgram]:
    """The programs of a pool, with all verdicts that are there.

    Raises:
        UsageError: the folder holds no pool, or a file is broken.
    """
    read_head(folder)
    verdicts = read_verdicts(folder / JUDGED)
    for path in sorted((folder / SHARDS).glob("*.jsonl")):
        for line in record.read(path):
            yield _program(line, verdicts)


def _program(line: Record, verdicts: dict[str, Verdict]) -> PoolProgram:
    values = {name: value for name, value in line.items() if name not in ("record", "answers")}
    program = PoolProgram(**values, answers=[])
    for answer in line["answers"]:
        verdict = verdicts.get(f"{program.name}/{answer['number']}")
        program.answers.append(PoolAnswer.from_json(answer, verdict))
    return program


def read_verdicts(folder: Path) -> dict[str, Verdict]:
    """Job id -> verdict, from the records of `verify.many.run`. Failures of ours have no verdict.

    Empty before judging has begun.
    """
    path = folder / "records.jsonl"
    if not path.exists():
        return {}
    return {
        line["id"]: Verdict.from_json(line["verdict"])
        for line in record.read(path, whole=True)
        if line["record"] == "verdict"
    }


def _packed(values: np.ndarray, kind: type[Any]) -> str:
    return base64.b64encode(values.astype(np.dtype(kind).newbyteorder("<")).tobytes()).decode()


def _unpacked(text: str, kind: type[Any]) -> np.ndarray:
    raw = np.frombuffer(base64.b64decode(text), np.dtype(kind).newbyteorder("<"))
    return raw.astype(kind)
