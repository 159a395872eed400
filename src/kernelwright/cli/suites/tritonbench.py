"""`kernelwright eval tritonbench`: code for TritonBench's tasks, run and judged."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.cli.checks import check_policies
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
    PrecisionOption,
    SeedOption,
    TimingOption,
    cores,
    judging,
    number_option,
    out_option,
)
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.folders import check_folder
from kernelwright.core.kinds.tritonbench import TritonBenchCaseLine
from kernelwright.core.verdict import Checks, Precision
from kernelwright.policy.names import FORMS, PATH, URL
from kernelwright.report.tritonbench import reason_rows, score_of, score_rows

if TYPE_CHECKING:
    from kernelwright.bench.tritonbench.checkout import Checkout
    from kernelwright.bench.tritonbench.run import TritonBenchPlan
    from kernelwright.core.progress import Say
    from kernelwright.core.record import Record
    from kernelwright.policy.policy import Sampling


class Channel(StrEnum):
    T = "T"
    G = "G"


class Instruction(StrEnum):
    SIMPLE = "simp"
    COMPLEX = "comp"


RootOption = Annotated[
    Path, typer.Option(metavar="PATH", help="A checkout of the TritonBench repository.")
]
ChannelOption = Annotated[
    Channel, typer.Option(help="T: PyTorch functions. G: Triton kernels with wrappers.")
]
PredictionsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Code to score: a folder of FILE.py, or a JSONL file of a model's answers.",
        show_default="none",
    ),
]
WriterOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="POLICY",
        help=f"The writer of the kernels: {FORMS}.",
        show_default="none",
    ),
]
InstructionOption = Annotated[
    Instruction, typer.Option(help="The benchmark's instructions for a model: short or long.")
]
LabelOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The name of the writer in records.",
        show_default="the policy or the folder's name",
    ),
]
TaskLimitOption = Annotated[
    int | None,
    number_option("The number of tasks. Every run draws the same tasks.", "--limit", default="all"),
]
ChecksOption = Annotated[
    Checks,
    typer.Option(
        help="The checks that may refuse code. `runs`: no static rules. `values`: outputs alone,"
        " with --grade recycled."
    ),
]
ScriptSecondsOption = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=1, help="The most seconds of a script.")
]
FolderOption = Annotated[
    Path, out_option("The folder of records and answers. The same command resumes the run.")
]


def command(
    root: RootOption,
    channel: ChannelOption,
    predictions: PredictionsOption = None,
    policy: WriterOption = None,
    folder: FolderOption = Path("out/tritonbench"),
    label: LabelOption = None,
    limit: TaskLimitOption = None,
    instruction: InstructionOption = Instruction.COMPLEX,
    max_tokens: MaxTokensOption = 8192,
    seed: SeedOption = 0,
    device: DeviceOption = Device.AUTO,
    precision: PrecisionOption = Precision.STRICT,
    mode: ModeOption = Mode.HYBRID,
    grade: GradeOption = Grade.FRESH,
    checks: ChecksOption = Checks.ALL,
    timing: TimingOption = True,
    timeout: ScriptSecondsOption = 60.0,
    workers: JudgesOption = None,
    json: JsonOption = False,
) -> None:
    """Score code for TritonBench: by the benchmark's metrics, and by our judge call by call.

    The exit code is 3 if tasks are left because of a fault of ours: run the command again.
    """
    _check_writer(predictions, policy, channel)
    check_folder(folder)
    from kernelwright.bench.tritonbench.checkout import Checkout
    from kernelwright.bench.tritonbench.run import TritonBenchPlan
    from kernelwright.policy.policy import Sampling

    checkout = Checkout(root, channel.value)
    sampling = Sampling(max_tokens=max_tokens, seed=seed)
    instructions = instruction.value if channel is Channel.G else None
    writer = None if policy is None else _Writer(policy, sampling, instructions)
    plan = TritonBenchPlan(
        files=checkout.selected(limit),
        channel=channel.value,
        label=label or policy or (predictions.stem if predictions else ""),
        recipe=judging(device, precision, mode, grade, timing=timing, checks=checks),
        out=folder,
        workers=cores(workers),
        judges=workers,
        timeout_s=timeout,
        facts={"limit": limit, **(writer.facts() if writer else {})},
    )
    with progress("eval tritonbench") as say:
        summary = _summary(plan, checkout, writer or predictions, say)
    _show(folder, summary, json=json)
    raise typer.Exit(3 if summary["left"] else 0)


def _check_writer(predictions: Path | None, policy: str | None, channel: Channel) -> None:
    if (predictions is None) == (policy is None):
        raise UsageError(
            "neither --predictions nor --policy"
            if policy is None
            else "--predictions and --policy",
            remedy="give one of the two",
        )
    if policy is not None:
        check_policies(policy)
        if channel is Channel.G and not policy.startswith((URL, PATH)):
            raise UsageError(
                f"{policy} cannot write channel G, which has instructions and no programs",
                remedy="give a model, for example openai:URL#model, or --channel T",
            )


@dataclass(frozen=True, slots=True)
class _Writer:
    """A policy that writes the code, and how it is asked."""

    policy: str
    sampling: "Sampling"
    instructions: str | None
    """The kind of the benchmark's instructions; None: the policy reads programs."""

    def facts(self) -> "Record":
        """The settings of the run that the policy adds."""
        facts: Record = {"max_tokens": self.sampling.max_tokens, "seed": self.sampling.seed}
        return facts | ({"instruction": self.instructions} if self.instructions else {})

    def examined(self, plan: "TritonBenchPlan", say: "Say") -> "Record":
        """Have the policy answer programs; the summary of the verdicts."""
        from kernelwright.bench.answers import Asking
        from kernelwright.bench.tritonbench.run import COMMAND, examine_policy
        from kernelwright.search.policies import policy

        asking = Asking(
            policy=partial(policy, self.policy),
            label=plan.label,
            samples=1,
            sampling=self.sampling,
            precision=plan.recipe.precision,
            mode=plan.recipe.mode,
            command=COMMAND,
        )
        return examine_policy(plan, asking, say)

    def asked(self, plan: "TritonBenchPlan", instructions: dict[str, str], say: "Say") -> Path:
        """Ask the policy instructions; the folder of its code."""
        from kernelwright.bench.tritonbench.asked import ask_instructions
        from kernelwright.search.policies import policy

        settings = {"policy": self.policy, **self.facts()}
        writer = partial(policy, self.policy)
        return ask_instructions(
            writer, plan.files, instructions, plan.out, self.sampling, settings, say
        )


def _summary(
    plan: "TritonBenchPlan", checkout: "Checkout", code: _Writer | Path | None, say: "Say"
) -> "Record":
    """The summary of the verdicts on code that a policy writes, or that lies in a folder."""
    from kernelwright.bench.tritonbench.predictions import read_predictions
    from kernelwright.bench.tritonbench.run import score

    if isinstance(code, _Writer):
        if code.instructions is None:
            return code.examined(plan, say)
        code = code.asked(plan, checkout.instructions(code.instructions), say)
    assert code is not None
    return score(plan, read_predictions(code, checkout), say)


def _show(folder: Path, summary: "Record", *, json: bool) -> None:
    from kernelwright.bench.suite import RECORDS

    path = folder / RECORDS
    cases = list(record.of_kind(record.read(path), TritonBenchCaseLine))
    score = score_of(cases)
    if json:
        print_json({"score": asdict(score), "left": summary["left"]})
    else:
        for title, rows in (("why", reason_rows(cases)), ("tritonbench", score_rows(score))):
            if len(rows) > 1:
                out.print(rows_table(rows, title))
        note(f"records  {path}")
    if summary["left"]:
        note(f"{summary['left']} tasks have no case: our side failed, run the command again")
