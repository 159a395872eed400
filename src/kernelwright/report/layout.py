"""Layered drawing of a DAG: rows by longest path, few crossings, straight long edges.

The steps are Sugiyama's: assign rows, split long edges with bends, order each row by the
barycenter of its neighbours, then place nodes as near to their neighbours as spacing allows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

GAP = 28.0
"""Least horizontal distance between neighbours in a row, in pixels."""
BEND_WIDTH = 8.0
ORDER_SWEEPS = 8
PLACE_SWEEPS = 12


@dataclass(frozen=True, slots=True)
class DrawingLayout:
    """Places of nodes and edges of a drawing."""

    rows: tuple[int, ...]
    """Row of each node, from 0 at the top."""
    centers: tuple[float, ...]
    """Horizontal center of each node, in pixels; everything lies in [0, width]."""
    paths: tuple[tuple[tuple[int, float], ...], ...]
    """For each edge the (row, center) points it passes: source, bends, target."""
    width: float

    @property
    def num_rows(self) -> int:
        return max(self.rows, default=-1) + 1


def layered(widths: Sequence[float], edges: Sequence[tuple[int, int]]) -> DrawingLayout:
    """The layered drawing of a DAG: a row and a center for each node, a path for each edge.

    Args:
        widths: widths of the nodes in pixels.
        edges: pairs (a, b) of node numbers, with a < b.
    """
    rows = _rows(len(widths), edges)
    graph = _DrawnGraph(list(widths), list(rows))
    chains = [graph.add_chain(a, b) for a, b in edges]
    lines = graph.lines()
    for sweep in range(ORDER_SWEEPS):
        _order(graph, lines, down=sweep % 2 == 0)
    centers = _place(graph, lines)
    halves = [w / 2 for w in graph.widths]
    left = min((c - h for c, h in zip(centers, halves, strict=True)), default=0.0)
    centers = [c - left for c in centers]
    return DrawingLayout(
        rows=tuple(rows),
        centers=tuple(centers[: len(widths)]),
        paths=tuple(tuple((graph.rows[n], centers[n]) for n in chain) for chain in chains),
        width=max((c + h for c, h in zip(centers, halves, strict=True)), default=0.0),
    )


class _DrawnGraph:
    """Nodes and bends with their neighbours one row up and one row down."""

    def __init__(self, widths: list[float], rows: list[int]) -> None:
        self.widths, self.rows = widths, rows
        self.above: list[list[int]] = [[] for _ in widths]
        self.below: list[list[int]] = [[] for _ in widths]

    def add_chain(self, start: int, end: int) -> list[int]:
        """Connect two nodes with a bend in every row between. Returns source, bends and target."""
        chain = [start]
        for row in range(self.rows[start] + 1, self.rows[end]):
            self.widths.append(BEND_WIDTH)
            self.rows.append(row)
            self.above.append([])
            self.below.append([])
            chain.append(len(self.rows) - 1)
        chain.append(end)
        for upper, lower in pairwise(chain):
            self.below[upper].append(lower)
            self.above[lower].append(upper)
        return chain

    def lines(self) -> list[list[int]]:
        lines: list[list[int]] = [[] for _ in range(max(self.rows, default=-1) + 1)]
        for node, row in enumerate(self.rows):
            lines[row].append(node)
        return lines


def _rows(num_nodes: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The row of each node: the length of the longest path to it. A node without inputs is moved
    down to the row above its first reader, which shortens its edge."""
    rows = [0] * num_nodes
    for a, b in sorted(edges):
        rows[b] = max(rows[b], rows[a] + 1)
    reads = {b for _, b in edges}
    for node in range(num_nodes):
        below = [rows[b] for a, b in edges if a == node]
        if node not in reads and below:
            rows[node] = min(below) - 1
    return rows


def _order(graph: _DrawnGraph, lines: list[list[int]], *, down: bool) -> None:
    """Sort every row by the mean place of each node's neighbours in the row before. A node without
    neighbours there keeps its place."""
    neighbours = graph.above if down else graph.below
    place = {node: float(i) for line in lines for i, node in enumerate(line)}
    for line in lines if down else reversed(lines):
        key = {n: _mean([place[m] for m in neighbours[n]], place[n]) for n in line}
        line.sort(key=key.__getitem__)
        place.update({node: float(i) for i, node in enumerate(line)})


def _place(graph: _DrawnGraph, lines: list[list[int]]) -> list[float]:
    """The horizontal center of each node and bend, in pixels."""
    centers = [0.0] * len(graph.rows)
    for line in lines:
        _spread(graph, line, centers, [0.0] * len(line))
    for sweep in range(PLACE_SWEEPS):
        # Sweeps go down and up in turn. The last two look both ways: else the last decides alone.
        both = sweep >= PLACE_SWEEPS - 2
        for line in lines if sweep % 2 == 0 else reversed(lines):
            wishes = []
            for node in line:
                near = graph.above[node] if sweep % 2 == 0 else graph.below[node]
                if both:
                    near = graph.above[node] + graph.below[node]
                wishes.append(_mean([centers[n] for n in near], centers[node]))
            _spread(graph, line, centers, wishes)
    return centers


def _spread(graph: _DrawnGraph, line: list[int], centers: list[float], wishes: list[float]) -> None:
    """Place a row nearest (least squares) to its wishes, in order and without overlap.

    With the least offsets taken off, the rest is isotonic regression: pool adjacent violators.
    """
    offset, offsets = 0.0, []
    for i, node in enumerate(line):
        if i:
            offset += (graph.widths[line[i - 1]] + graph.widths[node]) / 2 + GAP
        offsets.append(offset)
    pools: list[tuple[float, int]] = []  # (mean, number of nodes), means ascending
    for wish, shift in zip(wishes, offsets, strict=True):
        mean, size = wish - shift, 1
        while pools and pools[-1][0] > mean:
            before, number = pools.pop()
            mean, size = (before * number + mean * size) / (number + size), number + size
        pools.append((mean, size))
    placed = [mean for mean, size in pools for _ in range(size)]
    for node, base, shift in zip(line, placed, offsets, strict=True):
        centers[node] = base + shift


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
