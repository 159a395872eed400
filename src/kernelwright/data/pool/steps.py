"""Verdicts on the kernels of wrong answers: each step of an answer is judged alone.

An answer to twenty calls is wrong as a whole where one of its kernels is wrong. Judged step by step
(`programs.fragments.decompose`), the answer still tells which kernels are right. Equal steps of
different answers are judged once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kernelwright.core.verdict import Verdict
from kernelwright.data.pool.answers import PoolAnswer, PoolProgram
from kernelwright.policy.answer import read_answer
from kernelwright.programs.fragments.decompose import AnswerStep, steps_of
from kernelwright.programs.text import parse, to_text
from kernelwright.verify.many.jobs import Job, content_of

LEAST = 2
"""The fewest steps of an answer whose steps are judged. With fewer, the verdict on the whole
says as much."""


@dataclass(frozen=True, slots=True)
class JudgedStep:
    """The verdict on one step of an answer."""

    functions: frozenset[str]
    """The step's wrapper and kernels, by name."""
    is_right: bool


def step_jobs(programs: Iterable[PoolProgram]) -> Iterator[Job]:
    """Jobs for the steps of wrong answers. Equal steps make one job, whose id is their digest."""
    seen: set[str] = set()
    for program in programs:
        for answer in program.answers:
            if answer.verdict is None or answer.verdict.accepted:
                continue
            for step in _steps(program, answer):
                reference = to_text(step.program)
                if (name := content_of(reference, step.source)) not in seen:
                    seen.add(name)
                    yield Job(id=name, reference=reference, candidate=step.source)


def judged_steps(
    program: PoolProgram, answer: PoolAnswer, verdicts: Mapping[str, Verdict]
) -> tuple[JudgedStep, ...]:
    """The steps of an answer that are known to be right or wrong.

    Steps of a right answer are not judged: all of them count as right. An answer that was not
    judged, or has fewer than `LEAST` steps, has none.

    Args:
        verdicts: on the jobs of `step_jobs`, by id.
    """
    if answer.verdict is None:
        return ()
    judged = []
    for step in _steps(program, answer):
        name = content_of(to_text(step.program), step.source)
        verdict = answer.verdict if answer.verdict.accepted else verdicts.get(name)
        if verdict is not None:
            judged.append(JudgedStep(step.functions, verdict.accepted))
    return tuple(judged)


def _steps(program: PoolProgram, answer: PoolAnswer) -> list[AnswerStep]:
    candidate = read_answer(answer.text, origin=answer.writer).candidate
    steps = [] if candidate is None else steps_of(candidate.source, parse(program.text))
    return steps if len(steps) >= LEAST else []
