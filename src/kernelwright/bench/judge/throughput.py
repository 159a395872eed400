"""Measures how many candidates a machine judges a second, and where the time goes.

The candidates are the teacher's kernels for level-1 programs, a share of them broken, as in a
training run. They go through `verify.many.run`, as a user's jobs do.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kernelwright.bench.judge.breakage import Breakage, broken
from kernelwright.bench.level1 import level1_programs
from kernelwright.bench.load import Load
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.programs.text import to_text
from kernelwright.teacher.writer import write
from kernelwright.verify.many.jobs import Job
from kernelwright.verify.many.pools import local_pools
from kernelwright.verify.many.recipe import JudgeRecipe
from kernelwright.verify.many.run import judge_many

SHARES = {
    Breakage.WRONG_VALUES: 0.08,
    Breakage.COMPILE_ERROR: 0.05,
    Breakage.ILLEGAL_ADDRESS: 0.015,
    Breakage.HANG: 0.005,
}
"""The share of each kind among all candidates. An illegal address costs a guest with its GPU
context, and drivers start only 3 to 4 of these a second; a hang costs a worker `WALL_S`."""
WALL_S = {"cuda": 10.0, "cpu": 60.0}
"""Limit of a request to a guest, by device: the interpreter is slow."""
GOOD = "good"
STEADY_SHARE = 0.95
"""Verdicts after this share are the run's end, when workers run out of jobs one by one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ThroughputPlan:
    """The settings of a measurement."""

    device: str = "auto"
    grade: str = "recycled"
    timing: bool = False
    programs: int = 256
    candidates_each: int = 8
    num_workers: int | None = None
    seed: int = 0


def jobs_of(plan: ThroughputPlan) -> list[Job]:
    """Candidates in order of program; ids are PROGRAM/OPERATOR/DTYPE/NUMBER/KIND."""
    rng = random.Random(derive(plan.seed, "throughput"))
    kinds = [GOOD, *SHARES]
    weights = [1.0 - sum(SHARES.values()), *SHARES.values()]
    jobs = []
    for number, program in enumerate(level1_programs(plan.programs, plan.seed)):
        text, call = to_text(program), program.calls[0]
        name = f"{number:04d}/{call.op}/{program.inputs[0].type.dtype}"
        candidates = write(program, limit=plan.candidates_each, seed=plan.seed)
        for i, candidate in enumerate(candidates):
            (kind,) = rng.choices(kinds, weights)
            source = candidate.source
            if kind != GOOD:
                source = broken(source, Breakage(kind))
            jobs.append(Job(id=f"{name}/{i}/{kind}", reference=text, candidate=source))
    return jobs


def measure(plan: ThroughputPlan, out: Path, say: Say) -> Record:
    """Judge the plan's candidates, and append the "throughput" record to the judge's records.

    Args:
        out: folder for the judge's records.

    Returns:
        The "throughput" record.

    Raises:
        UsageError: `out` has records. Recorded candidates would not be judged again, and so not be
            measured.
    """
    path = out / "records.jsonl"
    if path.exists():
        raise UsageError(
            "there is a run here", file=str(path), remedy="give a new --out: this measures"
        )
    say("drawing programs, writing candidates")
    jobs = jobs_of(plan)
    recipe = JudgeRecipe(
        device=plan.device, mode="pure", grade=plan.grade, timing=plan.timing
    ).resolved()
    recipe = replace(recipe, wall_s=WALL_S[recipe.device])
    pools = local_pools(recipe, plan.num_workers)
    with Load() as load:
        summary = judge_many(jobs, recipe, out, pools.judges, pools.clock, say)
    verdicts = [line for line in record.read(path) if line["record"] == "verdict"]
    steady_s = steady_span(verdicts, pools.judges.num_workers)
    figures: Record = {
        "record": "throughput",
        "plan": asdict(plan) | {"num_workers": pools.judges.num_workers},
        "broken_shares": {str(kind): share for kind, share in SHARES.items()},
        "device": recipe.device,
        "operators": len({job.id.split("/")[1] for job in jobs}),
        **rates(verdicts, steady_s),
        "surprises": surprises(verdicts),
        "profile_ms": profile(summary["stages_s"], summary["judged_now"]),
        "cpu_share": load.cpu,
        "steady_cpu_share": steady_s and load.cpu_between(*steady_s),
        "gpu_share": load.gpu,
        "clock_share": summary.get("clock", {}).get("utilisation"),
        "summary": summary,
    }
    record.append(path, [figures])
    return figures


