from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

import geodesic as gd
from geodesic import envs
from geodesic.experiments.paths import stage_path
from geodesic.experiments.results import load_comparison, load_run
from geodesic.report import contexts, curves, figures, maze, style, u_maze
from geodesic.report.contexts import Plane
from run_folders import write_comparison, write_run

GRID = np.array([[1, 1, 1, 1], [1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1]])
GOAL = np.array([1, 1])
STARTS = np.array([[1.0, 2.0], [2.0, 1.0], [2.0, 2.0]])
PLANE = Plane(np.array([-1.0, 0.0]), np.array([4.0, 8.0]), ("gate position", "gate width"))


def on(*weights: float) -> gd.Particles:
    return gd.Particles(STARTS, weights)


def texts(figure: Figure) -> set[str]:
    """Every text of a figure."""
    return {text.get_text() for text in figure.findobj(lambda item: hasattr(item, "get_text"))}


def panels(figure: Figure) -> list:
    return [axes for axes in figure.axes if axes.get_visible() and axes.get_label() != "<colorbar>"]


def check(paths: list[Path], names: list[str]) -> None:
    assert [path.name for path in paths] == names
    for path in paths:
        height, width, _ = imread(path).shape
        assert min(height, width) > 300


def test_maze_interpolations_shade_cells_by_their_probability() -> None:
    figure = maze.interpolations(
        GRID, GOAL, [0, 0.5], {"linear": [on(1, 0, 0), on(0.5, 0, 0.5)], "geodesic": [on(1, 0, 0)] * 2}
    )
    first, second, third, _ = panels(figure)
    assert {"α = 0", "α = 0.5", "linear", "geodesic", "probability"} <= texts(figure)
    image, other = first.images[0].get_array(), second.images[0].get_array()
    np.testing.assert_array_equal(image, third.images[0].get_array())
    wall, empty, full, half = image[0, 0], image[2, 2], image[1, 2], other[1, 2]
    assert wall[:3].max() < 0.35  # dark
    assert empty[:3].min() > 0.9  # white
    assert full[:3].mean() < half[:3].mean() < empty[:3].mean()  # one scale
    np.testing.assert_array_equal(first.collections[0].get_offsets(), [GOAL[::-1]])


def test_distance_matrix_is_ordered_by_the_way_to_the_goal() -> None:
    distances = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])
    figure = maze.distance_matrix(distances, [3, 1, 2], "distance")
    axes = panels(figure)[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), distances[np.ix_([1, 2, 0], [1, 2, 0])])
    assert axes.get_xlabel() == axes.get_ylabel() == "start cells, ordered by steps to the goal"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "3"]
    assert "Distance between the 3 start cells" in texts(figure)


def test_maze_stages_show_every_stage(tmp_path: Path) -> None:
    clouds, shares = [STARTS] * 8, [np.full(3, 1 / 3)] * 8
    figure = maze.stages(
        GRID, GOAL, load_run(write_run(tmp_path / "run", env="maze", stages=8, points=clouds, weights=shares))
    )
    assert len(panels(figure)) == 8
    assert "stage 7, α = 1\nfrom step 875" in texts(figure)


def comparison(folder: Path, **options: object) -> Path:
    labels = {"gradient": {}, "gradient:step=0.05": {}, "spdl": {"method": "spdl"}, "own": {"method": "own"}}
    return write_comparison(folder, labels, seeds=2, **options)


def test_mean_curves_show_each_label_the_band_and_the_threshold(tmp_path: Path) -> None:
    runs = load_comparison(comparison(tmp_path))
    figure = curves.mean_curves(runs)
    axes = panels(figure)[0]
    assert len(axes.collections) == 4
    labels = [line.get_label() for line in axes.lines]
    assert set(labels) == {f"{run.label} (2 seeds)" for run in runs} | {"solved above 40"}
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [0, 10, 70 / 3, 32.5])  # rolling means of 0, 20, 50, 60
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("environment steps", "return on the target")


def test_success_curves_have_no_threshold_and_unfinished_runs_are_told(tmp_path: Path) -> None:
    runs = load_comparison(comparison(tmp_path, reached=750))
    axes = panels(curves.iqm_curves(runs, "successes"))[0]
    assert axes.get_ylabel() == "success rate on the target"
    assert "gradient (2 seeds, 2 unfinished)" in [line.get_label() for line in axes.lines]
    assert not any(line.get_label().startswith("threshold") for line in axes.lines)


def test_a_method_keeps_its_colour_and_its_variants_differ(tmp_path: Path) -> None:
    runs = load_comparison(comparison(tmp_path))
    looks = style.looks(runs)
    alone = style.looks([run for run in runs if run.method == "spdl"])
    assert looks["spdl"] == alone["spdl"]
    assert style.looks([run for run in runs if run.label == "gradient"])["gradient"].colour == pytest.approx(
        [0xD5 / 255, 0x5E / 255, 0]
    )
    assert len({(look.colour, str(look.line)) for look in looks.values()}) == 4


