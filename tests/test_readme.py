"""The README's examples run as they stand, and every command that it shows exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    names = {}
    exec(block, names)
    return names


def test_the_first_example_trains_on_the_target(tmp_path, monkeypatch, capsys):
    names = run(BLOCKS[0], tmp_path, monkeypatch)
    assert "gradient:step=0.2" in capsys.readouterr().out
    for recorded in names["result"].runs:
        assert recorded.finished
        assert recorded.stages.alphas[-1] == 1.0
        on_target = recorded.episodes.stages == recorded.stages.stages[-1]
        assert on_target.sum() > 200  # it goes on training there, to the end of the budget
        assert recorded.episodes.steps[on_target][-1] > 59_000


def test_the_second_example_trains_an_own_environment(tmp_path, monkeypatch):
    (recorded,) = run(BLOCKS[1], tmp_path, monkeypatch)["result"].runs
    assert recorded.finished
    assert recorded.contexts == ("gravity",)


def test_the_third_example_is_a_loop_that_reaches_the_target(tmp_path, monkeypatch):
    names = run(BLOCKS[2], tmp_path, monkeypatch)
    assert names["teacher"].done
    assert (tmp_path / "runs" / "mine" / "summary.json").exists()


def test_there_are_no_other_examples():
    assert len(BLOCKS) == 3


def test_every_command_it_shows_exists():
    from geodesic.cli import parser

    shown = re.findall(r"^geodesic (\w+)", README, re.MULTILINE)
    assert shown
    text = parser().format_help()
    assert all(name in text for name in shown)


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#]+)\)", README))
def test_what_it_links_to_exists(path):
    assert (ROOT / path).exists()
