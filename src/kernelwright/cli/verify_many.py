"""`kernelwright verify-many`: judge many candidates at once, resumably."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kernelwright.cli.console import err, out, print_json, progress
from kernelwright.cli.options import (
    Device,
    DeviceOption,
    Grade,
    GradeOption,
    JsonOption,
    JudgesOption,
    Mode,
    ModeOption,
    Precision,
    PrecisionOption,
    TimingOption,
    judging,
)
from kernelwright.core.record import Record

JobsArgument = Annotated[
    Path,
    typer.Argument(
        metavar="JOBS",
        help='A JSONL file of {"id", "reference", "candidate"} (paths or texts), or a folder of'
        " pairs NAME.reference.py and NAME.candidate.py.",
    ),
]
OutOption = Annotated[
    Path, typer.Option("--out", help="Folder for records.jsonl; the same command resumes it.")
]
ClusterOption = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Of a Ray cluster: HOST:PORT, or `auto`.")
]


def command(
    jobs: JobsArgument,
    folder: OutOption,
    device: DeviceOption = Device.AUTO,
    precision: PrecisionOption = Precision.STRICT,
    mode: ModeOption = Mode.PURE,
    grade: GradeOption = Grade.FRESH,
    workers: JudgesOption = None,
    cluster: ClusterOption = None,
    timing: TimingOption = True,
    json: JsonOption = False,
) -> None:
    """Judge many candidates: exit code 0 when all are settled, 2 where a reference cannot be
    judged by, 3 where failures of ours are left (run it again)."""
    from kernelwright.sandbox.executor import Executor
    from kernelwright.verify.jobs import read_jobs
    from kernelwright.verify.many import judge_many
    from kernelwright.verify.many_audit import audit_many
    from kernelwright.verify.pools import Pools, cluster_pools, local_pools
    from kernelwright.verify.recipe import Recipe

    todo = read_jobs(jobs)
    recipe = judging(device, precision, mode, grade, timing=timing)

    def pools_of(recipe: Recipe) -> Pools:
        if cluster:
            return cluster_pools(recipe, workers, cluster)
        return local_pools(recipe, workers)

    def judges_of(recipe: Recipe) -> Executor:
        return pools_of(recipe).judges

    pools = pools_of(recipe)
    with progress("verify-many") as say:
        summary = judge_many(todo, recipe, folder, pools.judges, pools.clock, say)
        if recipe.grade == "recycled":
            say("judging some of what was accepted again, fresh")
            summary |= audit_many(todo, recipe, folder, judges_of, say)
    if json:
        print_json(summary)
    else:
        out.print(summary_table(summary))
        err.print(f"records  {folder / 'records.jsonl'}", markup=False, soft_wrap=True)
    raise typer.Exit(3 if summary["infra"] else 2 if summary["usage"] else 0)


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
