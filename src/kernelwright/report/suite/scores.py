"""Scores of a KernelBench run, by level and set of tasks.

A case is correct if the judge accepted a kernel, fast or not. It beats a baseline if the whole 95%
interval of the speed-up lies above 1. Means "as delivered" are over what the user gets. If no
kernel of ours is kept, the user gets torch.compile or PyTorch, and the task is named.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kernelwright.core.commits import distinct, with_commits
from kernelwright.core.delivered import (
    BETTER,
    COMPILE,
    COMPILED,
    EAGER,
    ORIGINAL,
    TIMED,
    delivered_timing,
    delivers_kernels,
    form_of,
    may_win,
    measured,
    over,
    timing_of,
    unchanged,
)
from kernelwright.core.kinds.fields import FormFields
from kernelwright.core.kinds.suites import CaseLine
from kernelwright.core.levels import level_number
from kernelwright.core.record import Record, of_kind
from kernelwright.core.scores import Mean, fast_p, geometric_mean, pass_at_k

THRESHOLDS = (0.0, 0.5, 1.0, 1.2, 1.5, 2.0)
"""The p of fast_p."""
BASELINES = {
    BETTER: "the better of both",
    COMPILE: "torch.compile",
    EAGER: "eager",
    "max_autotune": "max-autotune",
}
"""Label by name in records, in the order of all tables; the first is the faster of the next two."""
PUBLISHED = {"L1": (69, 17, 12), "L2": (96, 92, 56), "L3": (76, 54, 34)}
"""DRTriton-7B with search: percent correct, faster than eager, faster than torch.compile."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Against:
    """A group of tasks against one baseline."""

    baseline: str
    delivered: Mean
    """Over all timed tasks, correct or not, with the time of the module that the user gets."""
    correct: Mean
    """Over correct tasks that were timed against it."""
    without_algebra: Mean
    """As `delivered`, without algebraic rewrites of programs."""
    launched: Mean
    """As `delivered`, if every kernel is launched by itself, not replayed in a CUDA graph."""
    beats: int
    fast: tuple[float, ...]
    """fast_p for each of THRESHOLDS."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """The scores of a group of tasks: a level, or all of them."""

    level: str
    against: tuple[Against, ...]
    """Baselines that were timed, in the order of `BASELINES`; none without a GPU."""
    tasks: int
    correct: int
    kept: int
    """Tasks whose user gets kernels of ours."""
    unchanged: dict[str, tuple[str, ...]]
    """The other tasks, by the form that the user gets: "compiled" or "original"."""
    algebra: dict[str, int]
    """Tasks that beat eager with this algebraic rewrite's help: it drops work eager does."""
    by_algebra: int
    """Tasks that beat eager with any of these."""
    rewrites: dict[str, int]
    """As `algebra`, of rewrites that change layout or take biases apart."""
    by_rewrites: int
    graphs: int
    """Tasks that beat eager as a CUDA graph."""
    graphs_needed: int
    """Tasks among them that lose this if their kernels are launched one by one."""
    roofline: Mean | None
    """Share of the least possible time in the time as delivered, over tasks with both."""
    seconds: float
    candidates: int
    pass_at: dict[int, float]
    """k -> mean of pass@k over tasks, where a task has several samples."""
    commits: tuple[str, ...]
    """The commits at which the cases were measured; "" where a record does not say."""


def cases_of(lines: Iterable[Record]) -> list[CaseLine]:
    """The last record of each case with its commit, by level, number and sample."""
    latest = {(line["level"], line["id"], line.get("sample", 0)): line for line in committed(lines)}
    return [latest[key] for key in sorted(latest)]


def committed(lines: Iterable[Record]) -> Iterator[CaseLine]:
    """The records of cases in a file, with their commits (`core.commits`)."""
    return of_kind(({**line, "commit": commit} for line, commit in with_commits(lines)), CaseLine)


def place(case: CaseLine) -> tuple[int, int]:
    """Level and number of a case's task, the same for a task that was cast to bfloat16."""
    return level_number(case["level"]), case["id"]


