"""Take screenshots of a report: at the width of a phone and of a desktop, light and dark.

    python -m benchmarks.studies.screens runs/demo/maze runs/demo/screens

Messages of the browser are printed as well.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from browser import DESKTOP, MISSING, PHONE, browser, opened
from geodesic.report.page import PAGE


def shoot(page: Path, out: Path, at: float) -> None:
    """Take four screenshots of the whole page, with its curricula at this fraction of their steps."""
    out.mkdir(parents=True, exist_ok=True)
    for name, size in (("desktop", DESKTOP), ("phone", PHONE)):
        for dark in (False, True):
            with browser(size, dark) as driver:
                opened(driver, page)
                driver.execute_script(
                    "const s = document.querySelector('#step'); if (s) { s.value = arguments[0] * s.max; "
                    "s.dispatchEvent(new Event('input')); }",
                    at,
                )
                height = driver.execute_script("return document.documentElement.scrollHeight")
                wide = driver.execute_script("return document.documentElement.scrollWidth")
                metrics = {"width": size[0], "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
                driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
                path = out / f"{name}-{'dark' if dark else 'light'}.png"
                driver.save_screenshot(str(path))
                for line in driver.get_log("browser"):
                    print(f"  {line['level']}: {line['message']}")
                overflow = "" if wide <= size[0] else f", wider than its window by {wide - size[0]}"
                print(f"wrote {path}: {size[0]} x {height}{overflow}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a run or a comparison with its report")
    parser.add_argument("out", type=Path)
    parser.add_argument("--at", type=float, default=0.5, help="fraction of the steps (default: %(default)s)")
    options = parser.parse_args()
    if MISSING:
        sys.exit(f"needs {', '.join(MISSING)}")
    shoot(options.folder / PAGE, options.out, options.at)
