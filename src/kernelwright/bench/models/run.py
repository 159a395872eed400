"""Measures models with the backend, case by case, and records each case. A case is a call of a
whole model or of a block."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import cast

from kernelwright.bench.models.child import BLOCKS, MEASURE, SEARCH, ModelStep
from kernelwright.bench.models.zoo import model_named
from kernelwright.bench.suite import RECORDS, RETRIED, CasesLeft
from kernelwright.bench.worker import BenchWorker
from kernelwright.core import record
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.kinds.models import BlockFields, ModelBlocksLine, ModelCaseLine
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.report.models import CaseKey, case_key
from kernelwright.search.contest.side_by_side import MESSAGE_LIMIT

CHILD = "kernelwright.bench.models.child"
WHOLE, BY_BLOCK = "whole", "blocks"
"""Values of `--by`: measure whole models, or their distinct blocks."""
PACKAGES = ("kernelwright", "torch", "triton", "numpy", "timm", "transformers")
"""Packages whose versions the head of the records has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelsPlan:
    """The settings of a run of `eval models`."""

    out: Path
    """The folder of records.jsonl and of the library of kernels. Cases with a record are not run
    again."""
    models: Sequence[str]
    """Names for `zoo.model_named`."""
    dtypes: Sequence[str]
    """Names of dtypes of torch."""
    phases: Sequence[str]
    """`zoo.PREFILL`, `zoo.DECODE` or `zoo.BATCH`."""
    by: Sequence[str]
    """`WHOLE`, `BY_BLOCK` or both."""
    is_small: bool
    device: str
    """"cpu" or "cuda"."""
    budget_s: float
    """Seconds of search for each graph."""
    timeout_s: float
    """The most seconds of a step, which has a process of its own."""
    deadline_s: float
    """A time of the monotonic clock, in seconds. Cases that have not begun by then are left for the
    next run."""

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

    def key(self, block: BlockFields | None) -> CaseKey:
        path = block["name"] if block else None
        return self.model, self.dtype, self.phase, self.batch, path


def run_models(plan: ModelsPlan, say: Say) -> CasesLeft:
    """Run the cases that are not settled, and append their records.

    A case is settled if it has a record whose reason code is not in `RETRIED`.

    Args:
        say: gets a line of progress for each step.

    Returns:
        The numbers of cases that the same command would run again. A model whose blocks were not
        listed counts as one case.

    Raises:
        UsageError: a library is not installed, a model is unknown, no model has a phase of the
            plan, or the folder holds a run with other settings.
    """
    subjects = list(_subjects(plan, say))
    if not subjects:
        remedy = "take another --phase"
        raise UsageError(f"no model has a call of {', '.join(plan.phases)}", remedy=remedy)
    lines = record.resumed(plan.records, plan.head())
    done = {case_key(line) for line in record.of_kind(lines, ModelCaseLine) if _is_settled(line)}
    listed = filter(_is_settled, record.of_kind(lines, ModelBlocksLine))
    blocks = {case_key(line): line for line in listed}
    _write_head(plan, subjects, blocks)
    not_begun = failed = 0
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
                _write_head(plan, subjects, blocks)
            failed += not _is_settled(blocks[key])
            cases = list(blocks[key].get("blocks", []))
        for block in cases:
            if subject.key(block) in done:
                continue
            if time.monotonic() >= plan.deadline_s:
                not_begun += 1
            else:
                failed += not _is_settled(_run_case(plan, subject, block, say))
    return CasesLeft(not_begun, failed)


def _is_settled(line: ModelCaseLine | ModelBlocksLine) -> bool:
    """Whether a record is final: it has figures, or the model itself failed. Cases that failed
    through a fault of ours run again."""
    return line.get("code") not in RETRIED


def _subjects(plan: ModelsPlan, say: Say) -> Iterator[_Subject]:
    """The calls of all models of the plan. A phase that a model lacks is said, and left out."""
    for name in dict.fromkeys(plan.models):
        model = model_named(name, is_small=plan.is_small)
        known = {phase for phase, _ in model.cases}
        if lacking := [phase for phase in plan.phases if phase not in known]:
            say(f"{name} has no {' and no '.join(lacking)}")
        for (phase, batch), dtype in product(model.cases, plan.dtypes):
            if phase in plan.phases:
                yield _Subject(name, dtype, phase, batch)


def _write_head(
    plan: ModelsPlan, subjects: Sequence[_Subject], blocks: Mapping[CaseKey, ModelBlocksLine]
) -> None:
    """Append the head, unless the last head is the same. The head has the number of `cases` as soon
    as the blocks of all models are listed."""
    head, keys = plan.head(), [subject.key(None) for subject in subjects]
    if BY_BLOCK not in plan.by:
        head["cases"] = len(keys)
    elif all(key in blocks and _is_settled(blocks[key]) for key in keys):
        num_whole = len(keys) if WHOLE in plan.by else 0
        head["cases"] = num_whole + sum(len(blocks[key].get("blocks", [])) for key in keys)
    record.begin(plan.records, head, PACKAGES)


def _listed(plan: ModelsPlan, subject: _Subject) -> ModelBlocksLine:
    """The record of a model's distinct blocks. The record is appended to the file."""
    facts = _step(plan, subject, BLOCKS, None)
    line = {"record": "model_blocks", **subject.facts, **facts}
    record.append(plan.records, [line])
    return cast(ModelBlocksLine, line)


def _run_case(
    plan: ModelsPlan, subject: _Subject, block: BlockFields | None, say: Say
) -> ModelCaseLine:
    """Search, then measure in a new process; append the record of the case, and return it."""
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
    return cast(ModelCaseLine, line)


def _step(plan: ModelsPlan, subject: _Subject, step: str, block: BlockFields | None) -> Record:
    """The figures of a step, which runs in a process of its own; {"failed": why, "code": "infra"}
    if the process dies or takes too long."""
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
            text = " ".join(str(error).split())[:MESSAGE_LIMIT]
            return {"failed": f"{step}: {text}", "code": "infra"}


def _named(subject: _Subject) -> str:
    return f"{subject.model} {subject.dtype} {subject.phase} {subject.batch}"