def scores_by_level(
    cases: Sequence[CaseLine], members: Iterable[tuple[int, int]] | None = None
) -> list[Scores]:
    """The scores of each level that has cases.

    Args:
        members: (level, number) of the tasks to count; None: all.
    """
    wanted = None if members is None else set(members)
    levels: dict[str, list[CaseLine]] = defaultdict(list)
    for case in cases:
        if wanted is None or place(case) in wanted:
            levels[case["level"]].append(case)
    return [scores_of(level, cases_of_level) for level, cases_of_level in levels.items()]


def scores_of(level: str, cases: Sequence[CaseLine]) -> Scores:
    """The scores of some cases. All but `pass_at`, `seconds` and `candidates` are of the first
    sample of each task.

    Args:
        level: the name of the scores: a level, or "all".
    """
    samples: dict[tuple[str, int], list[CaseLine]] = defaultdict(list)
    for case in cases:
        samples[case["level"], case["id"]].append(case)
    firsts = [sample[0] for sample in samples.values()]
    won = [case for case in firsts if beats(case, "eager")]
    shares = [share for case in firsts if (share := roofline_share(case)) is not None]
    return Scores(
        level=level,
        tasks=len(firsts),
        correct=sum(case["correct"] for case in firsts),
        kept=sum(map(delivers_kernels, firsts)),
        against=tuple(_against(name, firsts) for name in BASELINES if is_timed(name, firsts)),
        unchanged={
            form: tuple(case["name"] for case in firsts if form_of(case) == form)
            for form in (COMPILED, ORIGINAL)
        },
        algebra=dict(Counter(name for case in won for name in case.get("algebra", ()))),
        by_algebra=sum(bool(case.get("algebra")) for case in won),
        rewrites=dict(Counter(name for case in won for name in case.get("rewrites", ()))),
        by_rewrites=sum(bool(case.get("rewrites")) for case in won),
        graphs=sum(bool(case.get("graph")) for case in won),
        graphs_needed=sum(_low_end(case, EAGER) * share_of_graph(case) <= 1.0 for case in won),
        roofline=geometric_mean(shares, "roofline", level) if shares else None,
        seconds=sum(case.get("seconds", 0.0) for case in cases),
        candidates=sum(case.get("candidates", 0) for case in cases),
        pass_at=pass_at_ks(cases),
        commits=tuple(distinct(case.get("commit", "") for case in cases)),
    )


def speedup(case: CaseLine, baseline: str) -> float | None:
    """Median time of the baseline, divided by the median time of our kernel; None if the case is
    not correct or was not timed."""
    ratio = measured(case, baseline) if case["correct"] else None
    return ratio.value if ratio else None


def delivered_without_algebra(case: CaseLine, baseline: str) -> float | None:
    """The ratio of `core.delivered.over`, had the search used no algebraic rewrites.

    The search timed forms with and without rewrites side by side. The case's ratio is scaled by
    their ratio. If no form without rewrites is right, no kernel would have been delivered. Without
    such a comparison the case's ratio stands.
    """
    forms = case.get("forms", [])
    if not (case.get("algebra") and forms):
        return _scaled(case, baseline, 1.0)
    rewritten, plain = _best_ms(forms, is_rewritten=True), _best_ms(forms, is_rewritten=False)
    return _scaled(case, baseline, rewritten / plain if rewritten and plain else 0.0)


def share_of_graph(case: CaseLine) -> float:
    """The share of a task's speed-up that is left if its kernels are launched one by one, not as a
    CUDA graph; 1 without a graph."""
    graph = case.get("graph")
    return float(graph["replayed_ms"] / graph["launched_ms"]) if graph else 1.0


def delivered_launched(case: CaseLine, baseline: str) -> float | None:
    """The ratio of `core.delivered.over`, had the kernels been launched one by one. If the model
    without kernels is faster than that, its ratio counts."""
    return _scaled(case, baseline, share_of_graph(case))


def _scaled(case: CaseLine, baseline: str, share: float) -> float | None:
    """The delivered ratio, had our kernels only this share of their speed.

    The ratio does not fall below that of the unchanged model: the search would not keep kernels
    that are slower.
    """
    ratio, without = over(case, baseline), unchanged(case, baseline)
    if ratio is None or share == 1.0 or not delivers_kernels(case):
        return ratio.value if ratio else None
    return max(ratio.value * share, without.value if without else 0.0)