Span = tuple[float, float]


def steady_span(verdicts: Iterable[Record], num_workers: int) -> Span | None:
    """The span in which all workers are busy, as two `time.time()`.

    It begins when each worker has answered once, and ends when `STEADY_SHARE` of all is judged.
    None if the run is too short for such a span.
    """
    by_worker: dict[str, list[float]] = defaultdict(list)
    for line in _judged(verdicts):
        by_worker[line["worker"]].append(line["end_s"])
    if not by_worker:
        return None
    ends = sorted(end for times in by_worker.values() for end in times)
    up = sorted(min(times) for times in by_worker.values())[:num_workers]
    span = up[-1], ends[int(STEADY_SHARE * (len(ends) - 1))]
    return span if span[0] < span[1] else None


def rates(verdicts: Iterable[Record], steady_s: Span | None) -> Record:
    """Numbers and rates of verdicts, over the whole run and over the steady span."""
    judged = list(_judged(verdicts))
    if not judged:
        return {"verdicts": 0, "per_second": None, "steady_per_second": None}
    seconds = max(line["end_s"] for line in judged) - min(line["begin_s"] for line in judged)
    rates = {"verdicts": len(judged), "seconds": seconds, "per_second": len(judged) / seconds}
    if steady_s is None:
        return rates | {"steady_seconds": 0.0, "steady_per_second": None}
    begin_s, end_s = steady_s
    num_steady = sum(begin_s < line["end_s"] <= end_s for line in judged)
    lasted_s = end_s - begin_s
    return rates | {"steady_seconds": lasted_s, "steady_per_second": num_steady / lasted_s}


def _judged(verdicts: Iterable[Record]) -> Iterator[Record]:
    """The verdicts that were judged. Copies for equal candidates have no times and are left out."""
    return (line for line in verdicts if "end_s" in line)


def surprises(verdicts: Iterable[Record]) -> Record:
    """Candidates whose verdict is not the one that their making calls for: a good one refused, or a
    broken one accepted. "KIND: CODE" -> ids."""
    names: dict[str, list[str]] = defaultdict(list)
    for line in verdicts:
        kind = line["id"].rpartition("/")[2]
        if line["verdict"]["accepted"] != (kind == GOOD):
            names[f"{kind}: {line['verdict']['code']}"].append(line["id"])
    return dict(names)


def profile(stages_s: dict[str, float], num_verdicts: int) -> dict[str, float]:
    """Stage -> milliseconds of workers' time for each verdict, the largest first."""
    return {
        stage: 1e3 * seconds / max(num_verdicts, 1)
        for stage, seconds in Counter(stages_s).most_common()
    }


def lines_of(line: Record) -> Iterator[tuple[str, str]]:
    """The record as a short table."""

    def rate(value: float | None) -> str:
        return "too short to say" if value is None else f"{value:.1f} a second"

    plan, summary = line["plan"], line["summary"]
    workers = f"{plan['num_workers']} workers, {line['device']}"
    yield "judged", f"{line['verdicts']} candidates, {plan['grade']}, {workers}"
    yield "steady", rate(line["steady_per_second"])
    yield "start to end", rate(line["per_second"])
    yield "codes", ", ".join(f"{count} {code}" for code, count in summary["codes"].items())
    yield "surprises", ", ".join(f"{len(v)} {k}" for k, v in line["surprises"].items()) or "none"
    yield "left by our failures", str(summary["infra"])
    shares = {
        "cores": line["cpu_share"],
        "cores (steady)": line["steady_cpu_share"],
        "GPU": line["gpu_share"],
        "clock owner": line["clock_share"],
    }
    busy = [f"{name} {share:.0%}" for name, share in shares.items() if share is not None]
    yield "busy", ", ".join(busy)
    for stage, ms in line["profile_ms"].items():
        yield f"  {stage}", f"{ms:.1f} ms a verdict"
    if clock := summary.get("clock"):
        yield "timed", f"{clock['timed']}, {clock['timed'] / clock['window_s']:.1f} a second"
