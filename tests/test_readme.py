"""The README's examples run as they stand, and every command that it shows exists."""

import re
import subprocess
import sys
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


def test_the_first_example_is_an_own_environment_in_ten_lines(tmp_path, monkeypatch, capsys):
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 10
    run(BLOCKS[0].replace("30_000", "6_144"), tmp_path, monkeypatch)
    table, page = capsys.readouterr().out.rsplit(maxsplit=1)
    assert "gradient:step=0.25" in table
    assert "gravity" in Path(page).read_text()


def test_the_second_example_is_the_script_with_stable_baselines3(tmp_path, monkeypatch):
    assert BLOCKS[1] == (ROOT / "examples" / "cartpole_sb3.py").read_text().split('"""\n\n', 1)[1]
    run(BLOCKS[1], tmp_path, monkeypatch)
    recorded = load_run(tmp_path / "runs" / "cartpole")
    assert recorded.finished
    assert recorded.contexts == ("length", "gravity")
    assert recorded.stages.stages[-1] >= 1


def test_the_second_example_adds_at_most_15_lines_to_a_users_own_script():
    lines = [line for line in BLOCKS[1].splitlines() if line.strip()]
    own = ("from stable_baselines3", "if __name__", "    model = PPO(")
    added = [line for line in lines if not line.startswith(own)]
    assert len(lines) - len(added) == 4
    assert len(added) <= 15


def test_the_third_example_trains_on_the_target(tmp_path, monkeypatch, capsys):
    names = run(BLOCKS[2], tmp_path, monkeypatch)
    assert "gradient:step=0.2" in capsys.readouterr().out
    for recorded in names["result"].runs:
        assert recorded.finished
        assert recorded.stages.alphas[-1] == 1.0
        on_target = recorded.episodes.stages == recorded.stages.stages[-1]
        assert on_target.sum() > 200  # it goes on training there, to the end of the budget
        assert recorded.episodes.steps[on_target][-1] > 59_000


def test_there_are_no_other_examples():
    assert len(BLOCKS) == 3


def test_every_command_it_shows_exists():
    from geodesic.cli import parser

    shown = re.findall(r"^geodesic (\w+)", README, re.MULTILINE)
    assert shown
    text = parser().format_help()
    assert all(name in text for name in shown)


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#]+)[)#]", README))
def test_what_it_links_to_exists(path):
    assert (ROOT / path).exists()


def test_a_package_index_gets_links_and_pictures_that_lead_somewhere():
    """Built in a process of its own, as a release does."""
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
