"""The layered drawing: order, spacing and edges, on random DAGs."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kernelwright.report.layout import GAP, layered


@st.composite
def dags(draw):
    num = draw(st.integers(1, 14))
    edges = draw(
        st.sets(
            st.tuples(st.integers(0, num - 1), st.integers(0, num - 1)).filter(
                lambda e: e[0] < e[1]
            ),
            max_size=24,
        )
    )
    widths = draw(st.lists(st.floats(20, 200), min_size=num, max_size=num))
    return widths, sorted(edges)


@given(dags())
def test_every_edge_goes_down_row_by_row(dag):
    widths, edges = dag
    layout = layered(widths, edges)
    for (a, b), path in zip(edges, layout.paths, strict=True):
        assert path[0] == (layout.rows[a], layout.centers[a])
        assert path[-1] == (layout.rows[b], layout.centers[b])
        assert all(lower == upper + 1 for (upper, _), (lower, _) in pairwise(path))


@given(dags())
def test_nodes_of_a_row_keep_their_distance_and_stay_inside(dag):
    widths, edges = dag
    layout = layered(widths, edges)
    boxes = sorted(
        (row, center - width / 2, center + width / 2)
        for row, center, width in zip(layout.rows, layout.centers, widths, strict=True)
    )
    assert all(left >= -1e-6 and right <= layout.width + 1e-6 for _, left, right in boxes)
    for (row, _, right), (next_row, left, _) in pairwise(boxes):
        if row == next_row:
            assert left - right >= GAP - 1e-6


def test_a_chain_is_straight():
    layout = layered([100, 60, 140], [(0, 1), (1, 2)])
    assert layout.rows == (0, 1, 2)
    assert len({round(center, 6) for center in layout.centers}) == 1


def test_a_skip_passes_beside_the_node_it_skips():
    layout = layered([100, 100, 100], [(0, 1), (0, 2), (1, 2)])
    (_, bend) = layout.paths[1][1]
    assert abs(bend - layout.centers[1]) > 50


def test_no_nodes_is_an_empty_drawing():
    assert layered([], []).num_rows == 0
