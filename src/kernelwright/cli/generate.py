"""`kernelwright generate`: what a policy writes for a program, unjudged."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.cli.console import err, errors_as_json, out, print_json, progress
from kernelwright.cli.optimize import TargetArgument
from kernelwright.cli.options import (
    JsonOption,
    MaxTokensOption,
    Mode,
    ModeOption,
    PolicyOption,
    Precision,
    PrecisionOption,
    SeedOption,
    TopPOption,
)
from kernelwright.policy.names import DEFAULT

if TYPE_CHECKING:
    from kernelwright.policy.answer import Answer

SamplesOption = Annotated[int, typer.Option("-n", "--samples", min=1, help="Answers, at most.")]
TemperatureOption = Annotated[
    float | None,
    typer.Option(
        min=0.0, help="0: the likeliest answer.", show_default="0 for one answer, 1 for several"
    ),
]


def command(
    target: TargetArgument,
    policy: PolicyOption = DEFAULT,
    samples: SamplesOption = 1,
    temperature: TemperatureOption = None,
    top_p: TopPOption = 1.0,
    max_tokens: MaxTokensOption = 8192,
    seed: SeedOption = 0,
    precision: PrecisionOption = Precision.STRICT,
    mode: ModeOption = Mode.HYBRID,
    json: JsonOption = False,
) -> None:
    """Print candidates for a program as a policy writes them: not verified, for reading."""
    from kernelwright.policy.policy import Interrupted, Sampling
    from kernelwright.search import policies
    from kernelwright.search.generate import generate

    if temperature is None:
        temperature = float(samples > 1)
    with errors_as_json(json):
        sampling = Sampling(temperature=temperature, top_p=top_p, max_tokens=max_tokens, seed=seed)
        with progress("generate") as say:
            say(f"loading {policy}")
            writer = policies.policy(policy)
            say(f"writing for {target}")
            try:
                answers = generate(
                    target,
                    writer,
                    samples=samples,
                    sampling=sampling,
                    precision=precision.value,
                    mode=mode.value,
                )
            except Interrupted as error:
                if not json:
                    _print([answer for each in error.answers for answer in each])
                raise
    if json:
        print_json({"policy": policy, "sampling": asdict(sampling), "answers": _as_json(answers)})
        return
    _print(answers)
    if len(answers) < samples:
        err.print(f"{len(answers)} of {samples} answers: there are no more", markup=False)


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
    """Each candidate's source, its plan as the comments in it, after a line that counts it; of an
    answer that holds none the reason, and the text as it is."""
    for number, answer in enumerate(answers, 1):
        found = answer.candidate
        what = found.origin if found else f"malformed ({answer.malformed}): {answer.message}"
        if found and not found.plan:
            what += f", {answer.message}"
        text = found.source if found else answer.text
        out.print(f"# candidate {number}: {what}\n{text}", markup=False, soft_wrap=True)
