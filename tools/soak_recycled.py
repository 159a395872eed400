"""`python -m tools.soak_recycled RECORDS`, from the root of a checkout.

Honest, wrong and hostile candidates go through one `Judge` a process, in a drawn order. Each honest
and wrong candidate has been judged `fresh` before, and each later verdict must equal that one.
Processes, memory and temporary files are counted on the way: they must not grow.
"""

import json
import multiprocessing
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from kernelwright.bench.judge.throughput import ThroughputPlan, jobs_of
from kernelwright.core import record
from kernelwright.core.candidate import Candidate
from kernelwright.core.seed import derive
from kernelwright.core.verdict import Verdict
from kernelwright.programs.parsing import parse
from kernelwright.sandbox.shared.contract import Limits
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.load import load_task
from kernelwright.verify.tasks.program_task import program_task
from kernelwright.verify.tasks.task import Task
from tests.sandbox.attacks import judging
from tests.sandbox.attacks.canaries import Canaries
from tests.sandbox.attacks.suite import ATTACKS

WALL_S = 30.0
"""Limit of a request to a guest."""
BATCH = 8
"""Candidates that a training run hands in together."""
HOSTILE_SHARE = 0.2
SAMPLE_EVERY = 100
"""Verdicts between two counts of processes and memory."""

Records = Annotated[Path, typer.Argument(help="The JSONL file to write.")]
Count = Annotated[int, typer.Option(help="Recycled verdicts of all processes together.")]
Programs = Annotated[int, typer.Option(help="Level-1 programs for each process.")]
Processes = Annotated[int, typer.Option(help="Judges side by side.")]
Device = Annotated[str, typer.Option(help='"cpu" or "cuda".')]


@dataclass(frozen=True, slots=True)
class Drawn:
    """One candidate of the mix."""

    name: str
    kind: str
    """"good", a kind of breakage, or "hostile"."""
    task: Task
    source: str


