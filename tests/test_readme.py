"""The README's examples run unchanged, and every command in it exists."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from geodesic.records import load_run
from geodesic.tasks import load

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
    assert "steps=200_000" in BLOCKS[0]
    run(BLOCKS[0].replace("200_000", "6_144"), tmp_path, monkeypatch)
    table, page = capsys.readouterr().out.rsplit(maxsplit=1)
    assert table.splitlines()[2].split()[:2] == ["auto", "1"]
    assert "nan" not in table
    assert "gravity" in Path(page).read_text()


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


def test_the_third_example_trains_with_a_custom_pace_metric_and_method(tmp_path, monkeypatch):
    run(BLOCKS[2], tmp_path, monkeypatch)
    (doubling,) = (tmp_path / "runs" / "doubling").glob("runs/*/seed-0")
    (half,) = (tmp_path / "runs" / "half").glob("runs/*/seed-0")
    alphas = load_run(doubling).stages.alphas
    assert len(alphas) > 2
    assert list(alphas) == [0.0, 0.1, 0.2, 0.4, 0.8, 1.0][: len(alphas)]
    assert list(load_run(half).stages.alphas) == [0.0, 1.0]


def test_the_classes_of_the_third_example_work_by_name_from_a_file(tmp_path, monkeypatch):
    from geodesic.tasks.methods import build, resolve

    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_file.py").write_text(BLOCKS[2].partition("ends =")[0])
    task = load(f"{tmp_path}/my_file.py:task")
    kinds = []
    for method in re.findall(r"--method (my_file\S+|gradient:pace=my_file\S+)`", README):
        name, options, metric = resolve(task, method)
        kinds.append(type(build(task, name, options, metric, task.threshold)).__name__)
    assert kinds == ["HalfAndHalf", "Gradient"]
    (metric,) = re.findall(r"--metric (my_file\S+)`", README)
    assert type(task.make_metric(metric)).__name__ == "Manhattan"


def test_the_fourth_example_trains_on_the_target(tmp_path, monkeypatch, capsys):
    names = run(BLOCKS[3], tmp_path, monkeypatch)
    assert "gradient:step=0.2" in capsys.readouterr().out
    for recorded in names["result"].runs:
        assert recorded.finished
        assert recorded.stages.alphas[-1] == 1.0
        on_target = recorded.episodes.stages == recorded.stages.stages[-1]
        assert on_target.sum() > 200  # it trains there until the end of the budget
        assert recorded.episodes.steps[on_target][-1] > 59_000


def test_there_are_no_other_examples():
    assert len(BLOCKS) == 4


def test_every_command_is_valid():
    from geodesic.cli import parser

    (block,) = re.findall(r"^```\n(geodesic .*?)^```", README, re.DOTALL | re.MULTILINE)
    lines = re.findall(r"^geodesic (.*?)(?:  |$)", block, re.MULTILINE)
    assert len(lines) > 10
    for line in lines:
        parser().parse_args(shlex.split(line))


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
