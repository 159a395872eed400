"""Draws a program: operators as boxes, coloured by the fragment whose kernels compute them."""

from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.core.kinds.searching import CallFields, SearchedProgramLine
from kernelwright.report import format as text
from kernelwright.report.format import quantity
from kernelwright.report.layout import DrawingLayout, layered

NODE_HEIGHT = 44
ROW_HEIGHT = 78
MARGIN = 16
LETTER_WIDTH, SMALL_LETTER_WIDTH = 7.8, 6.4
"""Generous widths of a letter at the two text sizes, in pixels: there is no font to ask."""


@dataclass(frozen=True, slots=True)
class DrawnNode:
    name: str
    detail: str
    """Shape of the first output."""
    kind: str
    """"triton", "pytorch" or "extern"."""
    fragment: str
    """Name of its fragment; empty where it stays PyTorch."""
    color: int
    """Index of the fragment's colour; -1 for none."""
    tooltip: str
    x: float
    y: float
    width: float


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing of a program, with places in pixels."""

    nodes: tuple[DrawnNode, ...]
    edges: tuple[str, ...]
    """SVG path data."""
    width: float
    height: float
    node_height: int = NODE_HEIGHT


def draw(program: SearchedProgramLine, colors: Mapping[int, int]) -> Picture:
    """The picture of a program.

    Args:
        colors: fragment id -> colour, for fragments that became Triton.
    """
    calls = program["calls"]
    widths = [_width(call) for call in calls]
    producer = {name: i for i, call in enumerate(calls) for name in call["outputs"]}
    edges = sorted(
        {(producer[n], i) for i, call in enumerate(calls) for n in call["inputs"] if n in producer}
    )
    layout = layered(widths, edges)
    nodes = tuple(
        _node(call, colors, center, row, width)
        for call, center, row, width in zip(calls, layout.centers, layout.rows, widths, strict=True)
    )
    return Picture(
        nodes=nodes,
        edges=tuple(_path(points) for points in layout.paths),
        width=layout.width + 2 * MARGIN,
        height=_height(layout),
    )


def shape_text(shape: list[int]) -> str:
    return " x ".join(map(str, shape)) or "scalar"


def _width(call: CallFields) -> float:
    detail = shape_text(call["shapes"][0]) if call["shapes"] else ""
    letters = max(len(call["op"]) * LETTER_WIDTH, len(detail) * SMALL_LETTER_WIDTH)
    return max(96.0, letters + 44)


def _node(
    call: CallFields, colors: Mapping[int, int], center: float, row: int, width: float
) -> DrawnNode:
    number = call["fragment"]
    color = -1 if number is None else colors.get(number, -1)
    reads, writes = ", ".join(call["inputs"]), ", ".join(call["outputs"])
    work = f"{quantity(call['flops'], 'FLOP')}, {quantity(call['bytes'], 'B')}"
    return DrawnNode(
        name=call["op"],
        detail=shape_text(call["shapes"][0]) if call["shapes"] else "",
        kind="extern" if call["extern"] else "triton" if color >= 0 else "pytorch",
        fragment="" if number is None or color < 0 else text.fragment(number),
        color=color,
        tooltip=f"{writes} = {call['op']}({reads})\n{call['family']}; {work}",
        x=center - width / 2 + MARGIN,
        y=float(row * ROW_HEIGHT + MARGIN),
        width=width,
    )


def _height(layout: DrawingLayout) -> float:
    return layout.num_rows * ROW_HEIGHT - (ROW_HEIGHT - NODE_HEIGHT) + 2 * MARGIN


def _path(points: tuple[tuple[int, float], ...]) -> str:
    """An edge as SVG path data: from the bottom of its source to the top of its target, straight
    down beside the nodes of rows between."""
    row, x = points[0][0], points[0][1] + MARGIN
    y = float(row * ROW_HEIGHT + MARGIN + NODE_HEIGHT)
    parts = [f"M{x:.1f} {y:.1f}"]
    for i, (row, center) in enumerate(points[1:], 1):
        next_x, next_y = center + MARGIN, float(row * ROW_HEIGHT + MARGIN)
        middle = (y + next_y) / 2
        parts.append(f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {next_y:.1f}")
        x, y = next_x, next_y
        if i < len(points) - 1:
            y += NODE_HEIGHT
            parts.append(f"V{y:.1f}")
    return "".join(parts)
