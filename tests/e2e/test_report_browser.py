# GNU General Public License v3.0 or later (see LICENSE)
"""The HTML report in headless Chromium, from a file, without a network."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait
from support.sample_experiment import make

from ansible_collections.pgsizing.bench.plugins.plugin_utils import report

pytestmark = pytest.mark.browser

PATIENCE_S = 60
#: The text of every axis title of a chart that is drawn.
AXES = """
return [...document.querySelector(arguments[0]).querySelectorAll(".g-xtitle, [class*=g-y]")].map(e => e.textContent).filter(t => t)
"""
WIDTHS = """
const shown = [...document.querySelectorAll(".chart .main-svg")].filter(e => !e.closest("details:not([open])"));
return shown.map(e => e.getBoundingClientRect().width);
"""
DRAWN = "return [...document.querySelectorAll('.chart')].filter(e => e.querySelector('.main-svg')).map(e => e.id)"
#: Contrast of every text with what lies behind it (WCAG 2): the texts below 4.5.
POOR_CONTRAST = """
const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
const rgba = text => (text.match(/[\\d.]+/g) || []).map(Number);
const behind = e => {
  for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] === 1) return c; }
  return [255, 255, 255];
};
const poor = [];
for (const e of document.querySelectorAll("body *:not(script):not(style)")) {
  if (e.closest("svg") || ![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
  const [a, b] = [light(rgba(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
  if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(e.textContent.trim().slice(0, 40));
}
return poor;
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1360,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd(
        "Network.emulateNetworkConditions", {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    )
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    known: dict[str, Path] = {}

    def page(**kind: Any) -> Path:
        key = json.dumps(kind)
        if key not in known:
            known[key] = report.build(make(tmp_path_factory.mktemp("experiment"), **kind))["html"]
        return known[key]

    return page


@pytest.fixture
def show(browser: webdriver.Chrome, pages: Callable[..., Path]) -> Callable[..., webdriver.Chrome]:
    def open_page(scheme: str = "light", **kind: Any) -> webdriver.Chrome:
        for kind_of_log in ("browser", "performance"):
            browser.get_log(kind_of_log)  # what earlier tests left
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
        browser.get(pages(**kind).as_uri())
        return browser

    return open_page


def until(browser: webdriver.Chrome, condition: Callable[[], Any]) -> Any:
    return WebDriverWait(browser, PATIENCE_S, 0.1).until(lambda _: condition())


def press(browser: webdriver.Chrome, selector: str) -> None:
    """Click, after scrolling there at once: the page itself scrolls smoothly."""
    element = browser.find_element("css selector", selector)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
    element.click()


def complaints(browser: webdriver.Chrome) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]


def test_it_renders_offline_and_asks_for_nothing(show):
    browser = show()
    until(browser, lambda: len(browser.execute_script(DRAWN)) >= 6)
    assert "1.26" in browser.find_element("css selector", ".say").text
    assert complaints(browser) == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {e["params"]["request"]["url"].partition("?")[0] for e in events if e["method"] == "Network.requestWillBeSent"}
    assert {url for url in asked if not url.startswith("data:")} == {browser.current_url}


@pytest.mark.parametrize("chart", ["#dots", "#ratios", "#overlay", "#percentiles", "#trial-01-base-r1"])
def test_axes_have_titles_with_units(show, chart):
    browser = show()
    titles = until(browser, lambda: browser.execute_script(AXES, chart))
    assert len(titles) >= 2
    assert all(t == "variant" or re.search(r"\[.+\]$", t) for t in titles), titles


def test_checkpoints_are_marked(show):
    browser = show()
    shapes = until(browser, lambda: browser.find_elements("css selector", "#trial-01-base-r1 .shapelayer path"))
    assert len(shapes) >= 4  # two shades, two lines


def test_a_chart_is_drawn_when_its_trial_is_opened(show):
    browser = show()
    until(browser, lambda: browser.execute_script(DRAWN))
    assert "trial-06-big-r3" not in browser.execute_script(DRAWN)
    press(browser, "#over-06-big-r3 summary")
    until(browser, lambda: "trial-06-big-r3" in browser.execute_script(DRAWN))
    assert complaints(browser) == []


def test_a_link_to_a_trial_opens_it(show):
    browser = show()
    press(browser, "#trials a[href='#over-05-base-r3']")
    until(browser, lambda: "trial-05-base-r3" in browser.execute_script(DRAWN))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(show, scheme):
    browser = show(scheme)
    browser.execute_script("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    page = [int(v) for v in re.findall(r"\d+", browser.find_element("css selector", "body").value_of_css_property("background-color"))]
    assert (min(page[:3]) > 200) if scheme == "light" else (max(page[:3]) < 60)
    assert browser.execute_script(POOR_CONTRAST) == []


def test_charts_follow_the_theme(show):
    browser = show("light")
    colour = "return document.querySelector('#overlay .xtitle')?.style.fill"
    light = until(browser, lambda: browser.execute_script(colour))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    until(browser, lambda: browser.execute_script(colour) not in (None, light))


def test_paper_is_light_and_charts_fit_it(show):
    browser = show("dark")
    until(browser, lambda: len(browser.execute_script(DRAWN)) >= 6)
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    until(browser, lambda: max(browser.execute_script(WIDTHS)) <= 700)
    assert browser.execute_script("return getComputedStyle(document.body).color") == "rgb(26, 34, 48)"
    assert browser.execute_script("return [...document.querySelectorAll('details:not(.card)')].every(e => e.open)")
    browser.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert not browser.execute_script("return [...document.querySelectorAll('details:not(.card)')].every(e => e.open)")


@pytest.mark.parametrize(
    ("kind", "charts"),
    [
        ({"variants": ["base"], "repeats": 1, "seconds": 5, "published": False}, {"overlay", "percentiles", "trial-01-base-r1"}),
        (
            {
                "troubles": {f"0{i}": "x" for i in range(0)} | {"01-base-r1": "failed", "02-base-r2": "failed"},
                "variants": ["base"],
                "repeats": 2,
            },
            set(),
        ),
        (
            {"variants": [f"v{i}" for i in range(10)], "repeats": 4, "seconds": 900},
            {"dots", "ratios", "overlay", "percentiles", "trial-01-v0-r1", "trial-02-v1-r1"},
        ),
    ],
    ids=["one trial", "none finished", "forty trials of a quarter of an hour"],
)
def test_any_number_of_trials(show, kind, charts):
    browser = show(**kind)
    until(browser, lambda: set(browser.execute_script(DRAWN)) == charts)
    assert browser.find_element("css selector", "#trials table").is_displayed()
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert complaints(browser) == []
