"""A headless Chromium with a page in it; tests that need one are skipped, with the reason, where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
MISSING = [
    name
    for name, there in (("chromium", CHROMIUM), ("chromium-driver", DRIVER), ("selenium", find_spec("selenium")))
    if not there
]
needs_browser = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")
DESKTOP, PHONE = (1280, 900), (390, 844)


@contextmanager
def browser(size: tuple[int, int] = DESKTOP, dark: bool = False, downloads: Path | None = None) -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    if downloads is not None:
        options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    try:
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
        yield driver
    finally:
        driver.quit()


def opened(driver: Any, page: Path) -> Any:
    """The page, once its charts are drawn."""
    from selenium.webdriver.support.ui import WebDriverWait

    driver.get(page.resolve().as_uri())
    wait = WebDriverWait(driver, 40)
    wait.until(lambda now: now.execute_script("return document.documentElement.dataset.ready === 'yes'"))
    return wait
