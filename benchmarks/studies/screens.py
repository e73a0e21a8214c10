"""Take screenshots of a report and of the site: at the width of a phone and of a desktop, light and dark.

    python -m benchmarks.studies.screens runs/demo/screens --report runs/demo/maze --site build/site

Messages of the browser are printed as well, and pages that are wider than their window.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from browser import DESKTOP, MISSING, PHONE, browser, opened
from geodesic.report.page import PAGE

SITE = ("index.html", "tutorials/own-environment.html", "results/index.html", "decide.html")
TALLEST = 8000  # pixels of a screenshot


def shoot(name: str, out: Path, visit: Callable[[Any], object]) -> None:
    """Take four screenshots of a whole page."""
    for screen, size in (("desktop", DESKTOP), ("phone", PHONE)):
        for dark in (False, True):
            with browser(size, dark) as driver:
                visit(driver)
                height = min(driver.execute_script("return document.documentElement.scrollHeight"), TALLEST)
                wide = driver.execute_script("return document.documentElement.scrollWidth")
                metrics = {"width": size[0], "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
                driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
                path = out / f"{name}-{screen}-{'dark' if dark else 'light'}.png"
                driver.save_screenshot(str(path))
                for line in driver.get_log("browser"):
                    print(f"  {line['level']}: {line['message']}")
                overflow = "" if wide <= size[0] else f", wider than its window by {wide - size[0]}"
                print(f"wrote {path}: {size[0]} x {height}{overflow}")


def report(page: Path, at: float) -> Callable[[Any], object]:
    """Open a report, with its curricula at this fraction of their steps."""

    def visit(driver: Any) -> None:
        opened(driver, page)
        driver.execute_script(
            "const s = document.querySelector('#step'); if (s) { s.value = arguments[0] * s.max; "
            "s.dispatchEvent(new Event('input')); }",
            at,
        )

    return visit


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--report", type=Path, help="folder of a run or a comparison with its report")
    parser.add_argument("--at", type=float, default=0.5, help="fraction of its steps (default: %(default)s)")
    parser.add_argument("--site", type=Path, help="folder of the site, from `make docs`")
    options = parser.parse_args()
    if MISSING:
        sys.exit(f"needs {', '.join(MISSING)}")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.report is not None:
        shoot("report", options.out, report(options.report / PAGE, options.at))
    for page in SITE if options.site is not None else ():
        address = (options.site / page).resolve().as_uri()
        shoot(page.removesuffix(".html").replace("/", "-"), options.out, lambda driver, to=address: driver.get(to))
