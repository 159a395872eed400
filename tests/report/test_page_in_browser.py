"""The page driven in headless Chromium; skipped, with the reason, where there is none."""

import shutil

import pytest
from rl_records import write_rl
from runs import gpu_run

from kernelwright.report.training.page import write_training
from kernelwright.report.training.run import read_training

pytestmark = pytest.mark.skipif(
    shutil.which("chromedriver") is None, reason="no chromedriver: apt-get install chromium-driver"
)
QUIET = (
    "headless",
    "no-sandbox",
    "disable-gpu",
    "disable-quic",
    "disable-dev-shm-usage",
    "no-first-run",
    "disable-background-networking",
    "disable-component-update",
    "disable-sync",
    "window-size=1200,900",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    selenium = pytest.importorskip("selenium.webdriver")
    options = selenium.ChromeOptions()
    for flag in (*QUIET, f"user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = selenium.ChromeService(executable_path=shutil.which("chromedriver"))
    driver = selenium.Chrome(options=options, service=service)
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, write):
    browser.get(write(gpu_run()).as_uri())
    return browser


def one(driver, css):
    return driver.find_element("css selector", css)


def every(driver, css):
    return driver.find_elements("css selector", css)


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


def test_nothing_sticks_out_of_a_narrow_window(opened):
    opened.set_window_size(500, 900)
    wide = opened.execute_script(
        "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )
    opened.set_window_size(1200, 900)
    assert not wide


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


def test_a_training_page_fits_a_narrow_window_and_says_nothing_to_the_console(trained):
    trained.set_window_size(500, 900)
    wide = trained.execute_script(
        "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )
    trained.set_window_size(1200, 900)
    assert not wide
    assert trained.get_log("browser") == []
