"""`kernelwright eval corpus`: cheats and honest kernels before the judge."""

import time
from pathlib import Path
from typing import Annotated

import typer

from kernelwright.bench.suite import CasesLeft
from kernelwright.cli.checks import check_output_file
from kernelwright.cli.console import out, print_json, progress
from kernelwright.cli.options import (
    FOREVER,
    Device,
    DeviceOption,
    ForOption,
    Grade,
    GradeOption,
    JsonOption,
    cores,
    number_option,
    out_option,
)
from kernelwright.cli.suites.options import exit_code
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Checks

OutOption = Annotated[Path, out_option("The JSONL file. The same command resumes the run.")]
RootOption = Annotated[
    Path, typer.Option(metavar="FOLDER", help="The folder with cheats/, honest/ and tasks/.")
]
JobsOption = Annotated[
    int | None, number_option("The number of judges that work at once.", default="one a core")
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
    for_s: ForOption = FOREVER,
    device: DeviceOption = Device.AUTO,
    json: JsonOption = False,
) -> None:
    """Judge cheats and honest kernels, and record the verdicts.

    The exit code is 4 if the time ended before the last case, and 3 if our side failed in a case.
    Then the same command continues the run.
    """
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
            deadline_s=time.monotonic() + for_s,
        )
        lines = run_corpus(plan, say)
    cases = [line for line in lines if line["record"] == "corpus_case"]
    if json:
        print_json(lines)
    else:
        for case in cases:
            if not is_right(case):
                text = f"{case['kind']}/{case['name']}: {case['code']}: {case.get('message', '')}"
                out.print(text, markup=False, soft_wrap=True)
        right = sum(map(is_right, cases))
        out.print(f"{right} of {len(cases)} judged as they should be", markup=False)
    failed = sum(case["code"] == "infra" for case in cases)
    raise typer.Exit(exit_code(CasesLeft(lines[0]["cases"] - len(cases), failed)))
