"""`kernelwright eval synthetic`: answers of a policy without search, judged."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kernelwright.cli.checks import check_files, check_policies
from kernelwright.cli.console import note, out, print_json, progress, rows_table
from kernelwright.cli.options import (
    Device,
    DeviceOption,
    Grade,
    GradeOption,
    JsonOption,
    JudgesOption,
    MaxTokensOption,
    Mode,
    ModeOption,
    PolicyOption,
    PrecisionOption,
    SeedOption,
    SetName,
    TimingOption,
    TopPOption,
    judging,
    number_option,
    out_option,
)
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.folders import check_folder
from kernelwright.core.record import Record
from kernelwright.core.verdict import Precision
from kernelwright.report.suite.page import PAGE, RECORDS
from kernelwright.report.synthetic.page import (
    Examination,
    answers,
    bests,
    gap_rows,
    reasons,
    speeds,
    write_examination,
)

ProgramsOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="JSONL",
        help="A file of programs, or of pairs for training. Several files are compared.",
        show_default="a frozen set",
    ),
]
SetOption = Annotated[
    list[SetName] | None,
    typer.Option(
        "--set", help="The frozen set. Several sets are compared.", show_default="synthetic-v1"
    ),
]
LevelsOption = Annotated[
    str,
    typer.Option(
        "--levels",
        metavar="LEVELS",
        help="The levels to run, as 1,2,5,20,operators.",
        show_default="all",
    ),
]
LimitOption = Annotated[
    int | None, number_option("The number of programs of each suite and level.", default="all")
]
OutOption = Annotated[
    Path, out_option("The folder of answers, records and page. The same command resumes the run.")
]
LabelOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The name of the policy in records and tables.",
        show_default="the policy as given",
    ),
]
TimingSecondsOption = Annotated[
    float | None,
    typer.Option(
        "--timing-s",
        metavar="SECONDS",
        min=0.001,
        help="The time for timing an answer; the first pairs of calls are always timed.",
        show_default="the clock's own",
    ),
]
SamplesOption = Annotated[
    int, number_option("The number of answers to each program.", "-n", "--samples")
]
MendsOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        help="How often an answer whose text shows a fault is written anew from the fault on.",
    ),
]
TemperatureOption = Annotated[
    float,
    typer.Option(
        metavar="NUMBER",
        min=0.0,
        help="The randomness of the draws; 0 writes the likeliest answer.",
    ),
]


def command(
    policy: PolicyOption,
    folder: OutOption = Path("out/synthetic"),
    programs: ProgramsOption = None,
    sets: SetOption = None,
    levels: LevelsOption = "",
    limit: LimitOption = None,
    label: LabelOption = None,
    samples: SamplesOption = 1,
    temperature: TemperatureOption = 0.0,
    top_p: TopPOption = 1.0,
    max_tokens: MaxTokensOption = 8192,
    mends: MendsOption = 0,
    seed: SeedOption = 0,
    device: DeviceOption = Device.AUTO,
    precision: PrecisionOption = Precision.STRICT,
    mode: ModeOption = Mode.PURE,
    grade: GradeOption = Grade.FRESH,
    timing: TimingOption = True,
    timing_s: TimingSecondsOption = None,
    workers: JudgesOption = None,
    json: JsonOption = False,
) -> None:
    """Have a policy answer programs, judge every answer, and write a page.

    The exit code is 3 where failures of ours are left: run the command again.
    """
    if samples > 1 and temperature == 0.0:
        raise UsageError("greedy answers are all the same", remedy="give --temperature, e.g. 1.0")
    if programs and sets:
        raise UsageError("both --programs and --set", remedy="give one of them")
    selected = parse_levels(levels)
    check_files(programs, "give a JSONL file of programs or pairs")
    check_folder(folder)
    check_policies(policy)
    from kernelwright.bench.answers import Asking
    from kernelwright.bench.problems import ProblemSelection, problems_of
    from kernelwright.bench.synthetic import PolicyPlan, examine
    from kernelwright.policy.policy import Sampling
    from kernelwright.search.policies import policy as policy_named

    selection = ProblemSelection(levels=selected, limit=limit)
    problems = problems_of(programs or [], selection, sets or [SetName.V1])
    recipe = judging(device, precision, mode, grade, timing=timing, timing_s=timing_s)
    asking = Asking(
        policy=partial(policy_named, policy),
        label=label or policy,
        samples=samples,
        sampling=Sampling(
            temperature=temperature, top_p=top_p, max_tokens=max_tokens, seed=seed, mends=mends
        ),
        precision=precision.value,
        mode=mode.value,
    )
    plan = PolicyPlan(asking=asking, recipe=recipe, out=folder, workers=workers)
    with progress("eval synthetic") as say:
        summary = examine(plan, problems, say)
    _show(write_examination(folder), folder, summary, json=json)
    raise typer.Exit(3 if summary["infra"] else 0)


def parse_levels(text: str) -> list[str]:
    """Names of levels from "1,2,operators".

    Raises:
        UsageError: it is no such list.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not all(name == "operators" or name.isdecimal() for name in names):
        raise UsageError(f"--levels {text!r} names no levels", remedy="write e.g. 1,2,operators")
    return [f"L{name}" if name.isdecimal() else name for name in names]


def _show(examination: Examination, folder: Path, summary: Record, *, json: bool) -> None:
    left = summary["infra"] + summary["usage"]
    if json:
        suites = {name: [asdict(row) for row in own] for name, own in examination.levels.items()}
        gaps = {name: [asdict(row) for row in own] for name, own in examination.gaps}
        print_json({"suites": suites, "gaps": gaps, "left": left})
    else:
        _print(examination)
        note(f"report  {folder / PAGE}")
    if left:
        note(f"{left} answers could not be judged")
        for answer, why in next(record.read(folder / RECORDS)).get("unusable", {}).items():
            note(f"{answer}: {why}")


def _print(examination: Examination) -> None:
    """Reasons and speeds, then differences between suites, then pass@1, last."""
    for name, levels in examination.levels.items():
        for rows in (reasons(levels), speeds(levels), bests(levels), answers(levels)):
            if len(rows) > 1:
                out.print(rows_table(rows, name))
    for name, gaps in examination.gaps:
        out.print(rows_table(gap_rows(gaps), name))
