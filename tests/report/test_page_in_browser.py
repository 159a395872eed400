"""The page driven in headless Chromium; skipped, with the reason, where there is none."""

import drawn
import pytest
from in_browser import NEEDS_BROWSER, STICKING_OUT, contrast, every, one, shown_at
from rl_records import write_rl
from search_records import cpu_run, gpu_run, unchanged_run
from test_suite_scores import CASES, case, wrong
from test_suite_scores import RUN as SUITE
from test_synthetic_page import GREEDY
from test_synthetic_page import RUN as EXAMINATION

from kernelwright.core import record
from kernelwright.report.page import render
from kernelwright.report.programs.census import read_census
from kernelwright.report.programs.coverage import space_of
from kernelwright.report.programs.page import write_page
from kernelwright.report.suite.page import write_suite
from kernelwright.report.synthetic.page import write_examination
from kernelwright.report.training.page import write_comparison, write_training
from kernelwright.report.training.run import read_training

pytestmark = NEEDS_BROWSER


@pytest.fixture
def opened(browser, write):
    browser.get(write(gpu_run()).as_uri())
    return browser


@pytest.mark.slow
def test_a_click_on_a_tab_shows_its_section_alone(opened):
    assert one(opened, "#overview").is_displayed()
    one(opened, "#tab-kernels").click()
    assert one(opened, "#kernels").is_displayed()
    assert not one(opened, "#overview").is_displayed()
    assert one(opened, "#tab-kernels").get_attribute("aria-selected") == "true"


def test_arrow_keys_walk_the_tabs(opened):
    one(opened, "#tab-overview").send_keys("\ue014")  # right arrow
    assert one(opened, "#kernels").is_displayed()


def test_a_click_on_a_header_sorts_and_a_second_one_reverses(opened):
    one(opened, "#tab-candidates").click()
    table = every(opened, "table.sortable")[0]

    def times():
        return [cell.text for cell in every(table, "tbody td:nth-child(4)")]

    assert times() == ["110 us", "50 us", "not measured"]
    one(table, "th:nth-child(4) button").click()
    assert times() == ["50 us", "110 us", "not measured"]
    one(table, "th:nth-child(4) button").click()
    assert times() == ["110 us", "50 us", "not measured"]


def test_zoom_changes_the_picture(opened):
    width = one(opened, "#graph").size["width"]
    one(opened, "[data-zoom=in]").click()
    assert one(opened, "#graph").size["width"] > width


def test_the_console_stays_empty(opened):
    assert opened.get_log("browser") == []


@pytest.fixture
def trained(browser, tmp_path):
    browser.get(write_training(read_training(write_rl(tmp_path / "run"))).as_uri())
    return browser


def test_every_curve_is_drawn_inside_its_chart(trained):
    charts = every(trained, "svg.chart")
    assert len(charts) > 15
    for chart in charts:
        frame = chart.rect
        assert frame["height"] > 100
        for path in every(chart, "path"):
            drawn = path.rect
            assert drawn["width"] > 0
            assert frame["x"] <= drawn["x"]
            assert drawn["x"] + drawn["width"] <= frame["x"] + frame["width"]
            assert frame["y"] <= drawn["y"]
            assert drawn["y"] + drawn["height"] <= frame["y"] + frame["height"]


def test_a_program_early_and_late_stand_side_by_side(trained):
    early, late = every(trained, "#examples details[open] .columns > div")
    assert early.rect["y"] == late.rect["y"]
    assert early.rect["x"] + early.rect["width"] <= late.rect["x"]


def test_a_click_on_an_audit_shows_its_source(trained):
    asked, source, *_ = every(trained, "#audits .code")
    assert not source.is_displayed()
    one(trained, "#audits summary").click()
    assert source.is_displayed()
    assert "a decoy" in source.text
    assert not asked.is_displayed()


def written(folder, kind):
    """A page of a kind, with names and texts as long as they come."""
    if kind.startswith("run"):
        return _run_page(folder, kind)
    if kind == "suite":
        long = "_".join(["ConvTranspose2d", "BatchNorm", "LeakyReLU", "GlobalAvgPool", "Softmax"])
        lost = wrong(9, name=f"9_{long}", message=f"no end within 300 s: {'x' * 400}", code="infra")
        timed = case(8, 1.0, 2.0, 1.5, name=f"8_{long}", algebra=["pool_of_convolution"] * 3)
        record.append(folder / "records.jsonl", [SUITE, *CASES, timed, lost])
        write_suite(folder)
        return folder / "report.html"
    if kind == "synthetic":
        record.append(folder / "records.jsonl", [EXAMINATION, *GREEDY])
        write_examination(folder)
        return folder / "report.html"
    if kind == "programs":
        census, headers = read_census([drawn.write(folder / "drawn.jsonl")])
        write_page(census, space_of(headers), "drawn.jsonl", folder / "stats.html")
        return folder / "stats.html"
    first = read_training(write_rl(folder / "first"))
    if kind == "training":
        return write_training(first)
    return write_comparison([first, read_training(write_rl(folder / "second"))])


