"""Charts of figures over the steps of a run: lines, and stacked layers, as data for templates."""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from kernelwright.report.format import quantity
from kernelwright.report.sections import NUM_COLORS

WIDTH, HEIGHT = 380.0, 190.0
"""In pixels, as all lengths here."""
LEFT, RIGHT, TOP, BOTTOM = 44.0, 10.0, 16.0, 24.0
NUM_TICKS = 5
MOST_POINTS = 240
"""The most points of a line; beyond that, neighbours are averaged."""
MOST_DOTS = 40
"""With more points than this a line is drawn without its points."""
MOST_LAYERS = NUM_COLORS
REST = "others"

Show = Callable[[float], str]
Mark = tuple[float, str]
"""A step, and what happened there."""


@dataclass(frozen=True, slots=True)
class Series:
    """One figure over the steps of a run."""

    name: str
    points: Sequence[tuple[float, float | None]]
    """(step, value) in order of steps; None where there is no value."""

    @property
    def last(self) -> float | None:
        return next((y for _, y in reversed(self.points) if y is not None), None)


@dataclass(frozen=True, slots=True)
class CurveDot:
    x: float
    y: float
    tooltip: str


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    color: int
    path: str
    dots: tuple[CurveDot, ...]
    last: str
    """The last value, as text."""


@dataclass(frozen=True, slots=True)
class CurveTick:
    at: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CurveChart:
    title: str
    note: str
    look: str
    """"line" or "area"."""
    shapes: tuple[Shape, ...]
    x_ticks: tuple[CurveTick, ...]
    y_ticks: tuple[CurveTick, ...]
    marks: tuple[CurveTick, ...]
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


def number(value: float) -> str:
    """Three significant digits: 0.01234 -> "0.0123", 1234567 -> "1.23 M"."""
    return f"{value:.3g}" if abs(value) < 1000 else quantity(value, "")


def percent(value: float) -> str:
    return f"{100 * value:.3g}%"


def line_chart(
    title: str,
    series: Iterable[Series],
    *,
    show: Show = number,
    is_log: bool = False,
    marks: Sequence[Mark] = (),
    note: str = "",
) -> CurveChart | None:
    """A chart with a line for each series; None if no series has a value.

    Args:
        show: makes the text of a value.
        is_log: use a logarithmic axis. Values of 0 or less are left out.
        marks: steps to mark with a vertical line.
    """
    whole = list(series)
    drawn = [_thinned(curve, is_log=is_log) for curve in whole]
    values = [y for curve in drawn for _, y in curve.points if y is not None]
    if not values:
        return None
    steps = [x for curve in drawn for x, _ in curve.points]
    scale = _LinearScale(steps, values, is_log=is_log)
    return CurveChart(
        title=title,
        note=note,
        look="line",
        shapes=tuple(
            Shape(
                name=curve.name,
                color=i % NUM_COLORS,
                path=scale.line(curve.points),
                dots=_dots(curve, scale, show),
                # Of the whole series: the last thinned point is a mean of neighbours.
                last="" if each_whole.last is None else show(each_whole.last),
            )
            for i, (curve, each_whole) in enumerate(zip(drawn, whole, strict=True))
        ),
        x_ticks=scale.x_ticks(),
        y_ticks=scale.y_ticks(show),
        marks=scale.marks(marks),
    )


def stack_chart(
    title: str,
    series: Sequence[Series],
    *,
    show: Show = number,
    marks: Sequence[Mark] = (),
    note: str = "",
) -> CurveChart | None:
    """A chart of layers that add up, the first at the bottom; None if all values are 0 or missing.

    All series have the same steps. A value of None counts as 0. If there are more layers than
    colours, the smallest are drawn as one.
    """
    whole = _merged(series)
    drawn = [_thinned(curve, is_log=False) for curve in whole]
    if not drawn:
        return None
    steps = [x for x, _ in drawn[0].points]
    heights = [[y or 0.0 for _, y in curve.points] for curve in drawn]
    tops = [sum(column) for column in zip(*heights, strict=True)]
    scale = _LinearScale(steps, [0.0, *tops], is_log=False)
    below, shapes = [0.0] * len(steps), []
    for i, (curve, own) in enumerate(zip(drawn, heights, strict=True)):
        above = [a + b for a, b in zip(below, own, strict=True)]
        last = show(whole[i].last or 0.0)
        shapes.append(Shape(curve.name, i % NUM_COLORS, scale.area(steps, below, above), (), last))
        below = above
    return CurveChart(
        title=title,
        note=note,
        look="area",
        shapes=tuple(shapes),
        x_ticks=scale.x_ticks(),
        y_ticks=scale.y_ticks(show),
        marks=scale.marks(marks),
    )


