"""Contexts at chosen steps and fractions of the path, as in the paper's figure 5."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import geodesic as gd
from geodesic.cli import main
from geodesic.errors import InvalidInput
from geodesic.records import load_comparison, load_run
from geodesic.report import contexts
from geodesic.report.contexts import Moments
from geodesic.report.scene import Scene
from run_folders import write_comparison, write_run

TASK = gd.Task(
    "CartPole-v1",
    {"position": (-4.0, 8.0), "width": (0.0, 8.0)},
    {"position": 0, "width": 4},
    {"position": 3, "width": 4},
    threshold=40.0,
    name="mine",
    set_context=lambda env, **context: None,
)
SCENE = Scene.of_task(TASK, [])


def drawn(axes: Axes) -> list[list[float]]:
    return axes.collections[-1].get_offsets().tolist()


def notes(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts if text.get_text()]


def test_steps_and_fractions_are_read():
    assert Moments.parse(["10k,.05M,300000"]) == Moments(steps=(1e4, 5e4, 3e5))
    assert Moments.parse(["alpha=0,.25,1"]) == Moments(alphas=(0.0, 0.25, 1.0))
    assert Moments.parse(["alpha=0,1", "5k,10k"]) == Moments((5e3, 1e4), (0.0, 1.0))


@pytest.mark.parametrize("texts", [["10x"], [""], ["alpha=2"], ["alpha=1k"], ["-5"], ["inf"], ["5k", "6k"], ["nan"]])
def test_other_moments_are_refused(texts):
    with pytest.raises(InvalidInput, match="expected --at with steps as in 10k,50k,300k or fractions of the path"):
        Moments.parse(texts)


def test_figure_5_needs_as_many_alphas_as_steps():
    with pytest.raises(InvalidInput, match="expected --at with as many alphas as steps"):
        Moments.parse(["alpha=0,1", "5k"])


def test_contexts_at_chosen_steps(tmp_path: Path):
    run = load_run(write_run(tmp_path / "run", stages=4))  # at steps 0, 250, 500, 750
    figure = contexts.moments([run], SCENE, Moments(steps=(249.0, 250.0)))
    for axes, stage in zip(figure.axes, run.curriculum):
        assert np.allclose(np.sort(drawn(axes), axis=0), np.sort(stage.particles.points, axis=0))
    assert [axes.get_title() for axes in figure.axes] == ["step 249", "step 250"]


def test_contexts_at_chosen_fractions_are_those_of_the_nearest_stage(tmp_path: Path):
    kinds = ["train", "explore", "train", "train", "train"]
    run = load_run(write_run(tmp_path / "run", stages=5, kinds=kinds))  # at 0, .25 (not trained on), .5, .75, 1
    figure = contexts.moments([run], SCENE, Moments(alphas=(0.25, 0.6, 1.0)))
    wanted = [run.curriculum[k] for k in (0, 2, 4)]
    for axes, stage in zip(figure.axes, wanted):
        assert np.allclose(np.sort(drawn(axes), axis=0), np.sort(stage.particles.points, axis=0))
    assert [axes.get_title() for axes in figure.axes] == ["α = 0.25", "α = 0.6", "α = 1"]
    assert [note for note in notes(figure) if "step" in note] == ["α 0, step 0", "α 0.5, step 400", "α 1, step 800"]


def test_a_fraction_that_no_stage_has_reached_is_left_empty(tmp_path: Path):
    run = load_run(write_run(tmp_path / "run", stages=1))  # the source only
    assert "nothing yet" in notes(contexts.moments([run], SCENE, Moments(alphas=(0.0, 0.5))))


def test_figure_5_draws_paths_by_alpha_and_other_methods_by_step(tmp_path: Path):
    folder = write_comparison(tmp_path / "runs", {"gradient": {}, "spdl": {"method": "spdl"}}, seeds=1)
    figure = contexts.moments(load_comparison(folder), SCENE, Moments(steps=(10.0, 900.0), alphas=(0.0, 1.0)))
    assert [axes.get_title() for axes in figure.axes] == ["α = 0", "α = 1", "step 10", "step 900"]


def test_the_report_command_draws_them(tmp_path: Path, monkeypatch, capsys):
    folder = write_run(tmp_path / "run", task="point-mass", contexts=["gate_position", "gate_width"])
    drawn_at = []
    monkeypatch.setattr("geodesic.report.page.write_report", lambda *args, figures, **options: figures())
    monkeypatch.setattr("geodesic.runs.helper.Helper.result", lambda helper: [])
    monkeypatch.setattr("geodesic.runs.helper.Helper.__init__", lambda helper, *args, **options: drawn_at.append(args))
    monkeypatch.setattr("geodesic.runs.helper.Helper.__exit__", lambda *args: None)
    assert main(["report", str(folder), "--no-film", "--at", "1,500", "--at", "alpha=0,1"]) == 0
    assert drawn_at[0][1].keywords == {"at": Moments((1.0, 500.0), (0.0, 1.0))}
    assert main(["report", str(folder), "--at", "soon"]) == 2
    assert "expected --at with steps" in capsys.readouterr().err
