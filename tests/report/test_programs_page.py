"""The page of drawn programs: one file, escaped, that says what was counted."""

import re
from collections import Counter

import pytest
from drawn import SPACE, records, write
from tags import assert_loads_nothing, tags_of

from kernelwright.core import record
from kernelwright.report.programs.census import read_census
from kernelwright.report.programs.charts import CELL, bar_chart, pair_map
from kernelwright.report.programs.coverage import space_of
from kernelwright.report.programs.page import octaves, page

HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture
def text(tmp_path):
    census, headers = read_census([write(tmp_path / "programs.jsonl")])
    return page(census, space_of(headers), "programs.jsonl")


def test_the_page_is_html_that_loads_nothing(text):
    assert_loads_nothing(text)


def test_it_says_what_was_counted(text):
    assert "relu: 3, 50.00%" in text
    assert "not found: mm (1)" in text
    assert "sum keepdim true" in text
    assert re.search(r"operators</td><td[^>]*>3</td>\s*<td[^>]*>4<", text)
    assert re.search(r"domain</td><td[^>]*>7</td><td[^>]*>63.64%", text)
    assert text.count("<svg") == 11


def test_names_in_records_are_escaped(tmp_path):
    lines = records()
    lines[1]["calls"][0]["op"] = lines[1]["drawn"]["group"] = HOSTILE
    lines[1]["inputs"][0]["dtype"] = HOSTILE
    lines[1]["drawn"]["refused"] = {HOSTILE: 1}
    lines[0]["space"] = SPACE | {"operators": {HOSTILE: "x"}}
    record.append(tmp_path / "hostile.jsonl", lines)
    census, headers = read_census([tmp_path / "hostile.jsonl"])
    text = page(census, space_of(headers), HOSTILE)
    assert "alert(1)" in text
    assert "<script" not in text
    assert "script" not in tags_of(text).tags


def test_a_page_without_a_header_has_no_coverage(tmp_path):
    record.append(tmp_path / "bare.jsonl", records()[1:])
    census, headers = read_census([tmp_path / "bare.jsonl"])
    text = page(census, space_of(headers), "bare")
    assert "Coverage" not in text
    tags_of(text)


def test_bars_are_as_high_as_their_counts():
    chart = bar_chart("x", [("a", 4), ("b", 1)])
    tall, short = chart.bars
    assert (tall.height, short.height) == (chart.floor, chart.floor / 4)
    assert all(bar.y + bar.height == pytest.approx(chart.floor) for bar in chart.bars)
    assert not chart.is_upright
    assert bar_chart("x", [(str(i), 1) for i in range(60)]).is_upright


def test_octaves_are_named_by_where_they_begin_and_gaps_are_shown():
    shown = octaves(Counter({None: 2, -1: 1, 1: 4, 12: 1}))
    assert shown[:4] == [("0", 2), ("1/2", 1), ("1", 0), ("2", 4)]
    assert shown[-2:] == [("2K", 0), ("4K", 1)]


def test_the_map_tells_often_from_seldom_from_possible():
    names = ("a", "b", "c")
    drawn = pair_map(names, {("a", "a"): 1000, ("a", "b"): 1}, {("a", "a"), ("a", "b"), ("b", "c")})
    looks = {layer.look: layer.path for layer in drawn.layers}
    assert set(looks) == {"shade7", "shade1", "unseen"}
    assert looks["unseen"] == f"M{2 * CELL:g} {CELL:g}h{CELL:g}v{CELL:g}h{-CELL:g}z"
    assert (drawn.side, drawn.most) == (3 * CELL, 1000)
