"""Charts of a run as plain data for the templates, each with a table of its values."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kernelwright.core.delivered import COMPILE, EAGER, over
from kernelwright.core.kinds.suites import CaseLine
from kernelwright.report.curves import CurveChart, Series, line_chart, percent
from kernelwright.report.format import Rows
from kernelwright.report.programs.charts import BarChart, bar_chart
from kernelwright.report.site.summary import first_samples
from kernelwright.report.suite.scores import BASELINES, THRESHOLDS, fast_shares, is_timed

CHARTED = (EAGER, COMPILE)
"""Baselines with charts."""
LARGEST_P, STEPS_OF_P = 3.0, 60
"""The end of the horizontal axis of fast_p, and the number of steps up to there."""
EDGES = (0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Speed-ups where a bar of the distribution ends and the next bar begins. A bar that begins at 1
leaves out the tasks of `SAME`."""
SAME = "1"
"""The bar of the tasks that are exactly as fast, because the user gets the baseline itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A chart, either a curve or bars, and its values as a table with a heading."""

    title: str
    note: str
    rows: Rows
    curve: CurveChart | None = None
    bars: BarChart | None = None


def figures(cases: Sequence[CaseLine]) -> list[Figure]:
    """The charts of a run: curves of KernelBench's fast_p, and the distribution of the speed-ups.

    Each baseline that was timed has both charts. Only the first answer to each task counts.
    """
    firsts = first_samples(cases)
    timed = [name for name in CHARTED if is_timed(name, firsts)]
    levels: dict[str, list[CaseLine]] = {}
    for case in firsts:
        levels.setdefault(f"{case['suite']} {case['level']}", []).append(case)
    return [
        *(_fast_figure(name, levels) for name in timed),
        *(_distribution(name, firsts) for name in timed),
    ]


def _fast_figure(baseline: str, levels: dict[str, list[CaseLine]]) -> Figure:
    """fast_p over p, with a line for each level."""
    label = BASELINES[baseline]
    thresholds = [LARGEST_P * step / STEPS_OF_P for step in range(STEPS_OF_P + 1)]
    series = [
        Series(name, list(zip(thresholds, fast_shares(cases, baseline, thresholds), strict=True)))
        for name, cases in levels.items()
    ]
    title = f"fast_p over {label}"
    note = f"The share of tasks that are correct and more than p times as fast as {label}, over p."
    rows: Rows = [("level", *(f"p = {p:g}" for p in THRESHOLDS))]
    for name, cases in levels.items():
        shares = fast_shares(cases, baseline, THRESHOLDS)
        rows.append((name, *(f"{100 * share:.1f}%" for share in shares)))
    curve = line_chart(title, series, show=percent, marks=[(1.0, "as fast")], note=note)
    return Figure(title=title, note=note, rows=rows, curve=curve)


def _distribution(baseline: str, cases: Sequence[CaseLine]) -> Figure:
    """The number of tasks by their delivered speed-up."""
    label = BASELINES[baseline]
    ratios = [ratio.value for case in cases if (ratio := over(case, baseline))]
    counts = distribution(ratios)
    title = f"Speed-ups over {label}, as delivered"
    note = (
        "A bar counts the tasks from its own speed-up up to the speed-up of the next bar."
        f' "{SAME}" counts the tasks whose user gets {label} itself.'
        f" Tasks without a time: {len(cases) - len(ratios)}."
    )
    rows: Rows = [("speed-up", "tasks"), *((span, str(number)) for span, number, _ in counts)]
    bars = bar_chart(title, [(mark, number) for _, number, mark in counts])
    return Figure(title=title, note=note, rows=rows, bars=bars)


def distribution(ratios: Sequence[float]) -> list[tuple[str, int, str]]:
    """The number of speed-ups in each range, the smallest speed-ups first.

    A speed-up of exactly 1 has a range of its own, because the user then gets the baseline itself.

    Returns:
        Triples: the range in words, the number of speed-ups, and the label of the bar.
    """
    ends = (0.0, *EDGES, math.inf)
    number_of = Counter(
        SAME if ratio == 1.0 else next(low for low, high in pairwise(ends) if low <= ratio < high)
        for ratio in ratios
    )
    counts: list[tuple[str, int, str]] = []
    for low, high in pairwise(ends):
        if low == 1.0:
            counts.append(("exactly 1", number_of[SAME], SAME))
        words = f"{low:g} to {high:g}" if high < math.inf else f"{low:g} and more"
        if low == 0.0:
            words = f"below {high:g}"
        is_above = low == 1.0
        label = f">{low:g}" if is_above else f"{low:g}"
        counts.append((f"above {words}" if is_above else words, number_of[low], label))
    return counts
