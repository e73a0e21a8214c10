"""The README's examples run unchanged, and its links and citations are right."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from geodesic.records import load_run

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    names = {"__name__": "__main__"}
    exec(block, names)
    return names


def test_the_first_example_trains_on_a_custom_environment_in_ten_lines(tmp_path, monkeypatch, capsys):
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 10
    assert "steps=150_000, seeds=10" in BLOCKS[0]
    run(BLOCKS[0].replace("150_000", "6_144").replace("seeds=10", "seeds=2"), tmp_path, monkeypatch)
    printed = capsys.readouterr().out
    assert [line.split()[:2] for line in printed.splitlines()[2:4]] == [["gradient", "2"], ["target-only", "2"]]
    assert "nan" not in printed


def test_the_second_example_is_the_stable_baselines3_script(tmp_path, monkeypatch):
    assert BLOCKS[1] == (ROOT / "examples" / "cartpole_sb3.py").read_text().split('"""\n\n', 1)[1]
    run(BLOCKS[1], tmp_path, monkeypatch)
    recorded = load_run(tmp_path / "runs" / "cartpole")
    assert recorded.finished
    assert recorded.contexts == ("length", "gravity")
    assert recorded.stages.stages[-1] >= 1


def test_the_second_example_adds_at_most_15_lines_to_a_script():
    lines = [line for line in BLOCKS[1].splitlines() if line.strip()]
    own = ("from stable_baselines3", "if __name__", "    model = PPO(")
    added = [line for line in lines if not line.startswith(own)]
    assert len(lines) - len(added) == 4
    assert len(added) <= 15


def test_there_are_no_other_examples():
    assert len(BLOCKS) == 2


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#]+)[)#]", README))
def test_every_link_leads_to_a_file(path):
    assert (ROOT / path).exists()


def test_the_citations_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = (ROOT / "CITATION.cff").read_text()
    software, paper = cited.split("preferred-citation:")
    for name in ("version", "license"):
        assert f"\n{name}: {project[name]}\n" in software
    assert f"version = {{{project['version']}}}" in README
    authors = re.findall(r"family-names: (.*)\n +given-names: (.*)\n", paper)
    assert len(authors) == 6
    assert " and ".join(f"{family}, {given}" for family, given in authors) in README
    for title in re.findall(r"^ *title: (.*)$", paper, re.MULTILINE):
        assert f"{{{title}}}" in README


def test_the_readme_of_a_package_index_has_links_and_pictures_that_work():
    """Built in a separate process, as in a release."""
    command = [
        sys.executable,
        ROOT / "docs" / "site" / "index_readme.py",
        "https://a.b/c/",
        "--pictures",
        "https://p.q",
    ]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", text)
    assert len(links) == len(re.findall(r"\]\(", README))
    for picture, link in links:
        assert (ROOT / link.removeprefix("https://p.q/" if picture else "https://a.b/c/").partition("#")[0]).exists()
    assert re.sub(r"https://(a.b/c|p.q)/", "", text) == README
