"""Every command and Python snippet of the documentation and its notebook runs unchanged, in order."""

import json
import os
import re
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import geodesic
from browser import browser, needs_browser
from geodesic.cli import main, parser

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
NOTEBOOK = json.loads((ROOT / "examples" / "puck.ipynb").read_text())
CELLS = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
LISTED = set(re.findall(r"^::: geodesic\.(\S+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE))
MODULES = {"curricula", "envs", "errors", "learners", "metrics", "records", "tasks"}
RUNNING = [page for page in PAGES if BLOCK.search(page.read_text())]


def blocks(page):
    return BLOCK.findall(page.read_text())


def commands(block):
    return [shlex.split(line)[1:] for line in block.splitlines() if line.startswith("geodesic ")]


def test_the_pages_have_snippets():
    some = {"start.md", "environments.md", "learners.md", "tasks.md", "metrics.md", "choosing.md", "mathematics.md"}
    assert some <= {page.name for page in RUNNING}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_is_in_the_menu(page):
    assert re.search(rf": {re.escape(page.name)}$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)


def test_the_reference_lists_every_public_name():
    names = {*geodesic.__all__} - MODULES
    names |= {f"{room}.{name}" for room in MODULES - {"records"} for name in getattr(geodesic, room).__all__}
    internal = {  # registries, types and what only Gymnasium, the command line and other rooms use
        "curricula.REGISTRY", "curricula.Kind", "curricula.Method", "envs.REGISTRY", "envs.EnvSpec",
        "envs.make_gymnasium", "envs.register", "learners.REGISTRY", "learners.describe", "metrics.REGISTRY",
        "metrics.STANDARD", "tasks.REGISTRY",
    }  # fmt: skip
    short = {name.rpartition(".")[2] for name in LISTED}
    assert {name for name in names - internal if name.rpartition(".")[2] not in short} == set()


def test_dir_lists_what_the_reference_documents():
    offered = set(dir(geodesic))
    for room in MODULES:
        assert dir(getattr(geodesic, room)) == sorted(getattr(geodesic, room).__all__)
        offered |= {f"{room}.{name}" for name in dir(getattr(geodesic, room))}
    within = {
        "CurriculumCallback",
        "with_curriculum",
        "SampledContexts",
        "restore",
        "load_policy",
        "Policy",
        *("Verdict", "MethodOutcome", "SeedOutcome", "Comparison"),
    }  # gd.sb3, gd.rllib, Teacher.sample and Result.verdict have them, or a file that is copied
    short = {name.rpartition(".")[2] for name in offered}
    assert MODULES | {"rllib", "sb3"} <= offered
    assert {name for name in LISTED if name.rpartition(".")[2] not in short | within} == set()
    assert {name for name in LISTED if name.partition(".")[0] in MODULES} - offered <= {
        "learners.base.Learner", "learners.base.Transitions", "metrics.embedding.Embedding",
        "metrics.returns.ReturnGap", "metrics.returns.ReturnLift",
    }  # fmt: skip


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.name)
def test_every_command_is_valid(page):
    for kind, block in blocks(page):
        if kind == "console":
            assert all(line.startswith("geodesic ") for line in block.splitlines())
            for words in commands(block):
                parser().parse_args(words)


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.name)
def test_every_snippet_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    names = {"__name__": "__main__"}
    for kind, block in blocks(page):
        if kind == "python":
            exec(compile(block, str(page), "exec"), names)
        for words in commands(block) if kind == "console" else []:
            assert main(words) == 0, words


def test_the_notebook_is_plain_python_without_outputs():
    """So that the tests can run its cells without Jupyter."""
    for cell in CELLS:
        compile(cell, "a cell", "exec")
    assert not any(cell.get("outputs") for cell in NOTEBOOK["cells"])


def test_the_notebook_and_the_docs_have_the_same_task():
    snippets = [block for kind, block in blocks(ROOT / "docs" / "environments.md") if kind == "python"]
    assert any(block.startswith(CELLS[0] + "\n") for block in snippets)


@pytest.mark.slow
def test_the_notebook_runs_in_two_minutes(tmp_path):
    (tmp_path / "cells.py").write_text("\n\n".join(CELLS))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    quiet = {"cwd": tmp_path, "env": {**os.environ, "TMPDIR": str(tmp_path), "MPLBACKEND": "agg"}}
    done = subprocess.run([sys.executable, "cells.py"], check=True, stdout=subprocess.PIPE, text=True, **quiet)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    curriculum, target_only, agent, report = re.findall(
        "^(gradient:step.*|target-only.*|goal .*|open .*)$", done.stdout, re.M
    )
    assert "3/3" in curriculum
    assert "0/3" in target_only
    assert "reached" in agent
    page = Path(report.removeprefix("open ")).read_text()
    assert all(label in page for label in ("gradient:step=0.2", "target-only", "data:image/gif"))
    assert after.ru_utime - before.ru_utime < 120  # CPU time: wall-clock time would include other processes


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("page", ["index.html", "results.html"])
def test_search_works_from_disk_without_network_requests(page):
    site = ROOT / "build" / "site" / page
    if not site.exists():
        pytest.skip("needs `make docs`")
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    with browser() as driver:
        driver.get(site.resolve().as_uri())
        box, wait = driver.find_element(By.CSS_SELECTOR, "[data-md-component=search-query]"), WebDriverWait(driver, 60)
        wait.until(lambda _: box.is_displayed())
        box.send_keys("narrow terminal")
        found = By.CSS_SELECTOR, ".md-search-result__item a[href*='report.html#watching-a-sweep']"
        assert wait.until(lambda opened: opened.find_elements(*found))
        sent = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    requests = [each["params"]["request"]["url"] for each in sent if each["method"] == "Network.requestWillBeSent"]
    assert requests
    assert {url.partition(":")[0] for url in requests} <= {"file", "data"}
