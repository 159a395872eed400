"""The chart of a run's speed-ups: every task is a point, from the slowest to the fastest."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.core.delivered import over
from kernelwright.core.kinds.suites import CaseLine
from kernelwright.report.curves import CurveDot
from kernelwright.report.format import factor
from kernelwright.report.suite.scores import BASELINES, is_timed

WIDTH, HEIGHT = 1080.0, 320.0
"""In pixels, as all lengths here."""
LEFT, RIGHT, TOP, BOTTOM = 64.0, 14.0, 14.0, 34.0
STEPS = (1.0, 2.0, 0.5, 10.0, 5.0, 0.2, 0.1, 100.0, 0.01, 1000.0, 20.0, 50.0, 3.0, 1.5, 0.8)
"""Ratios with a line across the picture, those that matter most first."""
TICK_GAP = 30.0
"""Least distance of two labels."""


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    color: int
    path: str
    dots: tuple[CurveDot, ...]


@dataclass(frozen=True, slots=True)
class ChartTick:
    y: float
    text: str
    is_even: bool
    """As fast as the baseline."""


@dataclass(frozen=True, slots=True)
class SpeedChart:
    lines: tuple[Line, ...]
    ticks: tuple[ChartTick, ...]
    num_left_out: int
    """Tasks that some line has no point for, because a time is missing."""
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    bottom: float = HEIGHT - BOTTOM


def speed_chart(cases: Sequence[CaseLine]) -> SpeedChart | None:
    """The chart of speed-ups as delivered, with a line for each baseline; None without times."""
    shown = {
        baseline: pairs
        for baseline in BASELINES
        if is_timed(baseline, cases) and (pairs := _ranked(cases, baseline))
    }
    if not shown:
        return None
    ratios = [1.0, *(ratio for pairs in shown.values() for ratio, _ in pairs)]
    low, high = min(ratios) / 1.06, max(ratios) * 1.06

    def y(ratio: float) -> float:
        share = math.log(ratio / low) / math.log(high / low)
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    lines = []
    for color, (baseline, pairs) in enumerate(shown.items()):
        label = BASELINES[baseline]
        step = (WIDTH - RIGHT - LEFT) / len(pairs)
        dots = tuple(
            CurveDot(LEFT + (i + 0.5) * step, y(ratio), f"{name}: {factor(ratio)} over {label}")
            for i, (ratio, name) in enumerate(pairs)
        )
        path = "M" + "L".join(f"{dot.x:.1f} {dot.y:.1f}" for dot in dots)
        lines.append(Line(f"over {label}", color, path, dots))
    least = min(len(pairs) for pairs in shown.values())
    ticks = tuple(ChartTick(y(at), f"{at:g}x", at == 1.0) for at in _ticks(low, high))
    return SpeedChart(tuple(lines), ticks, len(cases) - least)


def _ranked(cases: Sequence[CaseLine], baseline: str) -> list[tuple[float, str]]:
    """(speed-up, task) of all tasks with a time, the smallest speed-up first."""
    return sorted(
        (ratio.value, f"{case['level']}/{case['name']}")
        for case in cases
        if (ratio := over(case, baseline))
    )


def _ticks(low: float, high: float) -> list[float]:
    """The round ratios within the chart that get a line. The most important come first, and a ratio
    whose label would touch a chosen one's is left out."""
    far = math.log(high / low) * TICK_GAP / (HEIGHT - BOTTOM - TOP)
    chosen: list[float] = []
    for value in (1.0, *(step for step in STEPS if step != 1.0)):
        is_free = all(abs(math.log(value / other)) >= far for other in chosen)
        if low <= value <= high and is_free:
            chosen.append(value)
    return sorted(chosen)
