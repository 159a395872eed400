"""Charts of counts as plain data for the templates: bars, and a map of pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from kernelwright.report.format import count

BAR_STEP = 30.0
"""From one bar to the next, in pixels."""
UPRIGHT_STEP = 11.0
LEAST_WIDTH = 360.0
"""Few bars are made broader than BAR_STEP."""
BAR_HEIGHT = 120.0
MOST_LYING = 24
"""With more bars than this, labels stand upright."""
CELL = 7.0
NUM_SHADES = 7


@dataclass(frozen=True, slots=True)
class ChartBar:
    x: float
    y: float
    width: float
    height: float
    label: str
    count: str
    tooltip: str


@dataclass(frozen=True, slots=True)
class BarChart:
    title: str
    bars: tuple[ChartBar, ...]
    width: float
    floor: float
    """Where bars stand, from the top."""
    height: float
    is_upright: bool
    """Labels read upwards."""


def bar_chart(title: str, counts: Sequence[tuple[str, int]]) -> BarChart:
    """A bar for each (label, count), in this order."""
    is_upright = len(counts) > MOST_LYING
    step = UPRIGHT_STEP if is_upright else max(BAR_STEP, LEAST_WIDTH / max(1, len(counts)))
    top, total = max((n for _, n in counts), default=0), sum(n for _, n in counts)
    bars = tuple(
        ChartBar(
            x=i * step,
            y=BAR_HEIGHT * (1 - n / top),
            width=step - 2,
            height=BAR_HEIGHT * n / top,
            label=label,
            count=count(n) if n else "",
            tooltip=f"{label}: {count(n)}, {n / total:.2%}",
        )
        for i, (label, n) in enumerate(counts)
    )
    longest = max((len(label) for label, _ in counts), default=0)
    below = 5.5 * longest + 10 if is_upright else 22
    return BarChart(title, bars, step * len(counts), BAR_HEIGHT, BAR_HEIGHT + below, is_upright)


@dataclass(frozen=True, slots=True)
class Layer:
    """All cells of one look."""

    look: str
    path: str


@dataclass(frozen=True, slots=True)
class PairMap:
    names: tuple[tuple[str, float], ...]
    """Labels and the middle of their row, which is that of their column."""
    layers: tuple[Layer, ...]
    side: float
    margin: float
    """Room for the labels."""
    most: int


def pair_map(
    names: Sequence[str],
    counts: Mapping[tuple[str, str], int],
    possible: set[tuple[str, str]] | None,
) -> PairMap:
    """A map of ordered pairs of names: a row for the first, a column for the second.

    Shades follow the logarithm of counts. Cells of a row with the same look are drawn as one.

    Args:
        possible: pairs that could occur. Those that did not are marked. None: not known.
    """
    most = max(counts.values(), default=0)
    runs: dict[str, list[str]] = {}
    for row, first in enumerate(names):
        looks = [_look(counts, possible, (first, second), most) for second in names]
        column = 0
        for look, cells in groupby(looks):
            length = len(list(cells))
            if look:
                x, y, width = column * CELL, row * CELL, length * CELL
                runs.setdefault(look, []).append(f"M{x:g} {y:g}h{width:g}v{CELL:g}h{-width:g}z")
            column += length
    longest = max(map(len, names), default=0)
    return PairMap(
        names=tuple((name, (i + 0.5) * CELL) for i, name in enumerate(names)),
        layers=tuple(Layer(look, "".join(paths)) for look, paths in sorted(runs.items())),
        side=len(names) * CELL,
        margin=3.4 * longest + 8,
        most=most,
    )


def _look(
    counts: Mapping[tuple[str, str], int],
    possible: set[tuple[str, str]] | None,
    pair: tuple[str, str],
    most: int,
) -> str:
    number = counts.get(pair, 0)
    if number:
        shade = 1 + (NUM_SHADES - 1) * number.bit_length() // max(1, most.bit_length())
        return f"shade{shade}"
    return "unseen" if possible is not None and pair in possible else ""
