"""`kernelwright eval corpus`: cheats and honest kernels before the judge."""

from pathlib import Path
from typing import Annotated

import typer

from kernelwright.cli.checks import check_output_file
from kernelwright.cli.console import out, print_json, progress
from kernelwright.cli.options import (
    OUT_NAMES,
    Device,
    DeviceOption,
    Grade,
    GradeOption,
    JsonOption,
    cores,
)
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Checks

OutOption = Annotated[Path, typer.Option(*OUT_NAMES, help="The JSONL file, which is written anew.")]
RootOption = Annotated[
    Path, typer.Option(metavar="FOLDER", help="The folder with cheats/, honest/ and tasks/.")
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="The number of judges that work at once.",
        show_default="one a core",
    ),
]
KernelBenchOption = Annotated[
    Path | None,
    typer.Option(
        metavar="CHECKOUT", help="A checkout of KernelBench, whose checker reads the files too."
    ),
]

ChecksOption = Annotated[
    Checks,
    typer.Option(
        "--checks",
        help="What may refuse a file: everything, all but static rules, or values alone.",
    ),
]


def command(
    results: OutOption,
    root: RootOption = Path("tests/corpus"),
    jobs: JobsOption = None,
    kernelbench: KernelBenchOption = None,
    grade: GradeOption = Grade.FRESH,
    checks: ChecksOption = Checks.ALL,
    device: DeviceOption = Device.AUTO,
    json: JsonOption = False,
) -> None:
    """Judge cheats and honest kernels, and record the verdicts."""
    with progress("eval corpus") as say:
        if not root.is_dir():
            remedy = "give the folder with cheats/, honest/ and tasks/: --root FOLDER"
            raise UsageError("there is no such folder", file=str(root), remedy=remedy)
        check_output_file(results)
        from kernelwright.bench.judge.corpus import CorpusPlan, is_right, run_corpus

        plan = CorpusPlan(
            root=root,
            out=results,
            device=device.value,
            jobs=cores(jobs),
            kernelbench=kernelbench,
            grade=grade.value,
            checks=checks.value,
        )
        lines = run_corpus(plan, say)
    if json:
        print_json(lines)
        return
    cases = [line for line in lines if line["record"] == "corpus_case"]
    for case in cases:
        if not is_right(case):
            text = f"{case['kind']}/{case['name']}: {case['code']}: {case.get('message', '')}"
            out.print(text, markup=False, soft_wrap=True)
    out.print(f"{sum(map(is_right, cases))} of {len(cases)} judged as they should be", markup=False)
