"""Verdicts on the pairs that a recipe wants judged."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from kernelwright.core.errors import InfraError
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.data.pairs.answers import TEACHER
from kernelwright.data.pairs.pair import UNVERIFIED, chance
from kernelwright.data.pairs.recipe import PairsRecipe
from kernelwright.data.pairs.select import ShardSelection
from kernelwright.data.pairs.shard import read_shard
from kernelwright.policy.answer import read_answer
from kernelwright.verify.many.jobs import Job
from kernelwright.verify.many.pools import local_pools
from kernelwright.verify.many.recipe import JudgeRecipe
from kernelwright.verify.many.run import judge_many
from kernelwright.verify.many.run_folder import RunFolder

Rules = tuple[str, str]
"""Precision and mode: a run of the judge has one of each."""


def judged(
    paths: Iterable[Path],
    selection: ShardSelection,
    recipe: PairsRecipe,
    out: Path,
    num_workers: int,
    say: Say,
) -> dict[str, Verdict | None]:
    """Judge the correctness of the drawn share of the teacher's pairs, and of all other pairs.

    Pairs that their source had judged are left out.

    Args:
        out: folder of the judge's records. Pairs with a record there are not judged again.

    Returns:
        Id of a pair -> verdict; None if the judge cannot judge by the program.

    Raises:
        InfraError: a failure of ours left pairs without a verdict. A later run tries them again.
    """
    verdicts: dict[str, Verdict | None] = {}
    for (precision, mode), jobs in sorted(_jobs(paths, selection, recipe).items()):
        how = judging(recipe, precision, mode).resolved()
        folder = out / f"{precision}-{mode}"
        # As many as write pairs would be too many for GPUs.
        pools = local_pools(how, num_workers if how.device == "cpu" else None)
        summary = judge_many(jobs, how, folder, pools.judges, None, say)
        if summary["infra"]:
            raise InfraError(f"{summary['infra']} pairs could not be judged; run it again")
        settled = RunFolder(folder, how).by_id
        verdicts |= {job.id: _verdict(settled[job.id]) for job in jobs}
    return verdicts


def judging(recipe: PairsRecipe, precision: str, mode: str) -> JudgeRecipe:
    """The judge's recipe for pairs of these rules: correctness only."""
    return JudgeRecipe(
        device=recipe.verify.device,
        precision=precision,
        mode=mode,
        grade=recipe.verify.grade,
        timing=False,
        seed=recipe.seed,
    )


def _jobs(
    paths: Iterable[Path], selection: ShardSelection, recipe: PairsRecipe
) -> dict[Rules, list[Job]]:
    taught = {part.name for part in recipe.part if part.source == TEACHER}

    def is_wanted(name: str) -> bool:
        share = recipe.verify.share if name.partition("/")[0] in taught else 1.0
        return name in selection.kept and chance(recipe.seed, "verify", name) < share

    jobs: dict[Rules, list[Job]] = defaultdict(list)
    for path in paths:
        for pair in read_shard(path, is_wanted)[0]:
            if pair["verdict"] == UNVERIFIED:
                jobs[pair["precision"], pair["mode"]].append(_job(pair))
    return jobs


def _job(pair: Record) -> Job:
    """The job for a pair. The answer's text is read as a model's answer is: that is the form which
    a trained model will write, and so the form to judge."""
    answer = read_answer(pair["completion"][0]["content"], origin=pair["source"])
    assert answer.candidate is not None, "shards hold what can be read"
    return Job(id=pair["id"], reference=pair["program"], candidate=answer.candidate.source)


def _verdict(settled: Record) -> Verdict | None:
    return Verdict.from_json(settled["verdict"]) if "verdict" in settled else None
