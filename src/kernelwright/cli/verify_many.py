"""`kernelwright verify-many`: judge many candidates at once, resumably."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kernelwright.cli.checks import check_file
from kernelwright.cli.console import progress, show
from kernelwright.cli.options import (
    DEFAULT_MODE,
    ClusterOption,
    ContractOption,
    Device,
    DeviceOption,
    Grade,
    GradeOption,
    JsonOption,
    JudgesOption,
    ModeOption,
    PrecisionOption,
    TimingOption,
    judging,
    out_option,
)
from kernelwright.core.folders import check_folder
from kernelwright.core.record import Record
from kernelwright.core.verdict import Contract, Precision

JobsArgument = Annotated[
    Path,
    typer.Argument(
        metavar="JOBS",
        help='A JSONL file of {"id", "reference", "candidate"} (paths or texts), or a folder of'
        " pairs NAME.reference.py and NAME.candidate.py.",
    ),
]
OutOption = Annotated[
    Path, out_option("The folder for records.jsonl. The same command resumes the run.")
]


def command(
    jobs: JobsArgument,
    folder: OutOption,
    device: DeviceOption = Device.AUTO,
    precision: PrecisionOption = Precision.STRICT,
    mode: ModeOption = DEFAULT_MODE,
    contract: ContractOption = Contract.FIXED,
    grade: GradeOption = Grade.FRESH,
    workers: JudgesOption = None,
    cluster: ClusterOption = None,
    timing: TimingOption = True,
    json: JsonOption = False,
) -> None:
    """Judge many candidates.

    The exit code is 0 when all are settled, 2 where a reference cannot be used, and 3 where
    failures of ours are left: run the command again.
    """
    check_jobs(jobs)
    check_folder(folder)
    from kernelwright.verify.many.jobs import read_jobs

    todo = read_jobs(jobs)
    from kernelwright.sandbox.workers.executor import Executor
    from kernelwright.verify.many.audit import audit_many
    from kernelwright.verify.many.pools import Pools, cluster_pools, local_pools
    from kernelwright.verify.many.recipe import JudgeRecipe
    from kernelwright.verify.many.run import judge_many

    recipe = judging(device, precision, mode, grade, timing=timing, contract=contract)

    def pools_of(recipe: JudgeRecipe) -> Pools:
        if cluster:
            return cluster_pools(recipe, workers, cluster)
        return local_pools(recipe, workers)

    def judges_of(recipe: JudgeRecipe) -> Executor:
        return pools_of(recipe).judges

    pools = pools_of(recipe)
    with progress("verify-many") as say:
        summary = judge_many(todo, recipe, folder, pools.judges, pools.clock, say)
        if recipe.grade == "recycled":
            say("judging some of what was accepted again, fresh")
            summary |= audit_many(todo, recipe, folder, judges_of, say)
    show(summary, summary_table(summary), f"records  {folder / 'records.jsonl'}", json=json)
    raise typer.Exit(3 if summary["infra"] else 2 if summary["usage"] else 0)


def check_jobs(path: Path) -> None:
    """See that there is a file or folder of jobs, before torch is imported."""
    if not path.is_dir():
        check_file(path, "give a JSONL file of jobs, or a folder of pairs")


def summary_table(summary: Record) -> Table:
    """Jobs by how they ended."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right")
    table.add_column()
    for code, count in summary["codes"].items():
        table.add_row(str(count), "accepted" if code == "ok" else code)
    if summary["usage"]:
        table.add_row(str(summary["usage"]), "not judged: the reference cannot be used")
    if summary["infra"]:
        table.add_row(str(summary["infra"]), "not judged: our side failed; run it again")
    if "audited" in summary:
        differ = ", ".join(summary["differ"]) or "none differs"
        table.add_row(str(summary["audited"]), f"judged again, fresh: {differ}")
    table.add_row(str(summary["jobs"]), f"jobs, {summary['judged_now']} judged now")
    return table