def _best_ms(forms: Sequence[FormFields], *, is_rewritten: bool) -> float | None:
    """Time of the fastest of the forms with algebraic rewrites, or of those without."""
    times = [
        form["times"]["optimized"]["median_ms"]
        for form in forms
        if bool(form["algebra"]) is is_rewritten and "optimized" in form["times"]
    ]
    return min(times, default=None)


def beats(case: CaseLine, baseline: str) -> bool:
    """Whether a kernel of ours is faster than the baseline beyond chance.

    The interval of the speed-up lies above 1. In an older record, which has no such interval, the
    intervals of the two medians do not overlap.
    """
    if baseline == BETTER:
        both = (EAGER, COMPILE) if case.get(COMPILE) else (EAGER,)
        return all(beats(case, name) for name in both)
    ours, theirs = timing_of(case, TIMED), timing_of(case, baseline)
    if not (case["correct"] and may_win(case) and ours and theirs):
        return False
    ends = (case.get("speedup_intervals") or {}).get(baseline)
    return ends[0] > 1.0 if ends else ours["high_ms"] < theirs["low_ms"]


def _low_end(case: CaseLine, baseline: str) -> float:
    """The lower end of the interval of a case that beats a baseline; in an older record the
    smallest ratio of the intervals of both medians."""
    ends = (case.get("speedup_intervals") or {}).get(baseline)
    ours, theirs = timing_of(case, TIMED), timing_of(case, baseline)
    assert ours
    assert theirs
    return ends[0] if ends else theirs["low_ms"] / ours["high_ms"]


def roofline_share(case: CaseLine) -> float | None:
    """The least time that the task's bytes and FLOPs allow over the time of the user's code; None
    without either time."""
    timing, floor_ms = delivered_timing(case), case.get("floor_ms")
    return floor_ms / timing["median_ms"] if timing and floor_ms else None


def is_timed(baseline: str, cases: Sequence[CaseLine]) -> bool:
    """Whether some correct case was timed beside a baseline. The better of both counts as timed if
    torch.compile was."""
    name = COMPILE if baseline == BETTER else baseline
    return any(speedup(case, name) is not None for case in cases)


def _against(baseline: str, cases: Sequence[CaseLine]) -> Against:
    """The scores against one baseline. A correct case without a time against it counts as not
    faster."""
    speedups = [speedup(case, baseline) for case in cases]
    delivered = [ratio.value if (ratio := over(case, baseline)) else None for case in cases]
    plain = [delivered_without_algebra(case, baseline) for case in cases]
    launched = [delivered_launched(case, baseline) for case in cases]
    return Against(
        baseline=baseline,
        delivered=_mean(delivered, "delivered", baseline),
        correct=_mean(speedups, "correct", baseline),
        without_algebra=_mean(plain, "without algebra", baseline),
        launched=_mean(launched, "launched", baseline),
        beats=sum(beats(case, baseline) for case in cases),
        fast=fast_shares(cases, baseline, THRESHOLDS),
    )


def fast_shares(
    cases: Sequence[CaseLine], baseline: str, thresholds: Sequence[float]
) -> tuple[float, ...]:
    """fast_p for each threshold p. At p = 0 all correct cases count, also those without a time."""
    ours = [speedup(case, baseline) if may_win(case) else None for case in cases]
    correct = sum(case["correct"] for case in cases) / len(cases)
    return tuple(correct if p == 0 else fast_p(ours, p) for p in thresholds)


def _mean(ratios: Sequence[float | None], *seed: str) -> Mean:
    """The geometric mean over the tasks that have a ratio.

    Raises:
        ValueError: no task has one.
    """
    return geometric_mean([ratio for ratio in ratios if ratio is not None], *seed)


def pass_at_ks(cases: Iterable[CaseLine]) -> dict[int, float]:
    """k -> mean of pass@k over tasks, for powers of two up to the fewest samples of any task. Empty
    if some task has one sample."""
    samples: dict[tuple[str, int], list[bool]] = defaultdict(list)
    for case in cases:
        samples[case["level"], case["id"]].append(case["correct"])
    least = min(map(len, samples.values()))
    ks = [1 << i for i in range(least.bit_length())] if least > 1 else []
    return {
        k: sum(pass_at_k(len(sample), sum(sample), k) for sample in samples.values()) / len(samples)
        for k in ks
    }
