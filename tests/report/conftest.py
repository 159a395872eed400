import shutil

import pytest
from in_browser import QUIET

from kernelwright.core import record
from kernelwright.report.page import render


@pytest.fixture
def write(tmp_path):
    """Write records, render their page; its path."""

    def write_records(records):
        path = tmp_path / "records.jsonl"
        path.unlink(missing_ok=True)
        record.append(path, records)
        render(path, tmp_path / "report.html")
        return tmp_path / "report.html"

    return write_records


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
def emulated(browser):
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
