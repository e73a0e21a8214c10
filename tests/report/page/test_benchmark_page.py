"""The page of a benchmark: what it contains, that nothing in it comes from outside, and its controls in a browser."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from browser import PHONE, browser, needs_browser
from geodesic.cli import parser
from geodesic.report.benchmark import BenchmarkResults
from geodesic.report.page.benchmark import command, write_benchmark_report
from run_folders import write_benchmark

pytest.importorskip("vl_convert", reason="needs vl-convert: pip install 'geodesic-rl[report]'")

TASKS = {"maze": 100_000, "four-rooms": 51_200}
LABELS = {
    "gradient": {"returns": lambda seed: [-100.0, -60.0, -20.0 - seed, -20.0 - seed], "threshold": -25.0},
    "MyMethod:rate=2": {"method": "/some/my file.py:MyMethod", "returns": lambda seed: [-100.0, -90.0 - seed]},
    "uniform": {"method": "uniform", "returns": lambda seed: [-100.0, -100.0, -90.0, -80.0], "threshold": -25.0},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: Any) -> BenchmarkResults:
    return BenchmarkResults.read(write_benchmark(tmp_path_factory.mktemp("page"), TASKS, LABELS))


@pytest.fixture(scope="module")
def page(results: BenchmarkResults) -> Path:
    return write_benchmark_report(results)


def options_of(line: str) -> Any:
    return parser().parse_args(shlex.split(line)[1:])


def test_a_row_has_the_command_that_trained_it(results: BenchmarkResults) -> None:
    runs = [run for run in results.runs if run.label == "MyMethod:rate=2"]
    options = options_of(command(results, runs))
    assert options.methods == "/some/my file.py:MyMethod:rate=2"
    assert (options.suite, options.tasks, options.seeds, options.first_seed) == ("fast", "four-rooms,maze", 3, None)
    assert options.out == results.folder


def test_tasks_with_other_seeds_have_a_command_for_themselves(tmp_path: Path) -> None:
    folder = write_benchmark(tmp_path, {"maze": 100_000}, {"uniform": {"method": "uniform"}}, seeds=2)
    write_benchmark(folder, {"four-rooms": 51_200}, {"uniform": {"method": "uniform"}}, seeds=3)
    results = BenchmarkResults.read(folder)
    lines = command(results, results.runs).split(" && ")
    assert {(options_of(line).tasks, options_of(line).seeds) for line in lines} == {("maze", 2), ("four-rooms", 3)}


def test_it_is_one_file_without_outside_parts(page: Path) -> None:
    text = page.read_text()
    assert not re.search(r"(src|href)=\"(?!#|data:)", text.replace("xlink:href", "href"))
    assert "default-src 'none'" in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert len(text) < 500_000


def test_what_a_folder_says_is_escaped(tmp_path: Path) -> None:
    label = "<img src=x onerror=alert(1)>"
    folder = write_benchmark(tmp_path, TASKS, {label: {"method": "uniform"}})
    text = write_benchmark_report(BenchmarkResults.read(folder)).read_text()
    assert label not in text
    assert "&lt;img src=x" in text


@needs_browser
def test_it_sorts_copies_and_hides(page: Path) -> None:
    with browser() as driver:
        driver.get(page.as_uri())
        assert [line["message"] for line in driver.get_log("browser")] == []
        sent = [json.loads(line["message"])["message"] for line in driver.get_log("performance")]
        asked = [each["params"]["request"]["url"] for each in sent if each["method"] == "Network.requestWillBeSent"]
        assert {url.split(":")[0] for url in asked} <= {"file", "data"}

        def order() -> list[str]:
            cells = "return [...document.querySelectorAll('#methods-table tbody th')].map((cell) => cell.textContent)"
            return list(driver.execute_script(cells))

        assert order() == ["gradient", "uniform", "MyMethod:rate=2"]
        driver.execute_script("document.querySelector('#methods-table thead th:nth-child(2) button').click()")
        assert order() == ["MyMethod:rate=2", "uniform", "gradient"]
        row = "document.querySelector('#methods-table tbody tr')"
        driver.execute_script(
            "window.copied = null; navigator.clipboard.writeText = (text) => { window.copied = text; };"
            f"{row}.querySelector('button[data-copy]').click()"
        )
        assert options_of(driver.execute_script("return window.copied")).methods.endswith("MyMethod:rate=2")
        driver.execute_script("document.querySelector('input[data-method=\"0\"]').click()")
        hidden = "return [...document.querySelectorAll('.drawing [id$=\"-line-0\"]')].map((line) => line.style.display)"
        assert driver.execute_script(hidden) == ["none"] * 3
        ground = "return getComputedStyle(document.body).backgroundColor"
        light = driver.execute_script(ground)
        driver.execute_script("document.querySelector('#theme').click()")
        assert driver.execute_script(ground) != light


@needs_browser
def test_a_phone_has_nothing_to_scroll_sideways(page: Path) -> None:
    with browser(PHONE, dark=True) as phone:
        phone.get(page.as_uri())
        assert phone.execute_script("return document.documentElement.scrollWidth") <= PHONE[0]
        assert phone.execute_script("return document.documentElement.dataset.theme") == "dark"