def test_methods_have_different_colours() -> None:
    assert len({style.COLOURS[name] for name in gd.curricula.REGISTRY}) == len(gd.curricula.REGISTRY)


def test_drawing_leaves_the_callers_settings_alone(tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    curves.single_run(load_run(write_run(tmp_path / "run")))
    assert dict(matplotlib.rcParams) == before


def test_single_run_marks_its_stages(tmp_path: Path) -> None:
    figure = curves.single_run(load_run(write_run(tmp_path / "run")))
    training, target, alpha = panels(figure)
    assert [axes.get_ylabel() for axes in (training, target, alpha)] == [
        "return in training",
        "return on the target",
        "α of the stage",
    ]
    began = next(line for line in target.lines if line.get_label() == "a stage began")
    assert list(began.get_xdata()) == [333, 666]
    assert alpha.lines[0].get_ydata().tolist() == [0.0, 0.5, 1.0, 1.0]


def test_single_run_shades_exploration(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run", events=["start", "explore", "mastered"]))
    _, target, _ = panels(curves.single_run(run))
    band = target.patches[0]
    assert (band.get_x(), band.get_x() + band.get_width()) == (333, 666)
    assert [text.get_text() for text in target.get_legend().get_texts()].count("exploring for the metric") == 1
    began = next(line for line in target.lines if line.get_label() == "a stage began")
    assert list(began.get_xdata()) == [666]


def test_contexts_at_five_moments(tmp_path: Path) -> None:
    write_comparison(tmp_path, {"gradient": {}, "uniform": {"method": "uniform", "stages": 1}}, seeds=2)
    runs = load_comparison(tmp_path)
    figure = contexts.moments(runs, PLANE)
    assert len(panels(figure)) == 10
    assert {"step 0", "step 250", "step 1k", "gradient", "uniform", "gate position", "gate width"} <= texts(figure)
    drawn = panels(figure)[4].collections[0].get_offsets()
    assert {tuple(point) for point in drawn} == {tuple(point) for point in runs[0].curriculum[-1].particles.points}


def test_contexts_come_from_the_episodes_where_there_is_no_curriculum(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "curriculum.npz").unlink()
    run = load_run(folder)
    held = contexts.at_moment(run, 1.0)
    assert held is not None
    np.testing.assert_array_equal(np.sort(held.points, axis=0), np.sort(run.episodes.contexts[-50:], axis=0))
    (folder / "episodes.csv").unlink()
    empty = load_run(folder)
    assert contexts.at_moment(empty, 1.0) is None
    assert "nothing yet" in texts(contexts.moments([empty], PLANE))


def learned_run(folder: Path, label: str = "gradient", **options: object) -> Path:
    rng = np.random.default_rng(0)
    clouds = [rng.uniform(-1, 1, (30, 2)) + 4 * k for k in range(3)]
    cells = np.linspace(-2, 10, 40)
    picture = {
        "heat": np.tile(cells, (40, 1)), "heat_x": cells, "heat_y": cells, "potential": rng.uniform(0, 8, (11, 30, 2)),
    }  # fmt: skip
    return write_run(
        folder, env="u-maze", label=label, metric="embedding", threshold=0.5, returns=[-1.0, 0.0, 0.9],
        points=clouds, snapshots={1: picture, 2: picture}, infeasible=[0.0, 0.5, 0.0], **options,
    )  # fmt: skip


def test_u_maze_stages_show_returns_path_choice_and_wall(tmp_path: Path) -> None:
    plane = Plane(np.full(2, -2.0), np.full(2, 10.0), ("goal x", "goal y"), walls=((-2.0, 2.0, 6.0, 6.0),))
    run = load_run(learned_run(tmp_path / "run"))
    figure = u_maze.stages(run, plane)
    first, second, _ = panels(figure)
    assert len(first.collections) == 1  # no snapshot of the first stage: its goals alone
    assert len(second.collections) == 1 + 11 + 1  # heat, eleven alphas, the choice
    assert second.collections[0].get_array().shape == (40, 40)
    chosen = second.collections[-1].get_offsets()
    assert {tuple(point) for point in chosen} == {tuple(point) for point in run.curriculum[1].particles.points}
    assert second.patches[0].get_bbox().bounds == (-2.0, 2.0, 8.0, 4.0)
    assert second.collections[0].zorder < second.patches[0].zorder < second.collections[1].zorder
    assert {"modelled return", "α of the possible path", "goals trained on", "wall", "goal x"} <= texts(figure)


def test_u_maze_summary_draws_each_label(tmp_path: Path) -> None:
    runs = [load_run(learned_run(tmp_path / f"{label}-{seed}", label, seed=seed)) for label in "ab" for seed in (0, 1)]
    paths = {label: [stage_path(run) for run in runs if run.label == label] for label in "ab"}
    figure = u_maze.path_summary(runs, paths)
    feasible, _, speed = panels(figure)
    assert [len(axes.lines) for axes in (feasible, speed)] == [6, 6]  # two seeds and their mean, twice
    mean = next(line for line in feasible.lines if line.get_label() == "a")
    np.testing.assert_allclose(mean.get_ydata(), [1, 0.5, 1])
    assert speed.lines[0].get_xdata().tolist() == [0.5, 1.0]  # the first stage has no speed


def test_point_mass_folders_get_their_figures(tmp_path: Path) -> None:
    folder = comparison(tmp_path)
    check(figures.write_comparison_figures(folder), ["returns.png", "returns-iqm.png", "successes.png", "contexts.png"])
    check(figures.write_run_figures(folder / "runs" / "gradient" / "seed-0"), ["run.png", "contexts.png"])


def test_maze_folders_get_their_figures(tmp_path: Path) -> None:
    world = envs.make("maze")
    source, target = (end(np.random.default_rng(0)) for end in (world.source, world.target))
    ends = {"points": [source.points, target.points], "weights": [source.weights, target.weights], "stages": 2}
    folder = write_comparison(tmp_path / "maze", {"gradient": ends}, seeds=1, env="maze")
    names = ["returns.png", "returns-iqm.png", "successes.png", "contexts.png"]
    check(figures.write_comparison_figures(folder), names)
    check(figures.write_run_figures(folder / "runs" / "gradient" / "seed-0"), ["run.png", "stages.png"])
    distances = np.abs(np.subtract.outer(world.start_distance, world.start_distance))
    written = figures.write_plan_figures(tmp_path, "maze", [0, 1], {"linear": [source, target]}, distances)
    check(written, ["plan.png", "distances.png"])


def test_u_maze_folders_get_their_figures(tmp_path: Path) -> None:
    learned_run(tmp_path / "runs" / "gradient" / "seed-0")
    write_run(tmp_path / "runs" / "uniform" / "seed-0", env="u-maze", method="uniform", stages=1)
    names = ["returns.png", "returns-iqm.png", "successes.png", "contexts.png", "paths.png"]
    check(figures.write_comparison_figures(tmp_path), names)
    check(figures.write_run_figures(tmp_path / "runs" / "gradient" / "seed-0"), ["run.png", "stages.png"])
    check(figures.write_run_figures(tmp_path / "runs" / "uniform" / "seed-0"), ["run.png", "stages.png"])


def test_an_environment_of_ones_own_is_framed_by_its_contexts(tmp_path: Path) -> None:
    check(figures.write_run_figures(write_run(tmp_path / "run", env="mine")), ["run.png", "contexts.png"])


@pytest.mark.parametrize(
    "gone", [["curriculum.npz"], ["curriculum.npz", "episodes.csv", "evaluations.csv", "stages.csv"]]
)
def test_a_run_that_has_hardly_begun_has_its_figure(tmp_path: Path, gone: list[str]) -> None:
    folder = write_run(tmp_path / "runs" / "gradient" / "seed-0", returns=[1.0])
    for name in gone:
        (folder / name).unlink()
    check(figures.write_run_figures(folder), ["run.png"])
    check(figures.write_comparison_figures(tmp_path)[:2], ["returns.png", "returns-iqm.png"])


@pytest.mark.parametrize("env", ["maze", "mine"])
def test_a_comparison_in_which_one_method_has_hardly_begun(tmp_path: Path, env: str) -> None:
    write_comparison(tmp_path, {"gradient": {"points": [STARTS]}, "linear": {"method": "linear"}}, 1, env=env, stages=1)
    for name in ("episodes.csv", "evaluations.csv", "stages.csv", "curriculum.npz", "summary.json"):
        (tmp_path / "runs" / "linear" / "seed-0" / name).unlink()
    names = ["returns.png", "returns-iqm.png", "successes.png", "contexts.png"]
    check(figures.write_comparison_figures(tmp_path), names)


def test_contexts_of_one_dimension_are_drawn_on_a_line(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", env="mine", points=[np.arange(5.0)[:, None]], stages=1)
    check(figures.write_run_figures(folder), ["run.png", "contexts.png"])


def test_the_same_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    first = [path.read_bytes() for path in figures.write_run_figures(folder)]
    assert first == [path.read_bytes() for path in figures.write_run_figures(folder)]


def test_tables_and_statistics_need_no_matplotlib() -> None:
    code = "import sys, geodesic.report.tables; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
