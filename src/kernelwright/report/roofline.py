"""The roofline chart: the speed of each fragment beside the limit of the hardware."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelwright.core.kinds.searching import CallFields, FragmentLine, SearchedProgramLine
from kernelwright.report import format as text
from kernelwright.report.format import quantity
from kernelwright.timing.floor import Peak, floor_ms, peak_of

ESTIMATED_ON = "H200"
"""The GPU that estimates are for, where nothing was measured."""

WIDTH, HEIGHT = 680, 400
LEFT, RIGHT, TOP, BOTTOM = 96, 28, 22, 52
MOST_LABELS = 12
"""With more fragments than this the labels cover each other, and tooltips must do."""


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float
    label: str
    color: int
    kind: str
    """"eager", "best" or "estimate"."""
    tooltip: str


@dataclass(frozen=True, slots=True)
class RooflineTick:
    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Roof:
    path: str
    label: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class RooflineChart:
    """The chart, with places in pixels."""

    points: tuple[Point, ...]
    moves: tuple[tuple[float, float, float, float], ...]
    """Lines from a fragment's eager point to its best one."""
    roofs: tuple[Roof, ...]
    x_ticks: tuple[RooflineTick, ...]
    y_ticks: tuple[RooflineTick, ...]
    gpu: str
    is_estimate: bool
    num_left_out: int
    """Fragments without arithmetic: they have no place on a roofline."""
    has_labels: bool
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def estimate_ms(
    program: SearchedProgramLine, fragments: Sequence[FragmentLine]
) -> tuple[float, float]:
    """Roofline time of a program before and after fusing the winning fragments, in ms.

    In fp32 without tensor cores. Launch overhead is left out, so the gain is what saved memory
    traffic alone can give.
    """
    calls = program["calls"]
    won = [f for f in fragments if f["winner"] is not None]
    fused = {i for fragment in won for i in fragment["calls"]}
    kept = sum(_floor_ms(call) for i, call in enumerate(calls) if i not in fused)
    return sum(map(_floor_ms, calls)), kept + sum(map(_floor_ms, won))


def _floor_ms(work: CallFields | FragmentLine) -> float:
    """Least time of a call or a fragment on the estimates' GPU."""
    floor = floor_ms(ESTIMATED_ON, work["bytes"], work["flops"], "fp32")
    assert floor is not None
    return floor


def chart(
    program: SearchedProgramLine,
    fragments: Sequence[FragmentLine],
    colors: Mapping[int, int],
    device: str,
) -> RooflineChart | None:
    """The chart of the winning fragments under the roof; None if none of them has FLOPs.

    A measured fragment has a point for eager and one for its best kernel. If nothing was measured,
    the points lie on the roof of ESTIMATED_ON and are marked as estimates.

    Args:
        colors: fragment id -> colour.
        device: name of the GPU. An unknown GPU has no roof.
    """
    won = [f for f in fragments if f["winner"] is not None]
    is_estimate = not any(f["best"] for f in won)
    gpu = ESTIMATED_ON if is_estimate else device
    peak = peak_of(gpu)
    counted = [f for f in won if f["flops"] > 0 and f["bytes"] > 0]
    dots = [dot for f in counted for dot in _dots(program, f, is_estimate)]
    if not dots:
        return None
    scale = _LogScale([d[1] for d in dots], [d[2] for d in dots], peak)
    points = tuple(_point(scale, dot, colors) for dot in dots)
    by_kind = {(dot[0]["id"], dot[3]): point for dot, point in zip(dots, points, strict=True)}
    moves = tuple(
        (a.x, a.y, b.x, b.y)
        for (fragment, kind), b in by_kind.items()
        if kind == "best" and (a := by_kind.get((fragment, "eager"))) is not None
    )
    return RooflineChart(
        points=points,
        moves=moves,
        roofs=() if peak is None else scale.roofs(peak),
        x_ticks=tuple(RooflineTick(scale.x(v), f"{v:g}") for v in scale.decades(scale.x_range)),
        y_ticks=tuple(
            RooflineTick(scale.y(v), quantity(v, "FLOP/s")) for v in scale.decades(scale.y_range)
        ),
        gpu=gpu,
        is_estimate=is_estimate,
        num_left_out=len(won) - len(counted),
        has_labels=len(counted) <= MOST_LABELS,
    )


