"""Trackers: what is sent to TensorBoard and Weights & Biases, and unknown names."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from geodesic.cli import main
from geodesic.errors import CheckpointError, MissingExtra, RunFailed, UnknownName
from geodesic.records import RunFolder
from geodesic.records.trackers import VARIABLE, TensorBoard, WandB, chosen
from geodesic.training.configure import configure

CONFIG = configure("maze", seed=3, steps=1000)


class FakeRun:
    def __init__(self, **given: Any) -> None:
        self.given, self.logged, self.finished = given, [], False  # type: ignore[var-annotated]

    def log(self, values: dict[str, float], step: int) -> None:
        self.logged.append((step, values))

    def finish(self) -> None:
        self.finished = True


@pytest.fixture
def wandb(monkeypatch: Any) -> list[FakeRun]:
    """The parts of Weights & Biases that we use; the runs that were started."""
    runs: list[FakeRun] = []
    fake = types.ModuleType("wandb")
    fake.init = lambda **given: runs.append(FakeRun(**given)) or runs[-1]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setenv(VARIABLE, "wandb")
    return runs


def test_tensorboard_is_the_default_and_names_are_checked(monkeypatch: Any) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert chosen() == ["tensorboard"]
    assert chosen("wandb, tensorboard,wandb") == ["wandb", "tensorboard"]
    assert chosen("none") == []
    with pytest.raises(UnknownName, match="did you mean tensorboard"):
        chosen("tensorbord")


def test_an_unknown_tracker_is_refused_before_any_work(tmp_path: Path, capsys: Any) -> None:
    assert main(["run", "maze", "--track", "mlflow", "--out", str(tmp_path / "run")]) == 2
    assert "expected a tracker to be one of none, tensorboard, wandb; got 'mlflow'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_weights_and_biases_receives_the_run_and_its_numbers(tmp_path: Path, wandb: list[FakeRun]) -> None:
    folder = RunFolder(tmp_path / "run", CONFIG)
    folder.create()
    folder.scalars(0, {"target/return": math.nan})
    assert wandb == []  # no finite number yet
    folder.scalars(10, {"target/return": 1.0, "learner/kl": math.nan})
    folder.scalars(20, {"target/return": 2.0})
    folder.close()
    folder.release()
    (run,) = wandb
    assert run.logged == [(10, {"target/return": 1.0}), (20, {"target/return": 2.0})]
    assert run.finished
    assert (run.given["name"], run.given["resume"]) == ("auto seed 3", "allow")
    assert run.given["config"]["steps"] == 1000
    assert not list((tmp_path / "run").glob("events.out.tfevents*"))
    again = WandB(tmp_path / "run", CONFIG)
    again.scalars(30, {"target/return": 3.0})
    assert wandb[1].given["id"] == run.given["id"]  # resumed under the same identity
    assert WandB(tmp_path / "other", CONFIG)._start().given["id"] != run.given["id"]


def test_a_missing_extra_names_the_install_command(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtra, match=r"pip install 'geodesic-rl\[wandb\]'"):
        WandB(tmp_path, CONFIG).scalars(0, {"a": 1.0})


def test_event_files_hold_the_numbers(tmp_path: Path) -> None:
    tracker = TensorBoard(tmp_path, CONFIG)
    tracker.scalars(5, {"target/return": 1.5})
    tracker.close()
    assert events(tmp_path) == {"target/return": [(5, 1.5)]}


def test_event_files_with_a_second_name_are_not_written(tmp_path: Path) -> None:
    tracker = TensorBoard(tmp_path, CONFIG)
    tracker.scalars(5, {"target/return": 1.5})
    (path,) = tmp_path.glob("events*")
    (tmp_path / "elsewhere").hardlink_to(path)
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match="expected .* to have one name, got 2 hard links"):
        tracker.scalars(6, {"target/return": 1.5})
    assert path.read_bytes() == before


def test_a_deleted_folder_is_not_created_again(tmp_path: Path) -> None:
    tracker, late = TensorBoard(tmp_path / "run", CONFIG), TensorBoard(tmp_path / "run", CONFIG)
    (tmp_path / "run").mkdir()
    tracker.scalars(5, {"target/return": 1.5})
    shutil.rmtree(tmp_path / "run")
    for each in (tracker, late):
        with pytest.raises(RunFailed, match="cannot write .*: No such file or directory"):
            each.scalars(6, {"target/return": 1.5})
        each.close()
    assert not (tmp_path / "run").exists()


FULL = """
import resource, sys
from pathlib import Path
from geodesic.errors import RunFailed
from geodesic.records.trackers import TensorBoard
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # as on a full disk
tracker = TensorBoard(Path(sys.argv[1]), None)
try:
    for step in range(1000):
        tracker.scalars(step, {"target/return": 1.5})
except RunFailed as error:
    print(error)
tracker.close()
"""


def test_a_full_disk_is_one_error_without_the_traceback_of_a_thread(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True)
    assert re.fullmatch(rf"cannot write {tmp_path}/events\.out\.tfevents\.\S+: File too large\n", done.stdout)
    assert done.stderr == ""


def events(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Every scalar in a folder, by tag."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found: dict[str, list[tuple[int, float]]] = {}
    for path in sorted(folder.glob("events.out.tfevents*")):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                number = value.tensor.float_val[0] if value.tensor.float_val else value.simple_value
                found.setdefault(value.tag, []).append((event.step, number))
    return found


@pytest.mark.parametrize(
    ("task", "learner"),
    [
        ("maze", {"policy_loss", "value_loss", "entropy", "kl", "explained_variance"}),
        pytest.param("point-mass", {"critic_loss", "actor_loss", "entropy", "entropy_coef"}, marks=pytest.mark.slow),
    ],
)
def test_a_run_sends_the_usual_scalars_and_finite_numbers_only(tmp_path: Path, task: str, learner: set[str]) -> None:
    assert main(["run", task, "--steps", "4000", "--quiet", "--out", str(tmp_path / "run")]) == 0
    found = events(tmp_path / "run")
    assert {tag.removeprefix("learner/") for tag in found if tag.startswith("learner/")} == learner
    general = {"target/return", "target/success", "train/score", "train/episode_length", "train/success"}
    assert general | {"time/steps_per_second", "curriculum/alpha", "curriculum/stage"} <= set(found)
    assert {tag.split(" ")[-1] for tag in found if tag.startswith("context/")} == {"mean", "std"}
    assert all(math.isfinite(value) for values in found.values() for _, value in values)
    gaps = {b - a for (a, _), (b, _) in zip(found["target/return"][:-2], found["target/return"][1:-1])}
    assert len(gaps) == 1  # evaluations are equally spaced
    assert all(value > 0 for _, value in found["time/steps_per_second"])
    assert all(value >= 0 for _, value in found["learner/entropy"]) or task == "point-mass"
    assert found["train/episode_length"][-1][1] > 1