def _run_page(folder, kind):
    records = {"run on a GPU": gpu_run, "run on a CPU": cpu_run, "unchanged run": unchanged_run}[
        kind.removeprefix("run: ")
    ]()
    records[-1]["verdict"]["cases"] = [f"base/plain/seed {i}/nan poison" for i in range(9)]
    record.append(folder / "records.jsonl", records)
    render(folder / "records.jsonl", folder / "report.html")
    return folder / "report.html"


KINDS = {
    "run: run on a GPU": ("overview", "kernels", "candidates", "verdict"),
    "run: run on a CPU": ("overview", "verdict"),
    "run: unchanged run": ("overview", "kernels", "candidates", "verdict"),
    "suite": ("",),
    "synthetic": ("",),
    "programs": ("",),
    "training": ("",),
    "comparison": ("",),
}
"""Kinds of pages, with their sections."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_sticks_out_of_a_page_or_a_card(emulated, tmp_path, kind):
    page = written(tmp_path, kind).as_uri()
    for width in (390, 1280):
        for scheme in ("light", "dark"):
            shown_at(emulated, width, scheme)
            for section in KINDS[kind]:
                emulated.get("about:blank")
                emulated.get(f"{page}#{section}" if section else page)
                emulated.execute_script(
                    "for (const each of document.querySelectorAll('details')) each.open = true"
                )
                assert emulated.execute_script(STICKING_OUT) == [], (width, scheme, section)
    assert emulated.get_log("browser") == []


def test_light_and_dark_have_text_that_can_be_read(emulated, tmp_path):
    emulated.get(written(tmp_path, "run: run on a GPU").as_uri())
    seen = set()
    for scheme in ("light", "dark"):
        shown_at(emulated, 1280, scheme)
        text = one(emulated, "#headline").value_of_css_property("color")
        card = one(emulated, ".tile").value_of_css_property("background-color")
        assert contrast(text, card) > 7
        note = one(emulated, ".note").value_of_css_property("color")
        assert contrast(note, card) > 4.5
        seen.add(card)
    assert len(seen) == 2


def test_an_unchanged_run_has_a_neutral_badge(emulated, tmp_path):
    emulated.get(written(tmp_path, "run: unchanged run").as_uri())
    badge = one(emulated, ".badges .badge")
    assert badge.text == "Unchanged"
    assert badge.get_attribute("class").split() == ["badge"]
    assert one(emulated, "#headline").text == "Unchanged"
    assert every(emulated, ".bad") == []


def test_torch_compile_has_a_bar_between_eager_and_optimized(emulated, tmp_path):
    emulated.get(written(tmp_path, "run: run on a GPU").as_uri())
    shown_at(emulated, 1280, "light")
    labels = [label.text for label in every(emulated, ".bars dt")]
    assert labels[-3:] == ["PyTorch", "torch.compile", "optimized"]
    eager, compiled, ours = (bar.size["width"] for bar in every(emulated, ".bars .bar")[-3:])
    assert eager > compiled > ours
    assert one(emulated, "#headline").text == "1.55x (95%: 1.50 to 1.60)"


def test_the_table_of_a_suite_sorts_by_number_and_by_name(emulated, tmp_path):
    emulated.get(written(tmp_path, "suite").as_uri())
    shown_at(emulated, 1280, "light")

    def names():
        return [cell.text.split("_")[0] for cell in every(emulated, "#tasks tbody th")]

    over_eager = next(
        head for head in every(emulated, "#tasks th button") if head.text == "over eager"
    )
    over_eager.click()
    assert names() == ["L1/4", "L1/3", "L1/1", "L1/2", "L1/8", "L1/5", "L1/9"]
    over_eager.click()
    assert names()[-2:] == ["L1/5", "L1/9"], "tasks without a time stay last"
    assert names()[0] in ("L1/1", "L1/2", "L1/8")
    one(emulated, "#tasks th button").click()
    assert names() == sorted(names())


def test_the_table_of_a_suite_shows_every_column(emulated, tmp_path):
    emulated.get(written(tmp_path, "suite").as_uri())
    shown_at(emulated, 1280, "light")
    box = one(emulated, ".scroll:has(#tasks)")
    assert box.get_property("scrollWidth") <= box.get_property("clientWidth")
    shown_at(emulated, 390, "light")
    assert box.get_property("scrollWidth") <= box.get_property("clientWidth")
    row = one(emulated, "#tasks tbody tr")
    assert len({cell.rect["y"] for cell in every(row, "td") if cell.is_displayed()}) > 3
