"""`kernelwright verify`: judge one candidate against its reference."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from kernelwright.cli.checks import check_file, check_policies, check_target
from kernelwright.cli.console import note, out, print_json, progress
from kernelwright.cli.options import (
    DEFAULT_MODE,
    ContractOption,
    Device,
    DeviceOption,
    JsonOption,
    ModeOption,
    PrecisionOption,
)
from kernelwright.core.reasons import REASONS
from kernelwright.core.verdict import Contract, Precision, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernelwright.verify.advise import Adviser
    from kernelwright.verify.by_step import StepVerdict

RefArgument = Annotated[
    str, typer.Argument(metavar="REF", help="The reference: a file or package.module:factory.")
]
CandidateArgument = Annotated[
    Path, typer.Argument(metavar="CANDIDATE", help="The file with the candidate's kernels.")
]


TimeoutOption = Annotated[
    float | None,
    typer.Option(
        min=0.1,
        metavar="SECONDS",
        help="The seconds that a call of the candidate may take.",
        show_default="60, on a GPU 120",
    ),
]


LargeOption = Annotated[
    bool, typer.Option("--large", help="Also judge a case of more than 2^31 elements, on a GPU.")
]
EvalModeOption = Annotated[
    bool | None,
    typer.Option(
        "--eval/--train", help="The mode of the module.", show_default="as the reference leaves it"
    ),
]
StepsOption = Annotated[
    bool,
    typer.Option(
        "--steps",
        help="Judge each kernel of a rejected candidate alone. The reference is a file with"
        " `fused_operator`, and the candidate calls one function for each kernel.",
    ),
]
AdviseOption = Annotated[
    str | None,
    typer.Option(
        metavar="openai:URL#MODEL",
        help="Ask a language model whether the kernels replace the reference. Its answer is shown"
        " beside the verdict and decides nothing.",
    ),
]
AdviseKeyOption = Annotated[
    str, typer.Option(metavar="VARIABLE", help="The environment variable with the endpoint's key.")
]


def command(
    ref: RefArgument,
    candidate: CandidateArgument,
    device: DeviceOption = Device.AUTO,
    precision: PrecisionOption = Precision.STRICT,
    mode: ModeOption = DEFAULT_MODE,
    contract: ContractOption = Contract.FIXED,
    is_eval: EvalModeOption = None,
    timeout: TimeoutOption = None,
    large: LargeOption = False,
    steps: StepsOption = False,
    advise: AdviseOption = None,
    advise_key: AdviseKeyOption = "OPENAI_API_KEY",
    json: JsonOption = False,
) -> None:
    """Judge CANDIDATE against REF.

    The exit code is 0 for an accepted candidate and 1 for a rejected one.
    """
    with progress("verify") as say:
        check_target(ref)
        check_file(candidate, "give the file with the candidate's kernels")
        if advise is not None:
            check_policies(advise)
        from kernelwright.verify.api import verify
        from kernelwright.verify.by_step import program_of, verify_steps
        from kernelwright.verify.judging import JudgeOptions

        program = program_of(Path(ref)) if steps else None
        verdict = verify(
            ref,
            candidate,
            device=device.value,
            precision=precision.value,
            mode=mode.value,
            contract=contract.value,
            timeout_s=timeout,
            large=large,
            training=None if is_eval is None else not is_eval,
            adviser=_adviser(advise, advise_key),
            progress=say,
        )
        judged = []
        if program is not None and not verdict.accepted:
            judging = JudgeOptions(device=device.value, precision=precision.value, mode=mode.value)
            source = candidate.read_text(encoding="utf-8", errors="replace")
            judged = verify_steps(program, source, judging, progress=say)
    if json:
        by_step = [{"makes": one.step.makes, **one.verdict.to_json()} for one in judged]
        print_json(verdict.to_json() | ({"steps": by_step} if steps else {}))
    else:
        _print(verdict, candidate)
        if judged:
            _print_steps(judged)
        elif steps and not verdict.accepted:
            note("No kernel can be judged alone: the entry names no values of the program.")
    raise typer.Exit(0 if verdict.accepted else 1)


def _adviser(spec: str | None, key_variable: str) -> "Adviser | None":
    if spec is None:
        return None
    from kernelwright.policy.endpoint import Endpoint
    from kernelwright.verify.advise import Adviser

    return Adviser(Endpoint.parse(spec, key_variable=key_variable))


def _print(verdict: Verdict, candidate: Path) -> None:
    """Print the findings, where they are, and the evidence."""
    table = Table(box=None, show_header=False)
    table.add_column(style="dim")
    table.add_column()
    for label, text in _lines(verdict):
        table.add_row(label, Text(text))
    word, style = ("accepted", "bold green") if verdict.accepted else ("rejected", "bold red")
    where = "" if verdict.line is None else f"{candidate}:{verdict.line}: "
    out.print(f"{where}{word}: {verdict.message}", style=style, markup=False, soft_wrap=True)
    out.print(table)


def _print_steps(judged: "Sequence[StepVerdict]") -> None:
    """One line for each step, in the order of the candidate's entry."""
    table = Table("step", "makes", "verdict", title="each kernel alone", box=None, pad_edge=False)
    for judgement in judged:
        step, verdict = judgement.step, judgement.verdict
        finding = "right" if verdict.accepted else f"{verdict.code}: {verdict.message}"
        row = (str(step.number + 1), ", ".join(step.makes), finding)
        table.add_row(*map(Text, row))
    out.print(table)


