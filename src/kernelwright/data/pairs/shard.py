"""Shards: the pairs of some programs of a part, written by whatever process comes to them.

A file holds a pair a line, then a line that tells what became of everything else, and what lines
there are, for those who choose among them without reading all:
{"record": "tally", "programs": .., "answers": .., "dropped": {reason: count},
 "index": [[id, fingerprint of the program, digest of the answer], ..]}.
It has its name when it is whole, and is the same whoever writes it.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from kernelwright.core import record
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.data.pairs.answers import AnswerSource, Written, make_source
from kernelwright.data.pairs.pair import (
    TOO_SLOW,
    UNVERIFIED,
    Pair,
    digest,
    is_too_slow,
    make_pair,
    split_of,
    with_verdict,
)
from kernelwright.data.pairs.programs import Origin, Programs, contaminates, programs_of
from kernelwright.data.pairs.recipe import Part, Recipe
from kernelwright.policy.answer import read_answer
from kernelwright.policy.prompt import Request
from kernelwright.programs.text import to_text
from kernelwright.verify.static import findings

ENTRY = "fused_operator"


@dataclass(frozen=True, slots=True)
class Shard:
    """Programs `first` to `last`, exclusive, of a part."""

    part: str
    number: int
    first: int
    last: int

    @property
    def name(self) -> str:
        return f"{self.part}-{self.number:05d}.jsonl"


def shards_of(recipe: Recipe) -> Iterator[Shard]:
    """All of a recipe's, parts in its order.

    Raises:
        UsageError: a part's file cannot be read.
    """
    for part in recipe.part:
        num, size = len(programs_of(recipe, part)), part.programs_a_shard
        for number, first in enumerate(range(0, num, size)):
            yield Shard(part.name, number, first, min(first + size, num))


def read_shard(path: Path, wanted: Callable[[str], bool]) -> tuple[list[Record], Record]:
    """Those of its pairs whose ids are wanted, and its tally."""
    *lines, last = path.read_bytes().splitlines()
    tally: Record = json.loads(last)
    entries = zip(tally["index"], lines, strict=True)
    return [json.loads(line) for (name, *_), line in entries if wanted(name)], tally


def index_of(pairs: Sequence[Record]) -> list[list[str]]:
    """As a tally has it."""
    return [
        [pair["id"], pair["canonical"], digest(pair["completion"][0]["content"])] for pair in pairs
    ]


def writes(recipe: Record, folder: str) -> "ShardWorker":
    """The factory of the workers."""
    torch.set_num_threads(1)
    return ShardWorker(Recipe.of(recipe), Path(folder))


class ShardWorker:
    """A job is a `Shard` as JSON; the answer is its tally, without the index, or what is the user's
    to mend: {"usage": {"message": .., "file": .., "line": .., "remedy": ..}}, or {"infra": ..}
    where what a source asks failed, which has been tried again there."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder
        self._parts: dict[str, _PartWriter] = {}

    def begin(self, job: Record) -> None:
        """Nothing to do beforehand."""

    def run(self, job: Record) -> Record:
        shard = Shard(**job)
        try:
            pairs, tally = self._part(shard.part).write(shard)
        except UsageError as error:
            names = ("message", "file", "line", "remedy")
            return {"usage": {name: getattr(error, name) for name in names}}
        except InfraError as error:
            return {"infra": str(error)}
        path = self.folder / shard.name
        partial = path.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        record.append(partial, [*pairs, tally])
        partial.rename(path)
        return {name: count for name, count in tally.items() if name != "index"}

    def close(self) -> None: ...

    def _part(self, name: str) -> "_PartWriter":
        if name not in self._parts:
            (part,) = (part for part in self.recipe.part if part.name == name)
            programs = programs_of(self.recipe, part)
            source = make_source(part.source, part.options)
            self._parts[name] = _PartWriter(self.recipe, part, programs, source)
        return self._parts[name]


@dataclass(frozen=True, slots=True)
class _PartWriter:
    recipe: Recipe
    part: Part
    programs: Programs
    source: AnswerSource

    def write(self, shard: Shard) -> tuple[list[Record], Record]:
        dropped: Counter[str] = Counter()
        pairs: list[Record] = []
        num_answers = 0
        for index in range(shard.first, shard.last):
            found = self.programs[index]
            if found is None:
                dropped["program given up"] += 1
                continue
            if benchmark := contaminates(found, self.recipe.avoid):
                dropped[f"program of {benchmark}"] += 1
                continue
            for number, written in enumerate(self._answers(found, index)):
                num_answers += 1
                pair = self._pair(f"{self.part.name}/{index}/{number}", found, written)
                if isinstance(pair, str):
                    dropped[pair] += 1
                else:
                    pairs.append(_line(pair, written))
        tally = {"record": "tally", "programs": shard.last - shard.first, "answers": num_answers}
        tally |= {"dropped": dict(sorted(dropped.items())), "index": index_of(pairs)}
        return pairs, tally

    def _answers(self, found: Origin, index: int) -> list[Written]:
        seed = derive(self.recipe.seed, "answers", self.part.name, index)
        return self.source.answers(self._request(found), limit=self.part.answers, seed=seed)

    def _request(self, found: Origin) -> Request:
        return Request(
            program=found.program,
            device=self.recipe.device,
            precision=self.part.precision,
            mode=self.part.mode,
        )

    def _pair(self, name: str, found: Origin, written: Written) -> Pair | str:
        """The pair, or why the answer is dropped without being judged."""
        if written.candidate is None:
            return written.refused
        if written.verdict is not None and is_too_slow(written.verdict):
            return TOO_SLOW
        pair = make_pair(
            name,
            self._request(found),
            written.candidate,
            found.canonical,
            reasoning=written.reasoning,
            source=self.part.source,
            origin=found.origin,
            licence=self.part.licence or _both(found.licence, self.source.licence),
            verdict=UNVERIFIED,
            split=split_of(found.canonical, self.recipe.validation, self.recipe.seed),
            program=to_text(found.program),
            provenance=found.provenance | written.provenance,
        )
        return _flaw(pair) or pair


def _line(pair: Pair, written: Written) -> Record:
    line = pair.to_json()
    return line if written.verdict is None else with_verdict(line, written.verdict)


def _both(one: str, other: str) -> str:
    return one if one == other else f"{one} AND {other}"


def _flaw(pair: Pair) -> str:
    """What is wrong with an answer's text alone; empty where nothing is."""
    answer = read_answer(pair.completion, origin=pair.source)
    if answer.candidate is None:
        return f"unreadable: {answer.malformed}"
    if not answer.candidate.plan:
        return "no plan"
    found = findings(answer.candidate.source, pair.mode, ENTRY, hints=False)
    return f"static rule: {found[0].rule}" if found else ""
