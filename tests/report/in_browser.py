"""Helpers of the tests that drive pages in headless Chromium."""

import re
import shutil

import pytest

NEEDS_BROWSER = pytest.mark.skipif(
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


def one(driver, css):
    return driver.find_element("css selector", css)


def every(driver, css):
    return driver.find_elements("css selector", css)


def shown_at(driver, width, scheme):
    """Make the window as wide as this, and the page light or dark."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


STICKING_OUT = """
const out = [];
const wide = document.documentElement.scrollWidth > innerWidth;
if (wide) out.push("the page is " + document.documentElement.scrollWidth + " px wide");
for (const card of document.querySelectorAll(".card, .tile"))
  for (const inner of card.querySelectorAll("*")) {
    const box = inner.getBoundingClientRect();
    const scrolls = inner.closest(".scroll, .picture, pre");
    if (box.width && !scrolls && box.right > card.getBoundingClientRect().right + 1)
      out.push(inner.tagName + " " + inner.textContent.slice(0, 40));
  }
return out;
"""


def contrast(one_color, other):
    """The ratio of WCAG 2, from 1 to 21, of two opaque colours as browsers print them."""

    def luminance(color):
        parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted(map(luminance, (one_color, other)))
    return (high + 0.05) / (low + 0.05)
