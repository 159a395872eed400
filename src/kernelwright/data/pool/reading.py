"""The work of other processes while a model decodes: the teacher writes, answers are read and timed
by the cost model."""

import multiprocessing
import signal
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Self, TypeVar

import torch

from kernelwright.core.errors import InfraError
from kernelwright.policy.answer import answer_text, read_answer
from kernelwright.programs.text import parse
from kernelwright.programs.traffic import planned_seconds
from kernelwright.teacher.whole import write_best

Result = TypeVar("Result")
Estimate = tuple[str, float | None]
"""Why an answer holds no candidate, or seconds by the cost model."""


def taught(program: str, limit: int, precision: str) -> list[str]:
    """The teacher's answers with the least estimated time, as texts.

    Args:
        program: its canonical text.
        limit: at most so many answers.
    """
    candidates = write_best(parse(program), limit=limit, precision=precision)
    return [answer_text(candidate) for candidate in candidates]


def estimates(program: str, answers: Sequence[str], origin: str) -> list[Estimate]:
    """Read each answer to a program, and estimate its time.

    Args:
        program: its canonical text.
        origin: of the candidates, for their records.

    Returns:
        For each answer why it holds no candidate (empty if it holds one), and its estimated seconds
        (None if it holds none).
    """
    parsed, rows = parse(program), list[Estimate]()
    for text in answers:
        answer = read_answer(text, origin=origin)
        if answer.candidate is None:
            rows.append((str(answer.malformed), None))
        else:
            rows.append(("", planned_seconds(parsed, answer.candidate)))
    return rows


class Readers:
    """Processes that read and teach; a context manager."""

    def __init__(self, num_workers: int) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self._pool = ProcessPoolExecutor(num_workers, context, _begin)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def taught(self, program: str, limit: int, precision: str) -> Future[list[str]]:
        """Run the function `taught` in one of the processes."""
        return self._pool.submit(taught, program, limit, precision)

    def estimates(self, program: str, answers: list[str], origin: str) -> Future[list[Estimate]]:
        """Run the function `estimates` in one of the processes."""
        return self._pool.submit(estimates, program, answers, origin)


def result_of(future: "Future[Result]") -> Result:
    """The result of a task of `Readers`; waits for it.

    Raises:
        InfraError: the process died.
    """
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise InfraError("a process that reads answers died; run it again") from error


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to handle
    torch.set_num_threads(1)
