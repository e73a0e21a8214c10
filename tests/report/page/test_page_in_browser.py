"""The report in a browser: it loads without errors or network, and its controls work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import PHONE, browser, needs_browser, opened
from geodesic.report.page import write_report
from run_folders import write_comparison

pytest.importorskip("vl_convert", reason="needs vl-convert: pip install 'geodesic-rl[report]'")
pytestmark = needs_browser

LABELS = {
    "gradient": {"returns": lambda seed: [0.0, 20.0, 50.0 + seed, 60.0]},
    "spdl": {"method": "spdl", "returns": lambda seed: [0.0, 10.0, 20.0, 30.0 + seed]},
    "uniform": {"method": "uniform", "stages": 1, "returns": lambda seed: [5.0, 5.0, 5.0, 5.0]},
}


@pytest.fixture(scope="module")
def page(tmp_path_factory: Any) -> Path:
    return write_report(write_comparison(tmp_path_factory.mktemp("page"), LABELS, seeds=2), film=False)


@pytest.fixture(scope="module")
def driver(page: Path, tmp_path_factory: Any) -> Iterator[Any]:
    with browser(downloads=tmp_path_factory.mktemp("downloads")) as driver:
        yield driver


@pytest.fixture
def wait(driver: Any, page: Path) -> Any:
    return opened(driver, page)


def count(driver: Any, query: str) -> int:
    return int(driver.execute_script("return document.querySelectorAll(arguments[0]).length", query))


def text(driver: Any, query: str) -> str:
    return str(driver.execute_script("return document.querySelector(arguments[0]).textContent", query))


def click(driver: Any, query: str) -> None:
    driver.execute_script("document.querySelector(arguments[0]).click()", query)


LINES = "#learning-chart .mark-line path"
BANDS = "#learning-chart .mark-area path"


def test_it_loads_without_errors_or_outside_requests(driver: Any, wait: Any) -> None:
    assert [line["message"] for line in driver.get_log("browser")] == []
    sent = [json.loads(line["message"])["message"] for line in driver.get_log("performance")]
    asked = [each["params"]["request"]["url"] for each in sent if each["method"] == "Network.requestWillBeSent"]
    assert asked
    assert {url.split(":")[0] for url in asked} <= {"file", "data", "blob"}
    assert count(driver, LINES) == 3
    assert count(driver, ".panel svg") == 3


def test_an_unticked_method_disappears_everywhere(driver: Any, wait: Any) -> None:
    click(driver, "input[data-method='1']")
    wait.until(lambda _: count(driver, LINES) == 2)
    assert count(driver, ".panel[hidden]") == 1
    assert count(driver, "#stages figure[hidden]") == 1
    click(driver, "input[data-method='1']")
    wait.until(lambda _: count(driver, LINES) == 3)


def test_seeds_are_drawn_on_demand_and_can_be_hidden(driver: Any, wait: Any) -> None:
    click(driver, "#each")
    wait.until(lambda _: count(driver, LINES) == 3 + 3 * 2)
    click(driver, "input[data-seed='1']")
    wait.until(lambda _: count(driver, LINES) == 3 + 3)
    assert count(driver, "#timeline-0 .mark-rect path") == 3  # the stages of one seed


def test_points_bands_and_the_statistic_are_chosen(driver: Any, wait: Any) -> None:
    before = count(driver, "#learning-chart .mark-symbol path")
    click(driver, "#points")
    wait.until(lambda _: count(driver, "#learning-chart .mark-symbol path") == before + 3 * 4)
    assert count(driver, BANDS) == 3
    pick = (
        "const s = document.querySelector(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('change'))"
    )
    driver.execute_script(pick, "#bands", "none")
    wait.until(lambda _: count(driver, BANDS) == 0)
    assert "interquartile mean over seeds; band: range" in text(driver, "#band-note")
    driver.execute_script(pick, "#view", "mean successes")
    wait.until(lambda _: "mean over seeds; band: standard deviation" in text(driver, "#band-note"))
    wait.until(lambda _: "success rate on the target" in text(driver, "#learning-chart svg"))


def test_a_heading_sorts_its_table(driver: Any, wait: Any) -> None:
    def order() -> list[str]:
        cells = "return [...document.querySelectorAll('#summary-table tbody th')].map((cell) => cell.textContent)"
        return list(driver.execute_script(cells))

    assert order() == ["gradient", "uniform", "spdl"]
    final = "#summary-table thead th:nth-child(7)"
    click(driver, f"{final} button")
    assert order() == ["uniform", "spdl", "gradient"]
    assert driver.execute_script("return document.querySelector(arguments[0]).ariaSort", final) == "ascending"
    click(driver, f"{final} button")
    assert order() == ["gradient", "spdl", "uniform"]
    click(driver, "#summary-table thead th:first-child button")
    assert order() == ["gradient", "spdl", "uniform"]


def test_five_columns_are_shown_until_all_are_wanted(driver: Any, wait: Any) -> None:
    def columns() -> list[str]:
        found = driver.find_elements("css selector", "#summary-table thead th")
        return [each.text.rstrip(" ↕").replace("\n", " ") for each in found if each.is_displayed()]

    assert columns() == ["method", "reached", "first above", "final IQM", "P(better)"]
    titles = "return [...document.querySelectorAll('thead button')].filter((each) => !each.title).length"
    assert driver.execute_script(titles) == 0
    click(driver, "#columns")
    assert len(columns()) == 12
    click(driver, "#columns")
    assert len(columns()) == 5


def test_every_seed_has_a_tick_at_its_final_score(driver: Any, wait: Any) -> None:
    assert count(driver, "#finals-chart .mark-rect.role-mark path") == 6
    click(driver, "input[data-seed='0']")
    wait.until(lambda _: count(driver, "#finals-chart .mark-rect.role-mark path") == 3)


def test_the_curriculum_plays_once_when_it_comes_into_view(driver: Any, wait: Any) -> None:
    driver.execute_script("document.querySelector('#curriculum').scrollIntoView()")
    wait.until(lambda _: driver.execute_script("return Number(document.querySelector('#step').value)") > 0)


def test_the_slider_selects_the_stage_in_force(driver: Any, wait: Any) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    assert "stage 0, α 0.00" in text(driver, ".panel .now")
    dots = "return [...document.querySelectorAll('.panel svg .contexts circle')]"
    dots += ".map((dot) => dot.getAttribute('cx')).join()"
    before = driver.execute_script(dots)
    slider = driver.find_element(By.ID, "step")
    slider.send_keys(Keys.END)  # by keyboard
    wait.until(lambda _: text(driver, "#step-now") == "step 1,000")
    wait.until(lambda _: "stage 2, α 1.00" in text(driver, ".panel .now"))
    wait.until(lambda _: driver.execute_script(dots) != before)
    assert "stage 0" in text(driver, ".panel[data-method='1'] .now")  # uniform has one stage


def test_a_mark_has_its_numbers_as_a_tooltip(driver: Any, wait: Any) -> None:
    titles = "return [...document.querySelectorAll('.panel svg .contexts title')].map((each) => each.textContent)"
    found = driver.execute_script(titles)
    assert found
    assert all(each.endswith(" % of the mass") for each in found)


def test_play_moves_the_slider_and_stops(driver: Any, wait: Any) -> None:
    from selenium.webdriver.common.by import By

    def value() -> int:
        return int(driver.execute_script("return Number(document.querySelector('#step').value)"))

    play = driver.find_element(By.ID, "play")
    play.send_keys(" ")  # by keyboard
    wait.until(lambda _: value() > 3)
    assert play.text == "Pause"
    play.send_keys(" ")
    assert play.text == "Play"
    held = value()
    assert driver.execute_async_script(
        "setTimeout(() => arguments[0](document.querySelector('#step').value), 200)"
    ) == str(held)


def test_the_table_can_be_downloaded_and_the_theme_changed(driver: Any, wait: Any) -> None:
    driver.execute_script(
        "const make = URL.createObjectURL; URL.createObjectURL = (blob) => (window.kept = blob, make(blob))"
    )
    click(driver, "#download")
    kept = driver.execute_async_script("kept.text().then(arguments[0])")
    assert kept.startswith("label,runs,finished")
    ground = "return getComputedStyle(document.body).backgroundColor"
    axis = "return getComputedStyle(document.querySelector('.panel svg text')).fill"
    light, drawn = driver.execute_script(ground), driver.execute_script(axis)
    click(driver, "#theme")
    wait.until(lambda _: driver.execute_script(ground) != light)
    wait.until(lambda _: driver.execute_script(axis) != drawn)


def test_a_phone_has_nothing_to_scroll_sideways(page: Path) -> None:
    with browser(PHONE, dark=True) as phone:
        opened(phone, page)
        assert phone.execute_script("return document.documentElement.scrollWidth") <= PHONE[0]
        assert phone.execute_script("return document.documentElement.dataset.theme") == "dark"