def _lines(verdict: Verdict) -> list[tuple[str, str]]:
    lines = [("stage, code", f"{verdict.stage}, {verdict.code}")]
    if not verdict.accepted:
        reason = REASONS[verdict.code]
        lines += [("means", reason.meaning), ("what to do", reason.remedy)]
    lines.append(("rules", _rules(verdict)))
    if (errors := verdict.errors) is not None:
        lines.append(("", "candidate / PyTorch / allowed, against fp64"))
        figures = (errors.max_candidate, errors.max_reference, errors.max_allowed)
        lines.append(("largest error", " / ".join(f"{e:.2e}" for e in figures)))
        figures = (errors.rms_candidate, errors.rms_reference, errors.rms_allowed)
        lines.append(("rms error", " / ".join(f"{e:.2e}" for e in figures)))
    for name, time in verdict.times.items():
        label = f"{name.removesuffix('_graph')} as a graph" if "_graph" in name else f"{name} time"
        spread = f"{time.median_ms:.4g} ms ({time.low_ms:.4g} to {time.high_ms:.4g})"
        lines.append((label, spread))
    if verdict.speedup is not None:
        lines.append(("speedup", _speedup(verdict, verdict.speedup)))
    if verdict.noise is not None:
        lines.append(("noise", f"{verdict.noise:.1%} between two medians of the same calls"))
    elif verdict.accepted:
        lines.append(("speedup", "not measured: no GPU"))
    if verdict.launches:
        launches = ", ".join(f"{name} x{n}" for name, n in verdict.launches.items())
        lines.append(("kernels seen", launches))
    if verdict.library_share is not None:
        lines.append(("library share", f"{verdict.library_share:.0%} of the GPU time"))
    lines.append(("cases", str(len(verdict.cases))))
    lines.append(("checks passed", ", ".join(verdict.checks) or "none"))
    lines.append(("isolation", verdict.isolation or "none reported"))
    lines.extend(("advice", text) for text in verdict.advice)
    lines.extend(("suspected", text) for text in verdict.flags)
    return lines


def _rules(verdict: Verdict) -> str:
    rules = (verdict.contract, verdict.mode, verdict.precision)
    return f"{', '.join(rules)}, on {verdict.device}"


def _speedup(verdict: Verdict, ratio: float) -> str:
    if verdict.speedup_interval is None:
        return f"{ratio:.2f}x"
    low, high = verdict.speedup_interval
    if verdict.is_faster:
        word = "faster"
    else:
        word = "slower" if high < 1.0 else "no difference beyond noise"
    return f"{ratio:.2f}x ({low:.2f} to {high:.2f}): {word}"
