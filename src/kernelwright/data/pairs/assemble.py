"""Assembles the data set from its shards: a file for each split, the negatives, and counts."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from typing import Any

from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.data.pairs.pair import (
    TOO_SLOW,
    TRAIN,
    VALIDATION,
    is_rejected,
    is_too_slow,
    with_verdict,
)
from kernelwright.data.pairs.recipe import PairsRecipe
from kernelwright.data.pairs.select import ShardSelection
from kernelwright.data.pairs.shard import read_shard

NEGATIVES = "negatives"
NO_TASK = "no_task"
"""In place of a code, where the judge cannot judge by the program: its results are not finite, say.
"""
FILES = (TRAIN, VALIDATION, NEGATIVES)
COUNTED = ("source", "level", "difficulty", "verdict", "split", "licence", "origin", "kernels")


def assemble(
    paths: Iterable[Path],
    selection: ShardSelection,
    verdicts: Mapping[str, Verdict | None],
    recipe: PairsRecipe,
    out: Path,
) -> Record:
    """Write train.jsonl, validation.jsonl and negatives.jsonl.

    Negatives are the pairs that the judge rejected. They have `stage`, `message` and `line` too.

    Args:
        paths: all shards, in order.
        verdicts: by id of a pair; None where the judge cannot judge by the program.

    Returns:
        The summary: pairs by each of COUNTED, operators and loops, lengths by level, and the pairs
        of each part that were dropped.
    """
    counts = _PairCounts()
    with ExitStack() as stack:
        files = {
            name: stack.enter_context((out / f"{name}.jsonl").open("w", encoding="utf-8"))
            for name in FILES
        }
        for path in paths:
            for pair in read_shard(path, selection.kept.__contains__)[0]:
                name, line = _placed(pair, verdicts)
                counts.add(name, line)
                if name is not None:
                    files[name].write(json.dumps(line, allow_nan=False) + "\n")
    return counts.summary() | {
        "parts": selection.tallies,
        "judged": len(verdicts),
        "seed": recipe.seed,
    }


def _placed(pair: Record, verdicts: Mapping[str, Verdict | None]) -> tuple[str | None, Record]:
    """The file that a pair goes to, and its line there. No file if judging came to no result: a
    pair that is neither right nor wrong must teach nothing."""
    if pair["id"] in verdicts:
        verdict = verdicts[pair["id"]]
        if verdict is None:
            return None, pair | {"verdict": NO_TASK}
        if is_too_slow(verdict):
            return None, pair | {"verdict": TOO_SLOW}
        pair = with_verdict(pair, verdict)
    return NEGATIVES if is_rejected(pair) else pair["split"], pair


class _PairCounts:
    """Counts of kept pairs, and of dropped ones."""

    def __init__(self) -> None:
        self.by: dict[str, Counter[Any]] = {name: Counter() for name in COUNTED}
        self.operators: Counter[str] = Counter()
        self.loops: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()
        self.programs: set[str] = set()
        self.codes: set[int] = set()
        self.lengths: dict[int, list[int]] = defaultdict(list)
        self.requests: dict[int, list[int]] = defaultdict(list)

    def add(self, file: str | None, pair: Record) -> None:
        if file not in (TRAIN, VALIDATION):
            self.rejected[pair["verdict"]] += 1
            return
        for name in COUNTED:
            self.by[name][pair[name]] += 1
        self.operators.update(set(pair["operators"]))
        self.loops.update(pair["loops"])
        self.programs.add(pair["canonical"])
        answer = pair["completion"][0]["content"]
        self.codes.add(hash(answer.partition("</plan>")[2]))
        self.lengths[pair["level"]].append(len(answer))
        self.requests[pair["level"]].append(len(pair["prompt"][0]["content"]))

    def summary(self) -> Record:
        return {
            "pairs": sum(self.by["split"].values()),
            "programs": len(self.programs),
            "different_codes": len(self.codes),
            **{name: dict(sorted(counts.items())) for name, counts in self.by.items()},
            "operators": dict(self.operators.most_common()),
            "loops": dict(self.loops.most_common()),
            "rejected": dict(self.rejected.most_common()),
            "characters": {
                level: _spread(lengths) for level, lengths in sorted(self.lengths.items())
            },
            "request_characters": {
                level: _spread(lengths) for level, lengths in sorted(self.requests.items())
            },
        }


def _spread(values: list[int]) -> Record:
    """Quantiles of lengths in characters."""
    cuts = quantiles(values, n=100, method="inclusive") if len(values) > 1 else values * 99
    return {
        "least": min(values),
        "median": round(cuts[49]),
        "p90": round(cuts[89]),
        "p99": round(cuts[98]),
        "most": max(values),
        "total": sum(values),
    }