_Dot = tuple[FragmentLine, float, float, str]
"""Fragment, FLOP/byte, FLOP/s, kind."""


def _dots(program: SearchedProgramLine, fragment: FragmentLine, is_estimate: bool) -> list[_Dot]:
    flops = fragment["flops"]
    if is_estimate:
        per_s = flops / (_floor_ms(fragment) / 1000)
        return [(fragment, flops / fragment["bytes"], per_s, "estimate")]
    unfused = sum(program["calls"][i]["bytes"] for i in fragment["calls"])
    dots: list[_Dot] = []
    sides = (("eager", fragment["eager"], unfused), ("best", fragment["best"], fragment["bytes"]))
    for kind, timing, num_bytes in sides:
        if timing and num_bytes:
            per_s = flops / (timing["median_ms"] / 1000)
            dots.append((fragment, flops / num_bytes, per_s, kind))
    return dots


def _point(scale: "_LogScale", dot: _Dot, colors: Mapping[int, int]) -> Point:
    fragment, intensity, per_s, kind = dot
    return Point(
        x=scale.x(intensity),
        y=scale.y(per_s),
        label=text.fragment(fragment["id"]),
        color=colors.get(fragment["id"], -1),
        kind=kind,
        tooltip=f"{kind}: {intensity:.3g} FLOP/B, {quantity(per_s, 'FLOP/s')}",
    )


class _LogScale:
    """Two logarithmic axes over whole decades that hold all points and the roof; maps values to
    pixels."""

    def __init__(self, xs: list[float], ys: list[float], peak: Peak | None) -> None:
        roof = [] if peak is None else [peak.flops_per_s["fp32"]]
        ridge = [] if peak is None else [peak.flops_per_s["fp32"] / peak.bytes_per_s]
        self.x_range = _decades_around([*xs, *ridge])
        self.y_range = _decades_around([*ys, *roof])

    def x(self, value: float) -> float:
        return _along(value, self.x_range, LEFT, WIDTH - RIGHT)

    def y(self, value: float) -> float:
        return _along(value, self.y_range, HEIGHT - BOTTOM, TOP)

    @staticmethod
    def decades(span: tuple[int, int]) -> list[float]:
        step = max(1, (span[1] - span[0] + 6) // 7)
        return [10.0**e for e in range(span[0], span[1] + 1, step)]

    def roofs(self, peak: Peak) -> tuple[Roof, ...]:
        """Memory slope and fp32 ceiling as one line, and the tensor cores' ceiling above."""
        first, last = (10.0**e for e in self.x_range)
        bottom, top = (10.0**e for e in self.y_range)
        per_s = peak.bytes_per_s
        lines = []
        for arithmetic, name in (("fp32", "fp32"), ("tf32", "TF32 tensor cores")):
            ceiling = peak.flops_per_s[arithmetic]
            if ceiling > top:
                continue
            start, end = max(first, bottom / per_s), min(ceiling, last * per_s)
            corners = [(start, start * per_s), (end / per_s, end), (last, end)]
            path = "M" + " L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in corners)
            label = f"{name} {quantity(ceiling, 'FLOP/s')}"
            lines.append(Roof(path, label, self.x(last), self.y(end) - 6))
        return tuple(lines)


def _decades_around(values: list[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 0.1)
    return low, max(high, low + 1)


def _along(value: float, span: tuple[int, int], start: float, end: float) -> float:
    return start + (math.log10(value) - span[0]) / (span[1] - span[0]) * (end - start)
