"""Shards: files with the pairs of some programs of a part, each written by one worker.

A file holds a pair a line. The last line counts dropped answers, and lists the pairs, so that pairs
can be chosen without being read:
{"record": "tally", "programs": .., "answers": .., "dropped": {reason: count},
 "failures": [{"program": id, "error": text}, ..],
 "index": [[id, fingerprint of the program, digest of the answer], ..]}.
A file gets its name when it is whole. Its bytes do not depend on the worker that writes it.
"""

import gc
import json
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from kernelwright.core import record
from kernelwright.core.errors import InfraError, KernelwrightError, UsageError
from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.core.text import digest
from kernelwright.data.pairs.answers import AnswerSource, WrittenAnswer, make_source
from kernelwright.data.pairs.pair import (
    TOO_SLOW,
    UNVERIFIED,
    Pair,
    is_too_slow,
    make_pair,
    split_of,
    with_verdict,
)
from kernelwright.data.pairs.programs import Origin, PartPrograms, contaminates, programs_of
from kernelwright.data.pairs.recipe import PairsRecipe, RecipePart
from kernelwright.policy.answer import read_answer
from kernelwright.policy.prompt import Request
from kernelwright.programs.text import to_text
from kernelwright.synth.sample import GARBAGE
from kernelwright.verify.static import findings

ENTRY = "fused_operator"
FAILED = "failure of ours"
"""Why a program has no pairs where writing them raised, or ended the process."""


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


def shards_of(recipe: PairsRecipe) -> Iterator[Shard]:
    """All shards of a recipe, in the order of its parts.

    Raises:
        UsageError: a part's file cannot be read.
    """
    for part in recipe.part:
        num, size = len(programs_of(recipe, part)), part.programs_a_shard
        for number, first in enumerate(range(0, num, size)):
            yield Shard(part.name, number, first, min(first + size, num))


def read_shard(path: Path, wanted: Callable[[str], bool]) -> tuple[list[Record], Record]:
    """The pairs of a shard whose ids are wanted, and the shard's tally."""
    # Only wanted lines are parsed: the tally has the ids, and pairs are long.
    *lines, last = path.read_bytes().splitlines()
    tally: Record = json.loads(last)
    entries = zip(tally["index"], lines, strict=True)
    return [json.loads(line) for (name, *_), line in entries if wanted(name)], tally


def index_of(pairs: Sequence[Record]) -> list[list[str]]:
    """The index of a tally: for each pair its id, program fingerprint, answer digest."""
    return [
        [pair["id"], pair["canonical"], digest(pair["completion"][0]["content"])] for pair in pairs
    ]


def writes(recipe: Record, folder: str) -> "ShardWorker":
    """Make a worker in its process, from the recipe as JSON and the folder of the shards."""
    torch.set_num_threads(1)
    # Modules that are loaded now live as long as the worker: the collector need not look at them.
    gc.freeze()
    gc.set_threshold(GARBAGE)
    return ShardWorker(PairsRecipe.of(recipe), Path(folder))


