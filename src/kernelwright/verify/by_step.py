"""Which kernels of a candidate are right: each step of its entry judged alone."""

from dataclasses import dataclass
from pathlib import Path

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Verdict
from kernelwright.programs.decompose import Step, steps_of
from kernelwright.programs.text import parse
from kernelwright.verify.judge import Judge, Say
from kernelwright.verify.program_task import program_task


@dataclass(frozen=True, slots=True)
class StepVerdict:
    """A step and the verdict on it."""

    step: Step
    verdict: Verdict


def verify_steps(
    ref: Path,
    candidate: Path,
    *,
    device: str,
    precision: str,
    mode: str,
    progress: Say | None = None,
) -> list[StepVerdict]:
    """The verdict on each step of a candidate that can be judged alone (`programs.decompose`).
    Nothing is timed.

    Args:
        ref: the file of a program, with `fused_operator` and `get_inputs`.
        candidate: a file that defines `fused_operator`.
        device, precision, mode: as of `verify.api.verify`.

    Raises:
        UsageError: the reference is no program, a file cannot be read, or an option is wrong.
        InfraError: our side broke.
    """
    program = parse(ref.read_text(encoding="utf-8"), str(ref))
    steps = steps_of(candidate.read_text(encoding="utf-8"), program)
    if not steps:
        raise UsageError(
            "the candidate has no step to judge alone",
            file=str(candidate),
            remedy="its entry calls functions of the file, with the names of the program's values",
        )
    with Judge(device, precision, mode, times=False, progress=progress, trusted=False) as judge:
        return [
            StepVerdict(
                step,
                judge.verify(
                    program_task(step.program), Candidate(source=step.source, origin="step")
                ),
            )
            for step in steps
        ]
