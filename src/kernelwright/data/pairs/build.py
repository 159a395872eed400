"""Builds a data set from a recipe: writes shards with several workers, judges, puts together.

A folder holds `build.json` (recipe, files, code and versions), `shards/`, `verify/` (records of
`verify-many`) and `failures.jsonl` (our own failures). For readers it holds `train.jsonl`,
`validation.jsonl`, `negatives.jsonl`, `README.md` and `summary.json`. The same recipe continues an
interrupted run.
"""

import json
import time
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.progress import Say
from kernelwright.core.record import Record, code_digest, version_of
from kernelwright.data.pairs.answers import make_source
from kernelwright.data.pairs.assemble import assemble
from kernelwright.data.pairs.card import card
from kernelwright.data.pairs.judged import judged, judging
from kernelwright.data.pairs.pair import TRAIN, VALIDATION
from kernelwright.data.pairs.recipe import PairsRecipe
from kernelwright.data.pairs.select import select
from kernelwright.data.pairs.shard import shards_of
from kernelwright.sandbox.workers.executor import Factory, Job
from kernelwright.sandbox.workers.local import LocalExecutor
from kernelwright.synth.benchmarks import known
from kernelwright.synth.parquet import check_pyarrow, write_rows

WRITING = ("core", "ops", "programs", "lint", "synth", "teacher", "policy", "verify", "data")
"""Packages whose code decides which pairs are written; `verify` has the static rules."""
FAILURES = "failures.jsonl"
SHARD_S = 3_600.0
"""A worker that takes longer for a shard is replaced."""
SAY_EVERY_S = 2.0


def build(
    recipe: PairsRecipe,
    out: Path,
    num_workers: int,
    *,
    parquet: bool = False,
    say: Say = lambda _: None,
) -> Record:
    """Build the recipe's data set in a folder, or what the folder lacks of it.

    Args:
        parquet: write train.parquet and validation.parquet too.

    Returns:
        The summary, also written as summary.json: see `assemble`.

    Raises:
        UsageError: the folder holds something else. Or a file that the recipe names cannot be
            read, or holds a text that is no program. Or a source refuses its options.
        InfraError: a shard could not be written. What is written stays good.
    """
    if parquet:
        check_pyarrow()
    begin_s = time.monotonic()
    known(recipe.avoid)  # workers would find out late, one after the other
    for part in recipe.part:
        make_source(part.source, part.options)
        judging(recipe, part.precision, part.mode).check()
    shards = list(shards_of(recipe))
    _begin(recipe, out)
    _write_shards(recipe, out, {shard.name: asdict(shard) for shard in shards}, num_workers, say)
    written_s = time.monotonic()
    paths = [out / "shards" / shard.name for shard in shards]
    say("choosing what is kept")
    selection = select(paths, recipe)
    verdicts = judged(paths, selection, recipe, out / "verify", num_workers, say)
    say("putting it together")
    summary = assemble(paths, selection, verdicts, recipe, out)
    (out / FAILURES).unlink(missing_ok=True)
    record.append(out / FAILURES, selection.failures)
    summary["seconds"] = {
        "shards": round(written_s - begin_s, 1),
        "rest": round(time.monotonic() - written_s, 1),
        "workers": num_workers,
    }
    (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    (out / "README.md").write_text(card(recipe, summary))
    if parquet:
        for split in (TRAIN, VALIDATION):
            write_rows(record.read(out / f"{split}.jsonl"), out / f"{split}.parquet")
    return summary


def _begin(recipe: PairsRecipe, out: Path) -> None:
    """Begin the folder, or check that it was begun with the same recipe, files, code and versions.

    Raises:
        UsageError: one of them differs: pairs of both would be mixed.
    """
    header = {
        "record": "pairs",
        "recipe": recipe.to_json(),
        "files": {
            file: sha256(Path(file).read_bytes()).hexdigest()[:16]
            for file in (*(part.file for part in recipe.part if part.file), *recipe.avoid)
        },
        "code": code_digest(WRITING),
        "versions": {name: version_of(name) for name in ("kernelwright", "torch", "numpy")},
    }
    path = out / "build.json"
    if path.exists():
        record.check_same(json.loads(path.read_text()), header, str(path))
    else:
        (out / "shards").mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(header, indent=1) + "\n")


def _write_shards(
    recipe: PairsRecipe, out: Path, shards: dict[str, Record], num_workers: int, say: Say
) -> None:
    """Write the shards that the folder lacks, with several workers.

    Raises:
        UsageError, InfraError: a worker says so, or a shard could not be written.
    """
    folder = out / "shards"
    jobs: list[Job] = [j for j in shards.items() if not (folder / j[0]).exists()]
    if not jobs:
        return
    arguments = {"recipe": recipe.to_json(), "folder": str(folder)}
    factory = Factory("kernelwright.data.pairs.shard:writes", arguments)
    begin_s = said_s = time.monotonic()
    num_answers, failed = 0, dict[str, str]()
    with LocalExecutor(factory, min(num_workers, len(jobs)), job_s=SHARD_S) as executor:
        for number, done in enumerate(executor.run(iter(jobs)), 1):
            if done.answer is None:
                failed[done.id] = done.failure
            elif "usage" in done.answer:
                raise UsageError(**done.answer["usage"])
            elif "infra" in done.answer:
                raise InfraError(f"{done.id} could not be written: {done.answer['infra']}")
            else:
                num_answers += done.answer["answers"]
            now_s = time.monotonic()
            if now_s - said_s > SAY_EVERY_S or number == len(jobs):
                said_s, rate = now_s, num_answers / (now_s - begin_s)
                say(f"{number} of {len(jobs)} shards, {num_answers} answers, {rate:.0f}/s")
    if failed:
        name, why = next(iter(failed.items()))
        raise InfraError(f"{len(failed)} shards could not be written; {name}: {why}")
