"""Every command and every piece of Python on the documentation's pages runs as it stands, in the order of the page."""

import re
import shlex
from pathlib import Path

import pytest

from geodesic.cli import main, parser

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
RUNNING = [page for page in PAGES if BLOCK.search(page.read_text())]


def blocks(page):
    return BLOCK.findall(page.read_text())


def commands(block):
    return [shlex.split(line)[1:] for line in block.splitlines() if line.startswith("geodesic ")]


def test_there_is_something_to_run():
    assert {"start.md", "metrics.md", "choosing.md", "mathematics.md"} <= {page.name for page in RUNNING}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_is_in_the_sites_menu(page):
    assert re.search(rf": {re.escape(page.name)}$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.name)
def test_every_command_is_one(page):
    for kind, block in blocks(page):
        if kind == "console":
            assert all(line.startswith("geodesic ") for line in block.splitlines())
            for words in commands(block):
                parser().parse_args(words)


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.name)
def test_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    names = {"__name__": "__main__"}
    for kind, block in blocks(page):
        if kind == "python":
            exec(compile(block, str(page), "exec"), names)
        for words in commands(block) if kind == "console" else []:
            assert main(words) == 0, words
