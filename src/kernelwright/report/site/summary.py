"""The figures of each level of a run, for the table on the first page of a site.

All figures count only the first answer to each task.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from kernelwright.core.delivered import COMPILE, EAGER, delivers_kernels, over
from kernelwright.core.kinds.suites import CaseLine
from kernelwright.core.scores import Mean, geometric_mean
from kernelwright.report.site.reading import SiteRun
from kernelwright.report.suite.scores import beats, roofline_share

MAX_AUTOTUNE = "max_autotune"
RIVALS = (EAGER, COMPILE, MAX_AUTOTUNE)
"""Baselines over which the table has a mean speed-up, by the names of their times in records."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A number of tasks with kernels, and how many of these kernels no user gets."""

    tasks: int
    not_delivered: int


@dataclass(frozen=True, slots=True)
class ErrorMedians:
    """Medians over correct tasks of the rms error, relative to the rms of the output."""

    kernels: float
    pytorch: float
    tasks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelSummary:
    """The figures of one level of a run."""

    suite: str
    level: str
    tasks: int
    correct: Counted
    delivered: int
    """Tasks for which the user gets kernels of ours."""
    faster: dict[str, Counted]
    """Baseline -> tasks whose kernels are faster beyond chance; without baselines that were not
    timed."""
    means: dict[str, Mean]
    """Baseline -> geometric mean of the delivered speed-up, over all tasks that were timed."""
    errors: ErrorMedians | None
    """None where no correct task has errors."""
    roofline: Mean | None
    """Geometric mean of shares: the least time that the hardware allows, over the time as
    delivered. At the limit of the hardware the share is 1."""

    @property
    def is_timed(self) -> bool:
        """Whether some task was timed together with a baseline."""
        return bool(self.means)


def summaries(run: SiteRun) -> list[LevelSummary]:
    """The summary of each level of a run, in the order of its cases."""
    levels: dict[tuple[str, str], list[CaseLine]] = {}
    for case in first_samples(run.cases):
        levels.setdefault((case["suite"], case["level"]), []).append(case)
    return [summarize(suite, level, cases) for (suite, level), cases in levels.items()]


def first_samples(cases: Sequence[CaseLine]) -> list[CaseLine]:
    """The first answer to each task."""
    firsts: dict[tuple[str, str, int], CaseLine] = {}
    for case in cases:
        firsts.setdefault((case["suite"], case["level"], case["id"]), case)
    return list(firsts.values())


def summarize(suite: str, level: str, cases: Sequence[CaseLine]) -> LevelSummary:
    """The figures of some tasks, one case for each."""
    timed = [name for name in (EAGER, COMPILE) if any(_has_times(case, name) for case in cases)]
    ratios = {
        name: [ratio.value for case in cases if (ratio := over(case, name))] for name in RIVALS
    }
    shares = [share for case in cases if (share := roofline_share(case)) is not None]
    return LevelSummary(
        suite=suite,
        level=level,
        tasks=len(cases),
        correct=_counted([case for case in cases if case["correct"]]),
        delivered=sum(map(delivers_kernels, cases)),
        faster={name: _counted([case for case in cases if beats(case, name)]) for name in timed},
        means={
            name: geometric_mean(values, "delivered", name)
            for name, values in ratios.items()
            if values
        },
        errors=_error_medians(cases),
        roofline=geometric_mean(shares, "roofline", level) if shares else None,
    )


def _has_times(case: CaseLine, baseline: str) -> bool:
    return bool(case.get("optimized") and case.get(baseline))


def _counted(cases: Sequence[CaseLine]) -> Counted:
    return Counted(len(cases), sum(not delivers_kernels(case) for case in cases))


def _error_medians(cases: Sequence[CaseLine]) -> ErrorMedians | None:
    errors = [errors for case in cases if case["correct"] and (errors := case.get("errors"))]
    if not errors:
        return None
    return ErrorMedians(
        kernels=median(figures["rms_candidate"] for figures in errors),
        pytorch=median(figures["rms_reference"] for figures in errors),
        tasks=len(errors),
    )
