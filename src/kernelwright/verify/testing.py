"""For test suites: a kernel that is not accepted fails the test, with the reason and the line."""

from pathlib import Path
from typing import Any

from kernelwright.core.candidate import Candidate
from kernelwright.core.reasons import REASONS
from kernelwright.core.verdict import Verdict
from kernelwright.verify.api import verify
from kernelwright.verify.tasks.task import Task


def assert_kernel(
    ref: str | Path | Task,
    candidate: str | Path | Candidate,
    *,
    min_speedup: float | None = None,
    **options: Any,
) -> Verdict:
    """Assert that the judge accepts `candidate` as an answer to `ref`.

    Args:
        min_speedup: the lower end of the speed-up's 95% interval must reach this. Where nothing is
            timed, as on a machine without a GPU, the assertion fails.
        options: of `verify`: device, precision, mode, contract, timeout_s, large.

    Raises:
        AssertionError: rejected, or not fast enough; says why, where and what to do.
        UsageError, InfraError: as `verify`.
    """
    __tracebackhide__ = True
    verdict = verify(ref, candidate, **options)
    if not verdict.accepted:
        source = candidate.origin if isinstance(candidate, Candidate) else candidate
        where = f"{source}:{verdict.line}: " if verdict.line and "\n" not in str(source) else ""
        raise AssertionError(
            f"{where}{verdict.stage}, {verdict.code}: {verdict.message}\n"
            f"  {REASONS[verdict.code].meaning}\n  remedy: {REASONS[verdict.code].remedy}"
        )
    if min_speedup is not None:
        if verdict.speedup_interval is None:
            raise AssertionError(
                f"a speed-up of {min_speedup:g} is asked for, and nothing was timed on "
                f"{verdict.device}\n  remedy: run this test on a GPU, or skip it without one"
            )
        low, high = verdict.speedup_interval
        if low < min_speedup:
            raise AssertionError(
                f"the speed-up is {verdict.speedup:.2f} ({low:.2f} to {high:.2f}), "
                f"{min_speedup:g} is asked for"
            )
    return verdict