class ShardWorker:
    """A worker that writes shards.

    A job is a `Shard` as JSON. The answer is its tally without the index. If the user has to mend
    something, the answer is {"usage": {"message": .., "file": .., "line": .., "remedy": ..}}. If a
    service that a source asks failed, after its own retries, the answer is {"infra": text}.
    """

    def __init__(self, recipe: PairsRecipe, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder
        self._parts: dict[str, _PartWriter] = {}

    def begin(self, job: Record) -> None:
        """Nothing to do beforehand."""

    def run(self, job: Record) -> Record:
        shard = Shard(**job)
        lost = _Lost(self.folder / f"{shard.name}.lost")
        try:
            pairs, tally = self._part(shard.part).write(shard, lost)
        except UsageError as error:
            return {"usage": error.to_json()}
        except InfraError as error:
            return {"infra": str(error)}
        record.rewrite(self.folder / shard.name, [*pairs, tally])
        lost.path.unlink(missing_ok=True)
        del tally["index"]  # long, and written: the parent needs the counts alone
        return tally

    def close(self) -> None: ...

    def _part(self, name: str) -> "_PartWriter":
        if name not in self._parts:
            (part,) = (part for part in self.recipe.part if part.name == name)
            programs = programs_of(self.recipe, part)
            source = make_source(part.source, part.options)
            self._parts[name] = _PartWriter(self.recipe, part, programs, source)
        return self._parts[name]


class _Lost:
    """The programs of a shard that kill their worker.

    A file marks the beginning and the end of each program. A program that two workers began and
    did not end is lost. After one such worker the cause may lie outside.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        marks = Counter(path.read_text().split() if path.exists() else ())
        self.programs = {
            int(mark[1:])
            for mark, times in marks.items()
            if mark[0] == "+" and times - marks[f"-{mark[1:]}"] > 1
        }

    @contextmanager
    def watching(self, index: int) -> Iterator[None]:
        """Mark the beginning and the end of work on a program."""
        with self.path.open("a") as file:
            file.write(f"+{index}\n")
            file.flush()  # before the work, which may end this process without warning
            try:
                yield
            finally:
                file.write(f"-{index}\n")


@dataclass(frozen=True, slots=True)
class _PartWriter:
    recipe: PairsRecipe
    part: RecipePart
    programs: PartPrograms
    source: AnswerSource

    def write(self, shard: Shard, lost: _Lost) -> tuple[list[Record], Record]:
        """The pairs of a shard, and its tally.

        Raises:
            UsageError, InfraError: a file of programs, or what a source asks, cannot be used. Any
                other failure of ours costs the program that it came with.
        """
        dropped: Counter[str] = Counter()
        pairs: list[Record] = []
        failures: list[Record] = []
        num_answers = 0
        for index in range(shard.first, shard.last):
            name = f"{self.part.name}/{index}"
            if index in lost.programs:
                dropped[FAILED] += 1
                failures.append({"program": name, "error": "it ended the process"})
                continue
            try:
                with lost.watching(index):
                    program = self._program(index)
                    lines = (
                        [] if isinstance(program, str) else list(self._lines(name, program, index))
                    )
            # The user's errors and failed services would meet every program: they end the shard.
            except KernelwrightError:
                raise
            except Exception as error:
                dropped[FAILED] += 1
                text = "".join(traceback.format_exception(error))
                failures.append({"program": name, "error": text})
                continue
            if isinstance(program, str):
                dropped[program] += 1
            num_answers += len(lines)
            for line in lines:
                if isinstance(line, str):
                    dropped[line] += 1
                else:
                    pairs.append(line)
        tally = {"record": "tally", "programs": shard.last - shard.first, "answers": num_answers}
        tally |= {"dropped": dict(sorted(dropped.items())), "failures": failures}
        return pairs, tally | {"index": index_of(pairs)}

    def _program(self, index: int) -> Origin | str:
        """A program, or the reason why there is no program to answer."""
        program = self.programs[index]
        if program is None:
            return "program given up"
        benchmark = contaminates(program.program, program.canonical, self.recipe.avoid)
        return f"program of {benchmark}" if benchmark else program

    def _lines(self, name: str, origin: Origin, index: int) -> Iterator[Record | str]:
        """A line for each answer, or why it is dropped without being judged."""
        for number, written in enumerate(self._answers(origin, index)):
            pair = self._pair(f"{name}/{number}", origin, written)
            yield pair if isinstance(pair, str) else _line(pair, written)

    def _answers(self, origin: Origin, index: int) -> list[WrittenAnswer]:
        seed = derive(self.recipe.seed, "answers", self.part.name, index)
        return self.source.answers(self._request(origin), limit=self.part.answers, seed=seed)

    def _request(self, origin: Origin) -> Request:
        return Request(
            program=origin.program,
            device=self.recipe.device,
            precision=self.part.precision,
            mode=self.part.mode,
        )

    def _pair(self, name: str, origin: Origin, written: WrittenAnswer) -> Pair | str:
        """The pair, or why the answer is dropped without being judged."""
        if written.candidate is None:
            return written.refused
        if written.verdict is not None and is_too_slow(written.verdict):
            return TOO_SLOW
        pair = make_pair(
            name,
            self._request(origin),
            written.candidate,
            origin.canonical,
            reasoning=written.reasoning,
            source=written.source or self.part.source,
            origin=origin.origin,
            licence=self.part.licence or _both(origin.licence, self.source.licence),
            verdict=UNVERIFIED,
            split=split_of(origin.canonical, self.recipe.validation, self.recipe.seed),
            program=to_text(origin.program),
            provenance=origin.provenance | written.provenance,
        )
        return _flaw(pair) or pair


def _line(pair: Pair, written: WrittenAnswer) -> Record:
    line = pair.to_json()
    return line if written.verdict is None else with_verdict(line, written.verdict)


def _both(one: str, other: str) -> str:
    return one if one == other else f"{one} AND {other}"


def _flaw(pair: Pair) -> str:
    """The flaw of an answer's text alone; empty where there is none."""
    answer = read_answer(pair.completion, origin=pair.source)
    if answer.candidate is None:
        return f"unreadable: {answer.malformed}"
    if not answer.candidate.plan:
        return "no plan"
    refusals = findings(answer.candidate.source, pair.mode, ENTRY, hints=False)
    return f"static rule: {refusals[0].rule}" if refusals else ""
