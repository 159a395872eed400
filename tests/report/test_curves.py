"""Curves and layers: places follow values, gaps stay gaps, nothing is lost by thinning."""

import re
from statistics import fmean

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kernelwright.report.curves import (
    BOTTOM,
    HEIGHT,
    LEFT,
    MOST_LAYERS,
    MOST_POINTS,
    REST,
    RIGHT,
    TOP,
    WIDTH,
    Series,
    line_chart,
    percent,
    stack_chart,
)

VALUES = st.none() | st.just(0.0) | st.floats(1e-6, 1e6) | st.floats(-1e6, -1e-6)
SHARES = st.lists(st.floats(0, 1, allow_subnormal=False), min_size=3, max_size=3)


def places(path):
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", path)]


def series(name, values):
    return Series(name, list(enumerate(values)))


@given(st.lists(VALUES, max_size=40), st.booleans())
def test_every_value_has_its_place_in_the_frame(values, is_log):
    chart = line_chart("x", [series("a", values)], is_log=is_log)
    known = [y for y in values if y is not None and (y > 0 or not is_log)]
    if not known:
        assert chart is None
        return
    drawn = places(chart.shapes[0].path)
    assert len(drawn) == len(known) == len(chart.shapes[0].dots)
    assert all(LEFT <= x <= WIDTH - RIGHT and TOP <= y <= HEIGHT - BOTTOM for x, y in drawn)
    by_value = sorted(zip(known, (y for _, y in drawn), strict=True), key=lambda each: each[0])
    heights = [y for _, y in by_value]
    assert heights == sorted(heights, reverse=True), "the larger, the higher"
    ticks = [*chart.x_ticks, *chart.y_ticks]
    assert all(TOP - 1 <= tick.at <= WIDTH for tick in ticks)


def test_a_line_breaks_off_where_a_value_is_missing():
    (shape,) = line_chart("x", [series("a", [1, 2, None, 4])]).shapes
    assert [mark for mark in shape.path if mark in "ML"] == ["M", "L", "M"]
    assert shape.last == "4"


def test_a_logarithmic_axis_gives_equal_room_to_equal_factors():
    (shape,) = line_chart("x", [series("a", [1, 10, 100, 0])], is_log=True).shapes
    (_, one), (_, ten), (_, hundred) = places(shape.path)
    assert one - ten == pytest.approx(ten - hundred, abs=0.2)


def test_long_lines_are_means_of_neighbours_and_end_with_their_last_value():
    values = [float(i % 2) for i in range(10 * MOST_POINTS)]
    (shape,) = line_chart("x", [series("a", values)]).shapes
    drawn = places(shape.path)
    assert len(drawn) == MOST_POINTS
    assert len({y for _, y in drawn}) == 1, "each is as often 0 as 1"
    assert shape.last == "1"


@given(st.lists(SHARES, min_size=1, max_size=30))
@example([[0.0, 5e-324, 5e-324]])
def test_layers_lie_on_each_other_and_add_up(rows):
    chart = stack_chart("x", [series(str(i), column) for i, column in enumerate(zip(*rows))])  # noqa: B905
    if chart is None:
        assert not any(map(any, rows))
        return
    count = max(2, len(rows))  # one step is as broad as the chart
    floor = HEIGHT - BOTTOM
    below = [floor] * count
    for shape in chart.shapes:
        drawn = places(shape.path)
        assert [y for _, y in reversed(drawn[count:])] == pytest.approx(below, abs=0.11)
        below = [y for _, y in drawn[:count]]
    heights = [floor - y for y in below]
    sums = [sum(row) for row in rows]
    scale = max(heights) / max(sums)
    if len(rows) > 1:
        assert heights == pytest.approx([scale * each for each in sums], abs=0.3)


def test_of_many_layers_the_smallest_are_one():
    layers = [series(f"n{i}", [float(i), float(i)]) for i in range(2 * MOST_LAYERS)]
    chart = stack_chart("x", layers, show=percent)
    names = [shape.name for shape in chart.shapes]
    assert len(names) == MOST_LAYERS
    assert names[-1] == REST
    rest = sum(range(2 * MOST_LAYERS - MOST_LAYERS + 1))
    assert chart.shapes[-1].last == percent(rest)
    assert "n0" not in names


def test_marks_outside_the_steps_are_left_out():
    chart = line_chart("x", [series("a", [1, 2, 3])], marks=[(1, "here"), (9, "later")])
    assert [mark.text for mark in chart.marks] == ["here"]
    assert chart.marks[0].at == pytest.approx(fmean([LEFT, WIDTH - RIGHT]))
