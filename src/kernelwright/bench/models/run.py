"""Measures models by name behind the backend, case by case, and records each case."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import cast

from kernelwright.bench.models.child import BLOCKS, MEASURE, SEARCH, ModelStep
from kernelwright.bench.models.zoo import model_named
from kernelwright.bench.suite import RECORDS, CasesLeft
from kernelwright.bench.worker import BenchWorker
from kernelwright.core import record
from kernelwright.core.errors import InfraError
from kernelwright.core.kinds.models import BlockFields, ModelBlocksLine, ModelCaseLine
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.search.contest.side_by_side import MESSAGE_LIMIT

CHILD = "kernelwright.bench.models.child"
WHOLE, BY_BLOCK = "whole", "blocks"
PACKAGES = ("kernelwright", "torch", "triton", "numpy", "timm", "transformers")
REMEDY = "resume it as it was begun, or give another folder"

Key = tuple[str, str, str, int, str | None]
"""Model, dtype, phase, batch size, and path of the block."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelsPlan:
    """The settings of a run."""

    out: Path
    """The folder of records.jsonl and of the library of kernels. Cases with a record are not run
    again."""
    models: Sequence[str]
    dtypes: Sequence[str]
    phases: Sequence[str]
    by: Sequence[str]
    """`WHOLE`, `BY_BLOCK` or both."""
    is_small: bool
    device: str
    """"cpu" or "cuda"."""
    budget_s: float
    """Seconds of search for each graph."""
    timeout_s: float
    """Seconds that one process may take."""
    deadline_s: float
    """On the monotonic clock; cases not begun by then are left for the next run."""

    @property
    def records(self) -> Path:
        return self.out / RECORDS

    def head(self) -> Record:
        """The settings that all figures depend on. A run can be resumed only with the same head."""
        options = {"device": self.device, "is_small": self.is_small, "budget_s": self.budget_s}
        return {"record": "run", "command": "eval models", "options": options}


@dataclass(frozen=True, slots=True)
class _Subject:
    """A model in one dtype and phase."""

    model: str
    dtype: str
    phase: str
    batch: int

    @property
    def facts(self) -> Record:
        return asdict(self)

    def key(self, block: BlockFields | None) -> Key:
        path = block["name"] if block else None
        return self.model, self.dtype, self.phase, self.batch, path


def run_models(plan: ModelsPlan, say: Say) -> CasesLeft:
    """Run all cases that have no record, and append their records.

    Returns:
        The cases that were not begun. A model whose blocks were not listed counts as one case.

    Raises:
        UsageError: a library is not installed, a model is unknown, or the folder holds a run with
            other settings.
    """
    subjects = list(_subjects(plan))
    lines = _begun(plan)
    done = {_key(line) for line in record.of_kind(lines, ModelCaseLine)}
    blocks = {_key(line): line for line in record.of_kind(lines, ModelBlocksLine)}
    not_begun = 0
    for by, subject in product(plan.by, subjects):
        cases: list[BlockFields | None] = [None]
        if by == BY_BLOCK:
            key = subject.key(None)
            if key not in blocks:
                if time.monotonic() >= plan.deadline_s:
                    not_begun += 1
                    continue
                say(f"{_named(subject)}: listing the blocks")
                blocks[key] = _listed(plan, subject)
            cases = list(blocks[key].get("blocks", []))
        for block in cases:
            if subject.key(block) in done:
                continue
            if time.monotonic() >= plan.deadline_s:
                not_begun += 1
            else:
                _run_case(plan, subject, block, say)
    return CasesLeft(not_begun, failed=0)


def _subjects(plan: ModelsPlan) -> Iterator[_Subject]:
    for name in plan.models:
        model = model_named(name, is_small=plan.is_small)
        for (phase, batch), dtype in product(model.cases, plan.dtypes):
            if phase in plan.phases:
                yield _Subject(name, dtype, phase, batch)


def _key(line: ModelCaseLine | ModelBlocksLine) -> Key:
    block = cast(ModelCaseLine, line).get("block")
    path = block["name"] if block else None
    return line["model"], line["dtype"], line["phase"], line["batch"], path


def _begun(plan: ModelsPlan) -> list[Record]:
    """The records of the file. A file without records gets the head of the run.

    Raises:
        UsageError: the head has other settings.
    """
    record.cut_torn_line(plan.records)
    lines = list(record.read(plan.records)) if plan.records.exists() else []
    if not lines:
        record.append(plan.records, [plan.head() | {"environment": record.environment(PACKAGES)}])
        return []
    record.check_same(lines[0], plan.head(), str(plan.records), remedy=REMEDY)
    return lines


def _listed(plan: ModelsPlan, subject: _Subject) -> ModelBlocksLine:
    """The distinct blocks of a model, as a record that is appended."""
    facts = _step(plan, subject, BLOCKS, None)
    line = {"record": "model_blocks", **subject.facts, **facts}
    record.append(plan.records, [line])
    return cast(ModelBlocksLine, line)


def _run_case(plan: ModelsPlan, subject: _Subject, block: BlockFields | None, say: Say) -> None:
    """Search, then measure in a new process; append the record of the case."""
    name = f"{_named(subject)} {block['name'] if block else ''}".strip()
    say(f"{name}: searching")
    facts = _step(plan, subject, SEARCH, block)
    if "failed" not in facts:
        say(f"{name}: measuring")
        facts |= _step(plan, subject, MEASURE, block)
    line = {"record": "model_case", **subject.facts, "block": block, **facts}
    record.append(plan.records, [line])
    if "failed" in facts:
        say(f"{name}: failed: {facts['failed']}")


def _step(plan: ModelsPlan, subject: _Subject, step: str, block: BlockFields | None) -> Record:
    """The figures of a step, from a process of its own; {"failed": why} if the step fails."""
    job = ModelStep(
        step=step,
        **subject.facts,
        is_small=plan.is_small,
        block=block["name"] if block else None,
        device=plan.device,
        library=str(plan.out / "library"),
        budget_s=plan.budget_s,
    )
    # Triton reads the variable when it is imported.
    environment = {"TRITON_INTERPRET": "1"} if plan.device == "cpu" else {}
    with BenchWorker(CHILD, plan.out / "process.log", environment=environment) as process:
        try:
            return process.run(asdict(job), plan.timeout_s)
        except InfraError as error:
            return {"failed": f"{step}: {' '.join(str(error).split())[:MESSAGE_LIMIT]}"}


def _named(subject: _Subject) -> str:
    return f"{subject.model} {subject.dtype} {subject.phase} {subject.batch}"
