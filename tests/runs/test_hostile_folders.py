"""Hostile run folders: no command executes anything from one, follows a link, waits for a pipe, or fails at length.

`python -m benchmarks.reliability.hostile` runs every command on every kind, in processes whose memory it measures.
"""

import pytest
from benchmarks.reliability import hostile

from geodesic.cli import main

pytestmark = pytest.mark.filterwarnings("ignore::geodesic.errors.RunWarning")  # which commands print
KINDS = dict(hostile.kinds())
REPORTED = (
    "task in a file", "method in a module", "pickle of an SB3 model", "link to a folder at figures",
    "pipe at stages.csv", "link to a file at report.html", "layout /dev/zero", "n_envs 1000000000",
    "escape codes in names", "mathtext in names", "formula in names", "letters of another script in names",
    "episodes.csv of holes", "curriculum.npz of holes", "a name for every stage", "inf in a table",
    "1e308 in the evaluations", "a folder like a temporary file",
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return hostile.interrupted(tmp_path_factory.mktemp("hostile") / "whole")


@pytest.fixture
def command(capsys):
    """Runs a command in this process; what is wrong with how it ends."""

    def run(arguments):
        capsys.readouterr()
        code = main(arguments)
        said = capsys.readouterr()
        return hostile.judged(code, said.err, said.out)

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_no_folder_does_harm(whole, tmp_path, command, kind):
    assert not hostile.attack(whole, tmp_path / "work", KINDS[kind], ["watch", "resume"], command)


@pytest.mark.parametrize("kind", REPORTED)
def test_a_report_of_a_hostile_folder_does_no_harm(whole, tmp_path, command, kind):
    assert not hostile.attack(whole, tmp_path / "work", KINDS[kind], ["report"], command)


@pytest.mark.parametrize("kind", ["task in a file", "method in a module", "pace in a file", "layout /dev/zero"])
def test_a_hostile_configuration_is_not_repeated(whole, tmp_path, command, kind):
    assert not hostile.attack(whole, tmp_path / "work", KINDS[kind], ["repeat"], command)


def test_a_folder_that_is_trusted_runs_its_code(whole, tmp_path, command):
    """The attack works where it is allowed to, so that its absence means something."""
    trusting = lambda arguments: command([*arguments, "--trust"])  # noqa: E731
    found = hostile.attack(whole, tmp_path / "work", KINDS["task in a file"], ["resume"], trusting)
    assert any("code was executed" in line for line in found)
