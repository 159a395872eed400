"""`kernelwright generate`: the candidates of a policy, not judged."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelwright.cli.checks import check_policies, check_target
from kernelwright.cli.console import note, out, print_json, progress
from kernelwright.cli.optimize import TargetArgument
from kernelwright.cli.options import (
    DEFAULT_MODE,
    JsonOption,
    MaxTokensOption,
    ModeOption,
    PoliciesOption,
    PrecisionOption,
    SeedOption,
    TopPOption,
    number_option,
)
from kernelwright.core.progress import Say
from kernelwright.core.text import printable
from kernelwright.core.verdict import Precision
from kernelwright.policy.names import DEFAULT

if TYPE_CHECKING:
    from kernelwright.policy.answer import Answer

SamplesOption = Annotated[int, number_option("The most answers of each policy.", "-n", "--samples")]
TemperatureOption = Annotated[
    float | None,
    typer.Option(
        metavar="NUMBER",
        min=0.0,
        help="The randomness of the draws; 0 writes the likeliest answer.",
        show_default="0 for one answer, 1 for several",
    ),
]


def command(
    target: TargetArgument,
    policy: PoliciesOption = DEFAULT,
    samples: SamplesOption = 1,
    temperature: TemperatureOption = None,
    top_p: TopPOption = 1.0,
    max_tokens: MaxTokensOption = 8192,
    seed: SeedOption = 0,
    precision: PrecisionOption = Precision.STRICT,
    mode: ModeOption = DEFAULT_MODE,
    json: JsonOption = False,
) -> None:
    """Print the candidates that a policy writes for a program. Nothing is verified."""
    if temperature is None:
        temperature = float(samples > 1)
    with progress("generate") as say:
        check_target(target)
        check_policies(policy)
        from kernelwright.policy.policy import Sampling

        sampling = Sampling(temperature=temperature, top_p=top_p, max_tokens=max_tokens, seed=seed)
        answers = [
            answer
            for name in policy.split(",")
            for answer in _answers(
                target,
                name.strip(),
                say,
                show_partial=not json,
                samples=samples,
                sampling=sampling,
                precision=precision.value,
                mode=mode.value,
            )
        ]
    if json:
        print_json({"policy": policy, "sampling": asdict(sampling), "answers": _as_json(answers)})
        return
    _print(answers)
    if len(answers) < samples:
        note(f"{len(answers)} of {samples} answers: there are no more")


def _answers(
    target: str, policy: str, say: Say, *, show_partial: bool, **options: Any
) -> "list[Answer]":
    """The answers of one policy; those before a failure are printed where that is wanted."""
    from kernelwright.policy.policy import Interrupted
    from kernelwright.search import policies
    from kernelwright.search.generate import generate

    say(f"loading {policy}")
    writer = policies.policy(policy)
    say(f"writing for {target}")
    try:
        return generate(target, writer, **options)
    except Interrupted as error:
        if show_partial:
            _print([answer for answers in error.answers for answer in answers])
        raise


def _as_json(answers: "list[Answer]") -> list[dict[str, object]]:
    return [
        {
            "text": answer.text,
            "candidate": answer.candidate.to_json() if answer.candidate else None,
            "malformed": answer.malformed,
            "message": answer.message,
        }
        for answer in answers
    ]


def _print(answers: "list[Answer]") -> None:
    """Print each candidate's number, origin and source.

    An answer without a candidate is printed as it is, after the reason.
    """
    for number, answer in enumerate(answers, 1):
        candidate = answer.candidate
        if candidate is None:
            heading, text = f"malformed ({answer.malformed}): {answer.message}", answer.text
        else:
            missing_plan = "" if candidate.plan else f", {answer.message}"
            heading, text = f"{candidate.origin}{missing_plan}", candidate.source
        said = f"# candidate {number}: {heading}\n{text}"
        # A model wrote the text: a terminal is not to obey what the text says.
        out.print(printable(said, len(said)), markup=False, soft_wrap=True)
