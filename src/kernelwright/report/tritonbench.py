"""The figures of a run of `eval tritonbench`, and its tables, from records alone."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean as mean_ratio

from kernelwright.core.kinds.tritonbench import TritonBenchCaseLine
from kernelwright.core.scores import Mean, geometric_mean
from kernelwright.report.format import Rows

Cases = Sequence[TritonBenchCaseLine]
_MOST_REASONS = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class TritonBenchScore:
    """Numbers of tasks; all shares are of `tasks`."""

    tasks: int
    answered: int
    golden: int | None
    """Golden files whose own script exits with 0; None where no scripts were run."""
    called: int | None
    executed: int | None
    posable: int
    correct: int
    whole: int
    """Correct tasks of which no call was refused."""
    calls: int
    posed: int
    right: int
    timed: int
    """Tasks that are correct and have a time."""
    speedup: Mean | None
    """Geometric mean over these tasks, of each task's mean."""
    faster: int
    """Correct tasks whose mean speed-up is above 1."""


def score_of(cases: Cases) -> TritonBenchScore:
    """The figures over all cases, those that cannot be posed included."""
    were_run = [case for case in cases if case["called"] is not None]
    means = [mean_ratio(c["speedups"]) for c in cases if c["correct"] and c["speedups"]]
    return TritonBenchScore(
        tasks=len(cases),
        answered=sum(case["answered"] for case in cases),
        golden=sum(case["golden_code"] == 0 for case in were_run) if were_run else None,
        called=sum(bool(case["called"]) for case in were_run) if were_run else None,
        executed=sum(bool(case["executed"]) for case in were_run) if were_run else None,
        posable=sum(case["posable"] for case in cases),
        correct=sum(case["correct"] for case in cases),
        whole=sum(case["correct"] and not case["refused"] for case in cases),
        calls=sum(case["calls"] for case in cases),
        posed=sum(case["posed"] for case in cases),
        right=sum(case["right"] for case in cases),
        timed=len(means),
        speedup=geometric_mean(means) if means else None,
        faster=sum(mean > 1.0 for mean in means),
    )


def score_rows(score: TritonBenchScore) -> Rows:
    """The table of the figures, header first."""
    rows: Rows = [("figure", "tasks", "of", "share")]

    def add(name: str, number: int | None, of: int) -> None:
        if number is not None:
            rows.append((name, str(number), str(of), f"{number / of:.1%}" if of else ""))

    add("there is code", score.answered, score.tasks)
    add("golden file exits with 0", score.golden, score.tasks)
    add("call accuracy", score.called, score.tasks)
    add("execution accuracy", score.executed, score.tasks)
    add("judge can pose", score.posable, score.tasks)
    add("correct by the judge", score.correct, score.tasks)
    add("correct, and no call refused", score.whole, score.tasks)
    add("correct, of those posed", score.correct, score.posable)
    if score.speedup is not None:
        rows.append(("mean speed-up", str(score.timed), "", f"{score.speedup.value:.2f}x"))
    return rows


def reason_rows(cases: Cases) -> Rows:
    """Why tasks are not posed and why code is not correct, by number of tasks, header first."""
    refused = Counter(next(iter(c["refused"]), "no call") for c in cases if not c["posable"])
    wrong = Counter(c["code"] for c in cases if c["posable"] and not c["correct"])
    rows = [("not posed", why, str(n)) for why, n in refused.most_common(_MOST_REASONS)]
    rows += [("not correct", code, str(n)) for code, n in wrong.most_common(_MOST_REASONS)]
    return [("tasks are", "reason", "tasks"), *rows]
