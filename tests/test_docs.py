"""Every command and Python snippet of the documentation runs unchanged, in order, and prints what the page shows.

A block ```text that follows a snippet is its output. Words have to be equal and numbers close; a line `...` stands for
any lines. Timings and figures of a run depend on the machine, so numbers may differ by a third.
"""

import json
import math
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
from geodesic.records import load_run
from geodesic.tasks import load
from geodesic.tasks.methods import build, resolve

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
NOTEBOOK = json.loads((ROOT / "examples" / "puck.ipynb").read_text())
CELLS = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
LISTED = set(
    re.findall(
        r"^::: geodesic\.(\S+)$", "".join(path.read_text() for path in DOCS.glob("reference/api/*.md")), re.MULTILINE
    )
)
MODULES = {"curricula", "envs", "errors", "learners", "metrics", "records", "tasks"}
EXTEND = DOCS / "how-to" / "extend.md"
PARTS = re.search(r"```python\n(.*?)```", EXTEND.read_text(), re.DOTALL)[1]  # a pace, a metric and a method
RUNNING = [page for page in PAGES if BLOCK.search(page.read_text())]


def name(page):
    return str(page.relative_to(DOCS))


def blocks(page):
    return BLOCK.findall(page.read_text())


def agree(shown, printed):
    """Whether a line of a page is what was printed: equal words, and numbers that differ by at most a third."""
    if NUMBER.sub("#", shown).split() != NUMBER.sub("#", printed).split():
        return False
    pairs = zip(*([float(each.replace(",", "")) for each in NUMBER.findall(line)] for line in (shown, printed)))
    return all(math.isclose(one, other, rel_tol=1 / 3, abs_tol=0.35) for one, other in pairs)


def differences(shown, printed):
    """The lines of a page that were not printed, in order; `...` stands for any lines."""
    rest, skip, missing = [line for line in printed.splitlines() if line.strip()], False, []
    for line in filter(str.strip, shown.splitlines()):
        if line.strip() == "...":
            skip = True
            continue
        places = [k for k, other in enumerate(rest if skip else rest[:1]) if agree(line, other)]
        if places:
            rest, skip = rest[places[0] + 1 :], False
        else:
            missing.append(line)
    return missing if skip else missing + rest


def commands(block):
    return [shlex.split(line)[1:] for line in block.splitlines() if line.startswith("geodesic ")]


def test_the_pages_have_snippets():
    some = {"tutorials/five-minutes.md", "tutorials/own-environment.md", "tutorials/from-sb3.md", "how-to/extend.md"}
    assert some <= {name(page) for page in RUNNING}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_page_is_in_the_menu(page):
    assert re.search(rf": {re.escape(name(page))}$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    ("shown", "printed", "missing"),
    [
        ("solved 5 of 5 seeds", "solved 4 of 5  seeds", []),
        ("at 53.0k", "at 90.0k", ["at 53.0k", "at 90.0k"]),
        ("one\n...\nfour", "one\ntwo\nthree\nfour", []),
        ("one\n...", "one\ntwo", []),
        ("one\nfour", "one\ntwo", ["four", "two"]),
    ],
)
def test_outputs_are_compared(shown, printed, missing):
    assert differences(shown, printed) == missing


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


@pytest.mark.parametrize("page", RUNNING, ids=name)
def test_every_command_is_valid(page):
    for kind, block, _ in blocks(page):
        if kind == "console":
            assert all(line.startswith("geodesic ") for line in block.splitlines())
            for words in commands(block):
                parser().parse_args(words)


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNING, ids=name)
def test_every_snippet_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    names = {"__name__": "__main__"}
    for kind, block, shown in blocks(page):
        capsys.readouterr()
        if kind == "python":
            exec(compile(block, str(page), "exec"), names)
        for words in commands(block) if kind == "console" else []:
            assert main(words) == 0, words
        printed = capsys.readouterr().out
        assert not shown or not differences(shown, printed), printed


def test_a_custom_pace_metric_and_method_train(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(PARTS, {"__name__": "__main__"})
    (doubling,) = (tmp_path / "runs" / "doubling").glob("runs/*/seed-0")
    (half,) = (tmp_path / "runs" / "half").glob("runs/*/seed-0")
    alphas = load_run(doubling).stages.alphas
    assert len(alphas) > 2
    assert list(alphas) == [0.0, 0.1, 0.2, 0.4, 0.8, 1.0][: len(alphas)]
    assert list(load_run(half).stages.alphas) == [0.0, 1.0]


def test_the_same_classes_work_by_name_from_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_file.py").write_text(PARTS.partition("ends =")[0])
    task = load(f"{tmp_path}/my_file.py:task")
    kinds, page = [], EXTEND.read_text()
    for method in re.findall(r"--method (my_file\S+|gradient:pace=my_file\S+)` \|", page):
        named, options, metric = resolve(task, method)
        kinds.append(type(build(task, named, options, metric, task.threshold)).__name__)
    assert kinds == ["HalfAndHalf", "Gradient"]
    (metric,) = re.findall(r"--metric (my_file\S+)`", page)
    assert type(task.make_metric(metric)).__name__ == "Manhattan"


def test_the_notebook_is_plain_python_without_outputs():
    """So that the tests can run its cells without Jupyter."""
    for cell in CELLS:
        compile(cell, "a cell", "exec")
    assert not any(cell.get("outputs") for cell in NOTEBOOK["cells"])


def test_the_notebook_and_the_docs_have_the_same_task():
    snippets = [block for kind, block, _ in blocks(DOCS / "how-to" / "jax.md") if kind == "python"]
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
@pytest.mark.parametrize("page", ["index.html", "results/tables.html"])
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
        found = By.CSS_SELECTOR, ".md-search-result__item a[href*='how-to/compare.html#watch-a-sweep']"
        assert wait.until(lambda opened: opened.find_elements(*found))
        sent = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    requests = [each["params"]["request"]["url"] for each in sent if each["method"] == "Network.requestWillBeSent"]
    assert requests
    assert {url.partition(":")[0] for url in requests} <= {"file", "data"}