def _merged(series: Sequence[Series]) -> list[Series]:
    """The largest layers in their given order, and one for the sum of all others. Layers without a
    value above 0 are left out."""
    sizes = [sum(y or 0.0 for _, y in curve.points) for curve in series]
    there = [i for i, size in enumerate(sizes) if size > 0]
    if len(there) <= MOST_LAYERS:
        return [series[i] for i in there]
    kept = set(sorted(there, key=lambda i: -sizes[i])[: MOST_LAYERS - 1])
    rest = [series[i].points for i in there if i not in kept]
    summed = [
        (column[0][0], sum(y or 0.0 for _, y in column)) for column in zip(*rest, strict=True)
    ]
    return [*(series[i] for i in there if i in kept), Series(REST, summed)]


def _thinned(series: Series, *, is_log: bool) -> Series:
    """The series with at most MOST_POINTS points, each the mean of neighbours."""
    points = [(x, None if is_log and (y or 0.0) <= 0 else y) for x, y in series.points]
    size = math.ceil(len(points) / MOST_POINTS)
    if size > 1:
        points = [_meant(points[i : i + size]) for i in range(0, len(points), size)]
    return Series(series.name, points)


def _meant(points: Sequence[tuple[float, float | None]]) -> tuple[float, float | None]:
    values = [y for _, y in points if y is not None]
    return fmean(x for x, _ in points), fmean(values) if values else None


def _dots(series: Series, scale: "_LinearScale", show: Show) -> tuple[CurveDot, ...]:
    known = [(x, y) for x, y in series.points if y is not None]
    if len(known) > MOST_DOTS:
        return ()
    return tuple(
        CurveDot(scale.x(x), scale.y(y), f"{series.name}: {show(y)} at step {x:g}")
        for x, y in known
    )


class _LinearScale:
    """Maps steps and values to pixels, linearly or by the logarithm of values."""

    def __init__(self, steps: Sequence[float], values: Sequence[float], *, is_log: bool) -> None:
        low, high = min(steps), max(steps)
        self.steps = (low, high) if high > low else (low - 0.5, high + 0.5)
        self._map: Callable[[float], float] = math.log10 if is_log else float
        self.is_log = is_log
        low, high = self._map(min(values)), self._map(max(values))
        spare = 0.04 * (high - low) or 0.5 * abs(high) or 0.5
        self.values = (low if low == 0 and not is_log else low - spare, high + spare)

    def x(self, step: float) -> float:
        return _along(step, self.steps, LEFT, WIDTH - RIGHT)

    def y(self, value: float) -> float:
        return _along(self._map(value), self.values, HEIGHT - BOTTOM, TOP)

    def line(self, points: Sequence[tuple[float, float | None]]) -> str:
        """A line as SVG path data. It is interrupted where a value is missing."""
        parts, draws = [], False
        for x, y in points:
            if y is not None:
                parts.append(f"{'L' if draws else 'M'}{self.x(x):.1f} {self.y(y):.1f}")
            draws = y is not None
        return "".join(parts)

    def area(self, steps: Sequence[float], below: Sequence[float], above: Sequence[float]) -> str:
        if len(steps) == 1:  # as broad as the chart
            steps, below, above = self.steps, [*below] * 2, [*above] * 2
        up = [f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in zip(steps, above, strict=True)]
        down = [f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in zip(steps, below, strict=True)]
        return "M" + "L".join([*up, *reversed(down)]) + "z"

    def marks(self, marks: Sequence[Mark]) -> tuple[CurveTick, ...]:
        low, high = self.steps
        return tuple(CurveTick(self.x(step), text) for step, text in marks if low <= step <= high)

    def x_ticks(self) -> tuple[CurveTick, ...]:
        whole = [step for step in _round_values(self.steps) if step == int(step)]
        return tuple(CurveTick(self.x(step), number(step)) for step in whole)

    def y_ticks(self, show: Show) -> tuple[CurveTick, ...]:
        values = _round_powers(self.values) if self.is_log else _round_values(self.values)
        return tuple(CurveTick(self.y(value), show(value)) for value in values)


def _along(value: float, span: tuple[float, float], start: float, end: float) -> float:
    return start + (value - span[0]) / (span[1] - span[0]) * (end - start)


def _round_values(span: tuple[float, float]) -> list[float]:
    """About NUM_TICKS values within a span: multiples of 1, 2 or 5 times a power of ten."""
    rough = max((span[1] - span[0]) / NUM_TICKS, sys.float_info.min)  # below, no digit is left
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first, last = math.ceil(span[0] / step), math.floor(span[1] / step)
    return [i * step for i in range(first, last + 1)]


def _round_powers(span: tuple[float, float]) -> list[float]:
    """1, 2 and 5 times powers of ten, or the powers alone where these are enough; span in log10."""
    powers = range(math.floor(span[0]), math.ceil(span[1]) + 1)
    for factors in ((1,), (1, 2, 5), (1, 2, 3, 4, 5, 6, 7, 8, 9)):
        values = [factor * 10.0**power for power in powers for factor in factors]
        inside = [value for value in values if span[0] <= math.log10(value) <= span[1]]
        if len(inside) >= 3:
            return inside[:: math.ceil(len(inside) / (2 * NUM_TICKS))]
    return _round_values((10 ** span[0], 10 ** span[1]))  # less than a third of a power
