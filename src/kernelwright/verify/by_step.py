"""Judges each step of a candidate's entry alone, to see which kernels are right."""

from dataclasses import dataclass
from pathlib import Path

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.progress import Say
from kernelwright.core.verdict import Verdict
from kernelwright.programs.fragments.decompose import AnswerStep, steps_of
from kernelwright.programs.program import Program
from kernelwright.programs.text import parse
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.program_task import program_task


@dataclass(frozen=True, slots=True)
class StepVerdict:
    """A step and the verdict on it."""

    step: AnswerStep
    verdict: Verdict


def program_of(ref: Path) -> Program:
    """Returns the program that a reference file holds.

    Raises:
        UsageError: the file cannot be read, or holds no program.
    """
    try:
        text = ref.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot be read: {error}",
            file=str(ref),
            remedy="give a file with `fused_operator` and `get_inputs`",
        ) from error
    return parse(text, str(ref))


def verify_steps(
    program: Program,
    candidate: str,
    judging: JudgeOptions,
    *,
    progress: Say | None = None,
) -> list[StepVerdict]:
    """Returns the verdict on each step of a candidate that can be judged alone
    (`programs.fragments.decompose`). Nothing is timed.

    Args:
        candidate: source that defines `fused_operator`.

    Raises:
        UsageError: an option is wrong.
        InfraError: our side broke.
    """
    steps = steps_of(candidate, program)
    with Judge(judging, times=False, progress=progress, trusted=False) as judge:
        return [
            StepVerdict(
                step,
                judge.verify(
                    program_task(step.program), Candidate(source=step.source, origin="step")
                ),
            )
            for step in steps
        ]