def main(
    records: Records,
    count: Count = 10_000,
    programs: Programs = 40,
    processes: Processes = 2,
    device: Device = "cpu",
) -> None:
    """Judge the mix, and write samples, differences and a summary."""
    begin_s = time.monotonic()
    plan = {"count": count, "programs": programs, "processes": processes, "device": device}
    shares = [(rank, count // processes, programs, device) for rank in range(processes)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        lines = [line for share in pool.starmap(soak, shares) for line in share]
    summary = {"record": "soak", "plan": plan, "hostile_share": HOSTILE_SHARE, **summed(lines)}
    summary |= {
        "seconds": round(time.monotonic() - begin_s, 1),
        "environment": record.environment(),
    }
    kept = [line for line in lines if line["record"] in ("sample", "difference")]
    records.write_text("".join(json.dumps(line) + "\n" for line in [*kept, summary]))
    typer.echo(json.dumps(summary, indent=1))


def soak(rank: int, count: int, programs: int, device: str) -> list[dict[str, Any]]:
    """One process's share: its samples, differences and counts as records."""
    rng = random.Random(derive(rank, "soak"))
    place = Path(tempfile.mkdtemp(prefix="soak-"))
    tempfile.tempdir = str(place / "temporary")
    Path(tempfile.tempdir).mkdir()
    (place / "canaries").mkdir()
    with Canaries(place / "canaries") as canaries:
        usual = usual_candidates(rank, programs, device)
        hostile = hostile_candidates(place, canaries)
        fresh = {drawn.name: verdict for drawn, verdict in judged("fresh", [usual], device)}
        batches = mix(usual, hostile, count, rng)
        lines = []
        for line in watched(rank, judged("recycled", batches, device), fresh, canaries):
            typer.echo(json.dumps(line))  # what is known, should the run be ended
            lines.append(line)
        return lines


def usual_candidates(rank: int, programs: int, device: str) -> list[Drawn]:
    """Right and wrong candidates of level-1 programs, as a training run sends them."""
    jobs = jobs_of(ThroughputPlan(device=device, programs=programs, seed=rank))
    tasks = {job.reference: program_task(parse(job.reference)) for job in jobs}
    return [
        Drawn(job.id, job.id.rpartition("/")[2], tasks[job.reference], job.candidate)
        for job in jobs
        if not job.id.endswith("/hang")  # the limit of wall time, over and over
    ]


def hostile_candidates(place: Path, canaries: Canaries) -> list[Drawn]:
    """The attacks of the suite, except those that wait for the limit of wall time."""
    tasks = {}
    for name, text in {"program": judging.PROGRAM, "model": judging.REFERENCE}.items():
        (place / f"{name}.py").write_text(text)
        tasks[name] = load_task(place / f"{name}.py")
    return [
        Drawn(
            attack.name,
            "hostile",
            tasks["model" if attack.is_module else "program"],
            attack.source(canaries.facts),
        )
        for attack in ATTACKS.values()
        if not attack.hangs and not attack.reads_source
    ]


def mix(
    usual: Sequence[Drawn], hostile: Sequence[Drawn], count: int, rng: random.Random
) -> Iterator[list[Drawn]]:
    """Batches: candidates of one program, as a judge gets them, with hostile ones in between."""
    by_task: dict[int, list[Drawn]] = {}
    for drawn in usual:
        by_task.setdefault(id(drawn.task), []).append(drawn)
    tasks, left = list(by_task), count
    while left > 0:
        rng.shuffle(tasks)
        for task in tasks:
            batch = [
                rng.choice(hostile if rng.random() < HOSTILE_SHARE else by_task[task])
                for _ in range(min(BATCH, left))
            ]
            left -= len(batch)
            if batch:
                yield batch


def judged(
    grade: str, batches: Iterable[list[Drawn]], device: str
) -> Iterator[tuple[Drawn, Verdict]]:
    """Each candidate with its verdict. The static rules are off, so that guests run them all.

    Raises:
        InfraError: the judge fails at a candidate, which no candidate may cause.
    """
    with Judge(
        JudgeOptions(device=device, mode="pure", grade=grade, checks="runs"),
        limits=Limits(wall_s=WALL_S),
        times=False,
    ) as judge:
        for batch in batches:
            pairs = [(drawn.task, Candidate(source=drawn.source)) for drawn in batch]
            yield from zip(batch, judge.verify_many(pairs), strict=True)


def watched(
    rank: int,
    verdicts: Iterator[tuple[Drawn, Verdict]],
    fresh: dict[str, Verdict],
    canaries: Canaries,
) -> Iterator[dict[str, Any]]:
    """The records of a run: a sample now and then, every difference, and the counts at the end."""
    codes: Counter[str] = Counter()
    for number, (drawn, verdict) in enumerate(verdicts):
        codes[f"{drawn.kind} {verdict.code.value}"] += 1
        expected = fresh.get(drawn.name)
        if expected is not None and expected.code != verdict.code:
            yield {
                "record": "difference",
                "process": rank,
                "number": number,
                "name": drawn.name,
                "fresh": expected.code.value,
                "recycled": verdict.code.value,
                "message": verdict.message[:300],
            }
        if number % SAMPLE_EVERY == 0:
            yield {"record": "sample", "process": rank, "number": number, **counts(canaries)}
    yield {"record": "codes", **codes}


def counts(canaries: Canaries) -> dict[str, Any]:
    """Resources that must not grow, and files touched outside."""
    return {
        "processes": judging.processes(),
        "host_bytes": judging.status_bytes("/proc/self/status", "VmRSS"),
        "tree_bytes": sum(map(_proportional_bytes, judging.descendants())),
        "open_files": len(os.listdir("/proc/self/fd")),
        "places": len(judging.places()),
        "touched": canaries.changes(),
    }


def summed(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Codes, differences, and each count in the second tenth and in the last tenth of the run."""
    codes: Counter[str] = Counter()
    for line in lines:
        if line["record"] == "codes":
            codes.update({key: value for key, value in line.items() if key != "record"})
    samples = [line for line in lines if line["record"] == "sample"]
    numbers = sorted({line["number"] for line in samples})
    tenth = max(1, len(numbers) // 10)
    early, late = numbers[tenth : 2 * tenth], numbers[-tenth:]
    names = ("processes", "host_bytes", "tree_bytes", "open_files", "places")
    return {
        "verdicts": sum(codes.values()),
        "codes": dict(sorted(codes.items())),
        "differences": sum(line["record"] == "difference" for line in lines),
        "touched": [text for line in samples for text in line["touched"]],
        "growth": {
            name: [_median(samples, part, name) for part in (early, late)] for name in names
        },
    }


def _proportional_bytes(pid: int) -> int:
    """Memory of a process; what processes share counts once. 0 where the process has ended."""
    with suppress(OSError):
        return judging.status_bytes(f"/proc/{pid}/smaps_rollup", "Pss")
    return 0


def _median(samples: Sequence[dict[str, Any]], numbers: Sequence[int], name: str) -> float | None:
    values = [line[name] for line in samples if line["number"] in numbers]
    return median(values) if values else None


if __name__ == "__main__":
    typer.run(main)
