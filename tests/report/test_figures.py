from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread

import geodesic as gd
from geodesic import tasks
from geodesic.analysis.paths import StagePath, stage_path
from geodesic.contexts import ContextSpace, Particles
from geodesic.errors import InvalidInput
from geodesic.records import load_comparison, load_run
from geodesic.report import contexts, curves, figures, style
from geodesic.report.contexts import distance_matrix
from geodesic.report.scene import Scene
from geodesic.report.stages import path_summary, progress, stages
from geodesic.runs import plan as plans
from geodesic.runs.plan import CurriculumPlan
from geodesic.tasks import Plot, Task, load
from run_folders import write_comparison, write_run

GRID = np.array([[1, 1, 1, 1], [1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1]])
STARTS = np.array([[1.0, 2.0], [2.0, 1.0], [2.0, 2.0]])
GOALS = ((1, 1),)


def task(space: Any, source: Any, target: Any, **options: Any) -> Task:
    """A task that is never played."""
    facts = {"threshold": 40.0, "name": "mine", "set_context": lambda env, **context: None, **options}
    return Task("CartPole-v1", space, source, target, **facts)


def on_starts(*weights: float) -> Particles:
    return Particles(STARTS, weights)


def line_task(**options: Any) -> Task:
    return task({"pole_length": (0.0, 2.0, "m")}, {"pole_length": 0.5}, {"pole_length": (1.0, 2.0)}, **options)


def plane_task(**options: Any) -> Task:
    sides = {"gate_position": (-1.0, 4.0, "m"), "gate_width": (0.0, 8.0)}
    return task(sides, {"gate_position": 0, "gate_width": 4}, {"gate_position": (2, 3), "gate_width": 4}, **options)


def box_task(d: int, **options: Any) -> Task:
    names = [f"value_{k}" for k in range(d)]
    return task(dict.fromkeys(names, (0.0, 1.0)), dict.fromkeys(names, 0), dict.fromkeys(names, 1), **options)


def support_task(support: Any, **options: Any) -> Task:
    """All mass on the first point of the support, then on the last."""
    points = np.asarray(support, dtype=float)
    ends = [Particles(points, np.eye(len(points))[k]) for k in (0, -1)]
    return task(ContextSpace.discrete(points, ["size", "speed"][: points.shape[1]]), *ends, **options)


def cells_task(**options: Any) -> Task:
    plot = Plot(cells=GRID, goals=GOALS, order=np.array([3.0, 1.0, 2.0]), ordered_by="steps to the goal")
    space = ContextSpace.discrete(STARTS, ["row", "column"])
    return task(space, on_starts(1, 0, 0), on_starts(0, 0, 1), plot=plot, **options)


CELLS = Scene.of_task(cells_task(), [])


def run_of(folder: Path, task: Task, *distributions: Particles, **options: Any) -> Path:
    """A run whose stages trained on these distributions."""
    given = {"points": [d.points for d in distributions], "weights": [d.weights for d in distributions]}
    names = list(task.space.names)
    return write_run(folder, stages=len(distributions), contexts=names, **given, **options)


def plan(task: Task, *path: Particles) -> Figure:
    return contexts.interpolations(
        list(np.linspace(0, 1, len(path))), {"linear": path}, Scene.of_task(task, path), "mine"
    )


def texts(figure: Figure) -> set[str]:
    """Every text of a figure."""
    return {text.get_text() for text in figure.findobj(lambda item: hasattr(item, "get_text"))}


def title(figure: Figure) -> str:
    return figure._suptitle.get_text()  # type: ignore[attr-defined]


def panels(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_visible() and axes.get_label() != "<colorbar>"]


def legend(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def check(paths: list[Path], names: list[str]) -> None:
    assert [path.name for path in paths] == names
    for path in paths:
        height, width, _ = imread(path).shape
        assert min(height, width) > 300


# Contexts: cells, lines, supports, planes


def test_cells_are_shaded_by_their_probability() -> None:
    rows = {"linear": [on_starts(1, 0, 0), on_starts(0.5, 0, 0.5)], "geodesic": [on_starts(1, 0, 0)] * 2}
    scene = Scene.of_task(cells_task(), [on_starts(1, 1, 1)])
    figure = contexts.interpolations([0, 0.5], rows, scene, "mine")
    first, second, third, _ = panels(figure)
    assert {"α = 0", "α = 0.5", "linear", "geodesic", "probability"} <= texts(figure)
    image, other = first.images[0].get_array(), second.images[0].get_array()
    np.testing.assert_array_equal(image, third.images[0].get_array())
    wall, empty, full, half = image[0, 0], image[2, 2], image[1, 2], other[1, 2]
    assert wall[:3].max() < 0.35  # dark
    assert empty[:3].min() > 0.9  # white
    assert full[:3].mean() < half[:3].mean() < empty[:3].mean()  # one scale
    np.testing.assert_array_equal(first.collections[0].get_offsets(), [GOALS[0][::-1]])
    assert title(figure) == "mine: contexts from source to target\nstar: the goal"


def test_cells_show_every_stage(tmp_path: Path) -> None:
    figure = stages(load_run(run_of(tmp_path / "run", cells_task(), *[on_starts(1, 1, 1)] * 8)), CELLS)
    assert len(panels(figure)) == 8
    assert "stage 7, α = 1\nfrom step 875" in texts(figure)
    assert "contexts of each stage" in title(figure)


def test_cells_show_at_most_36_stages_and_say_so(tmp_path: Path) -> None:
    figure = stages(load_run(run_of(tmp_path / "run", cells_task(), *[on_starts(1, 1, 1)] * 50)), CELLS)
    assert len(panels(figure)) == 36
    assert {"stage 0, α = 0\nfrom step 0", "stage 49, α = 1\nfrom step 980"} <= texts(figure)
    assert "contexts of 36 of 50 stages" in title(figure)


def test_contexts_of_one_value_are_a_histogram_of_their_mass() -> None:
    figure = plan(line_task(), Particles([[0.0], [2.0]], [0.25, 0.75]), Particles([[1.05]]))
    first, second = panels(figure)
    fractions = first.patches[0].get_data().values
    assert (len(fractions), fractions[0], fractions[-1], fractions.sum()) == (20, 0.25, 0.75, 1.0)
    assert second.patches[0].get_data().values[10] == 1.0
    assert first.get_xlim() == (0.0, 2.0)
    assert first.get_ylim() == second.get_ylim()
    assert first.get_ylim()[0] == 0
    assert second.get_ylim()[1] > 1.0
    assert {"pole length (m)", "fraction of mass"} <= texts(figure)
    assert title(figure).endswith("\nblack line: the target")


def test_a_discrete_space_of_one_value_has_a_bar_for_each_point() -> None:
    discrete = support_task([[1], [10], [100], [1000]])
    figure = plan(discrete, discrete.source_particles, Particles([[10.0], [1000.0]], [0.9, 0.1]))
    first, second = panels(figure)
    assert [bar.get_height() for bar in second.containers[0]] == [0, 0.9, 0, 0.1]
    assert [bar.get_height() for bar in second.containers[1]] == [0, 0, 0, 1]  # the target
    assert [bar.get_x() + bar.get_width() / 2 for bar in second.containers[0]] == pytest.approx([0, 1, 2, 3])
    assert [label.get_text() for label in first.get_xticklabels()] == ["1", "10", "100", "1000"]
    assert first.get_ylim() == second.get_ylim()
    assert first.get_ylim()[1] >= 1.0
    assert {"size", "fraction of mass"} <= texts(figure)


def test_a_large_support_names_some_of_its_points() -> None:
    discrete = support_task(np.arange(100)[:, None])
    (axes,) = panels(plan(discrete, discrete.source_particles))
    assert 5 <= len(axes.get_xticklabels()) <= 15


def test_a_discrete_plane_has_dots_of_their_mass_on_the_support() -> None:
    discrete = support_task([[0, 0], [0, 1], [1, 0], [1, 1]])
    figure = plan(discrete, Particles(discrete.space.support, [0.75, 0.25, 0, 0]))
    support, dots, rings = panels(figure)[0].collections
    np.testing.assert_array_equal(support.get_offsets(), discrete.space.support)
    np.testing.assert_array_equal(dots.get_offsets(), [[0, 0], [0, 1]])
    assert dots.get_sizes()[0] == pytest.approx(3 * dots.get_sizes()[1])
    np.testing.assert_array_equal(rings.get_offsets(), [[1, 1]])
    assert {"size", "speed"} <= texts(figure)
    assert title(figure).endswith("\nblack rings: the target")


def test_a_plane_has_walls_goals_and_the_target() -> None:
    drawn = plane_task(plot=Plot(walls=((0.0, 1.0, 2.0, 3.0),), goals=((3.0, 7.0),)))
    figure = plan(drawn, drawn.source_particles)
    (axes,) = panels(figure)
    assert axes.patches[0].get_bbox().bounds == (0.0, 1.0, 2.0, 2.0)
    star, target, cloud = axes.collections
    np.testing.assert_array_equal(star.get_offsets(), [[3.0, 7.0]])
    assert len(target.get_offsets()) == len(drawn.target_particles)
    np.testing.assert_array_equal(cloud.get_offsets(), [[0.0, 4.0]])
    assert {"gate position (m)", "gate width"} <= texts(figure)
    assert title(figure).endswith("\nblack crosses: the target; grey boxes: walls; star: the goal")


def test_axes_say_which_values_are_drawn_and_in_which_order() -> None:
    drawn = plane_task(plot=Plot(axes=("gate_width", "gate_position")))
    figure = plan(drawn, drawn.source_particles)
    np.testing.assert_array_equal(panels(figure)[0].collections[-1].get_offsets(), [[4.0, 0.0]])
    assert figure._supxlabel.get_text() == "gate width"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("d", "pairs"), [(3, [(0, 1), (1, 2)]), (4, [(0, 1), (2, 3)]), (5, [(0, 1), (2, 3), (3, 4)])])
def test_more_than_two_values_are_drawn_two_at_a_time(d: int, pairs: list[tuple[int, int]]) -> None:
    context = np.linspace(0.2, 0.8, d)[None]
    figure = plan(box_task(d), Particles(context), Particles(context))
    drawn = panels(figure)
    assert len(drawn) == 2 * len(pairs)
    assert [(axes.get_xlabel(), axes.get_ylabel()) for axes in drawn[::2]] == [
        (f"value {x}", f"value {y}") for x, y in pairs
    ]
    for axes, pair in zip(drawn[::2], pairs):
        np.testing.assert_array_equal(axes.collections[-1].get_offsets(), context[:, list(pair)])
    assert "context values" not in title(figure)


def test_the_title_says_how_many_of_many_values_are_drawn() -> None:
    figure = plan(box_task(12), Particles(np.full((1, 12), 0.5)))
    assert len(panels(figure)) == 4
    assert title(figure).endswith("; 8 of 12 context values")
    one = plan(box_task(3, plot=Plot(axes=("value_2", "value_0"))), Particles([[0.1, 0.2, 0.3]]))
    np.testing.assert_array_equal(panels(one)[0].collections[-1].get_offsets(), [[0.3, 0.1]])
    assert title(one).endswith("; 2 of 3 context values")


def test_projections_join_what_falls_together() -> None:
    figure = plan(box_task(3), Particles([[0.5, 0.5, 0.0], [0.5, 0.5, 1.0]]))
    first, second = panels(figure)
    assert [len(axes.collections[-1].get_offsets()) for axes in (first, second)] == [1, 2]


def test_an_unbounded_space_is_framed_by_its_distributions() -> None:
    endless = task({"x": (-np.inf, np.inf), "y": (0.0, np.inf)}, {"x": 0, "y": 1}, {"x": 4, "y": 1})
    scene = Scene.of_task(endless, [Particles([[-6.0, 3.0]])])
    assert (scene.low.tolist(), scene.high.tolist()) == ([-6.0, 0.0], [4.0, 3.0])


def test_a_scene_refuses_contexts_of_another_task() -> None:
    with pytest.raises(InvalidInput, match="expected contexts of 2 values, as task mine has, got 1"):
        Scene.of_task(plane_task(), [Particles([[1.0]])])
    with pytest.raises(InvalidInput, match=r"expected contexts on the \(4, 4\) cells of task mine, got others"):
        Scene.of_task(cells_task(), [Particles([[1.0, 9.0]])])


def test_contexts_at_five_moments(tmp_path: Path) -> None:
    write_comparison(tmp_path, {"gradient": {}, "uniform": {"method": "uniform", "stages": 1}}, seeds=2)
    runs = load_comparison(tmp_path)
    figure = contexts.moments(runs, Scene.of_task(plane_task(), []))
    assert len(panels(figure)) == 10
    assert {"step 0", "step 250", "step 1k", "gradient", "uniform", "gate position (m)", "gate width"} <= texts(figure)
    drawn = panels(figure)[4].collections[-1].get_offsets()
    assert {tuple(point) for point in drawn} == {tuple(point) for point in runs[0].curriculum[-1].particles.points}


def test_the_last_moment_of_an_unfinished_run_is_its_last_recorded_step(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", reached=500, stages=1)
    (folder / "episodes.csv").unlink()
    shown = texts(contexts.moments([load_run(folder)], Scene.of_task(plane_task(), [])))
    assert {"step 125", "step 500"} <= shown
    assert "step 1k" not in shown


def test_contexts_come_from_the_episodes_where_there_is_no_curriculum(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "curriculum.npz").unlink()
    run = load_run(folder)
    near = contexts.at_moment(run, run.steps)
    assert near is not None
    np.testing.assert_array_equal(np.sort(near.points, axis=0), np.sort(run.episodes.contexts[-50:], axis=0))
    (folder / "episodes.csv").unlink()
    empty = load_run(folder)
    assert contexts.at_moment(empty, run.steps) is None
    assert "nothing yet" in texts(contexts.moments([empty], Scene.of_task(plane_task(), [])))


# Distances


def test_distance_matrix_is_in_the_plots_order() -> None:
    distances = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])
    figure = distance_matrix(distances, cells_task().plot, "distance")
    axes = panels(figure)[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), distances[np.ix_([1, 2, 0], [1, 2, 0])])
    assert axes.get_xlabel() == axes.get_ylabel() == "contexts, ordered by steps to the goal"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "3"]
    assert "Distance between the 3 contexts" in texts(figure)


def test_distance_matrix_without_an_order_is_in_the_supports_order() -> None:
    distances = np.arange(9.0).reshape(3, 3)
    axes = panels(distance_matrix(distances, Plot(), "distance"))[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), distances)
    assert axes.get_xlabel() == "contexts, in the support's order"


# Curves


def comparison(folder: Path, **options: Any) -> Path:
    labels = {"gradient": {}, "gradient:step=0.05": {}, "spdl": {"method": "spdl"}, "own": {"method": "own"}}
    return write_comparison(folder, labels, seeds=2, **options)


def test_mean_curves_show_each_label_the_band_and_the_solved_level(tmp_path: Path) -> None:
    runs = load_comparison(comparison(tmp_path, solved=55.0, returns=[0.0, 20.0] * 11))
    figure = curves.learning_curves(runs, "mean")
    axes = panels(figure)[0]
    assert len(axes.collections) == 4
    labels = [line.get_label() for line in axes.lines]
    assert set(labels) == {f"{run.label} (2 seeds)" for run in runs} | {"solved above 55", "_raw"}
    raw, smooth = axes.lines[:2]
    np.testing.assert_allclose(smooth.get_ydata()[:4], [0, 10, 20 / 3, 40 / 3])  # means of 3
    np.testing.assert_allclose(raw.get_ydata()[:4], [0, 20, 0, 20])
    assert (raw.get_label(), raw.get_linestyle()) == ("_raw", "None")
    assert raw.get_zorder() < smooth.get_zorder()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("environment steps", "return on the target")


def test_curves_explain_smoothing_and_bands(tmp_path: Path) -> None:
    runs = load_comparison(write_comparison(tmp_path, {"gradient": {"returns": [0.0] * 30}}, seeds=10))
    smoothed = "\nlines: rolling mean of 10 evaluations; points: before smoothing"
    for statistic, count, words in (
        ("mean", 10, "mean over seeds; band: standard deviation"),
        ("iqm", 10, "interquartile mean over seeds; band: 95 % interval"),
        ("iqm", 9, "interquartile mean over seeds; band: range (too few seeds for an interval)"),
    ):
        assert (
            panels(curves.learning_curves(runs[:count], statistic))[0].get_title(loc="left")
            == f"mine: {words}{smoothed}"
        )


def test_success_curves_have_no_level_and_unfinished_runs_are_counted(tmp_path: Path) -> None:
    runs = load_comparison(comparison(tmp_path, reached=750))
    axes = panels(curves.learning_curves(runs, "iqm", "successes"))[0]
    assert axes.get_ylabel() == "success rate on the target"
    assert "gradient (2 seeds, 2 unfinished)" in [line.get_label() for line in axes.lines]
    assert not any(line.get_label().startswith("solved") for line in axes.lines)


@pytest.mark.parametrize(
    ("score", "words"), [("return", "return"), ("discounted_return", "discounted return"), ("success", "success rate")]
)
def test_axes_name_the_score_of_the_task(tmp_path: Path, score: str, words: str) -> None:
    run = load_run(write_run(tmp_path / "run", score=score))
    assert panels(curves.learning_curves([run], "mean"))[0].get_ylabel() == f"{words} on the target"
    training, target, _ = panels(curves.single_run(run))
    assert (training.get_ylabel(), target.get_ylabel()) == (f"{words} in training", f"{words} on the target")
    np.testing.assert_array_equal(target.lines[0].get_ydata(), run.evaluations.scores)


def test_a_method_keeps_its_colour_and_its_variants_differ(tmp_path: Path) -> None:
    runs = load_comparison(comparison(tmp_path))
    styles = style.styles_of(runs)
    alone = style.styles_of([run for run in runs if run.method == "spdl"])
    assert styles["spdl"] == alone["spdl"]
    variants = [styles[run.label] for run in runs if run.method == "gradient"]
    assert len({own.line for own in variants}) > 1
    for own in variants:  # a colour does not change with a method's options
        assert own.colour == "#d55e00"
    assert len({(own.colour, str(own.line)) for own in styles.values()}) == 4


def test_methods_have_different_colours() -> None:
    names = list(gd.curricula.REGISTRY)
    colours = {style.colour_of(name) for name in names}
    assert len(colours) == len(names)
    assert style.OTHER not in colours


def test_a_learned_metric_gives_gradient_its_colour() -> None:
    assert style.colour_of("gradient", "embedding") == "#8e6bbf"
    assert style.colour_of("linear", "embedding") == style.colour_of("linear")
    assert style.colour_of("gradient", "l2") == style.colour_of("gradient")


def test_a_reference_from_a_file_has_the_neutral_colour_and_is_not_imported(tmp_path: Path) -> None:
    module = tmp_path / "theirs.py"
    module.write_text("raise SystemExit('imported')")
    assert style.colour_of(f"{module}:Method", f"{module}:Metric") == style.OTHER


def test_drawing_leaves_the_callers_settings_alone(tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    curves.single_run(load_run(write_run(tmp_path / "run")))
    assert dict(matplotlib.rcParams) == before


def marks(axes: Axes) -> dict[str, list[float]]:
    """The steps that are marked, by their legend entry."""
    return {
        str(line.get_label()): list(line.get_xdata())
        for line in axes.lines
        if str(line.get_label()).startswith("next stage")
    }


def test_single_run_shows_training_target_and_alpha(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", solved=55.0, returns=[0.0, 20.0, 50.0] * 10)
    training, target, alpha = panels(curves.single_run(load_run(folder)))
    assert [axes.get_ylabel() for axes in (training, target, alpha)] == [
        "return in training",
        "return on the target",
        "α of the stage",
    ]
    assert "mastered above 40" in legend(training)
    assert "solved above 55" in legend(target)
    assert "rolling mean of 20 episodes" in legend(training)
    assert "rolling mean of 10 evaluations" in legend(target)
    assert alpha.lines[0].get_ydata().tolist() == [0.0, 0.5, 1.0, 1.0]


def test_single_run_shows_the_shares_of_a_mixture(tmp_path: Path) -> None:
    details = [f"share of path={1 - x}; share of target={x}; score on path=3" for x in (0.25, 0.5, 1)]
    *_, alpha, shares = panels(curves.single_run(load_run(write_run(tmp_path / "run", details=details))))
    assert alpha.get_ylabel() == "α of the stage"
    assert [text.get_text() for text in shares.get_legend().get_texts()] == ["target", "path"]
    heights = [sorted({round(y, 2) for y in part.get_paths()[0].vertices[:, 1]}) for part in shares.collections]
    assert heights == [[0.0, 0.5, 0.75], [0.0, 0.5, 0.75, 1.0]]


def test_single_run_distinguishes_mastered_stages_from_those_at_the_step_cap(tmp_path: Path) -> None:
    why = ["start", "mastered", "step cap", "mastered", "iteration 4"]
    points = [np.zeros((2, 2))] * 5
    _, target, _ = panels(curves.single_run(load_run(write_run(tmp_path / "run", stages=5, events=why, points=points))))
    assert marks(target) == {
        "next stage: mastered": [200, 600],
        "next stage: step cap": [400],
        "next stage": [800],
    }
    assert set(marks(target)) <= set(legend(target))
    shapes = {line.get_marker() for line in target.lines if str(line.get_label()).startswith("next stage")}
    assert len(shapes) == 3


def test_single_run_shades_exploration(tmp_path: Path) -> None:
    kinds, events = ["train", "explore", "train"], ["start", "mastered", "mastered"]
    run = load_run(write_run(tmp_path / "run", kinds=kinds, events=events))
    _, target, _ = panels(curves.single_run(run))
    band = target.patches[0]
    assert (band.get_x(), band.get_x() + band.get_width()) == (333, 666)
    assert legend(target).count("exploring") == 1
    assert marks(target) == {"next stage: mastered": [666]}


# Stages, progress and paths


def refitted_run(folder: Path, label: str = "gradient", d: int = 2, **options: Any) -> Path:
    rng = np.random.default_rng(0)
    clouds = [rng.uniform(-1, 1, (30, d)) + 4 * k for k in range(3)]
    places = np.linspace(-2, 10, 40)
    picture = {
        "heat": np.tile(places, (40, 1)),
        "heat_x": places,
        "heat_y": places,
        "potential": rng.uniform(0, 8, (11, 30, d)),
    }
    given = {"infeasible": [0.0, 0.5, 0.0], "snapshots": {1: picture, 2: picture}, **options}
    return write_run(
        folder, label=label, metric="embedding", threshold=0.5, returns=[-1.0, 0.0, 0.9], points=clouds, **given
    )


def room(d: int = 2, **plot: Any) -> Task:
    sides = dict(zip(["goal_x", "goal_y", "goal_z"], [(-2.0, 10.0)] * d))
    ends = [dict.fromkeys(sides, value) for value in (0, 8)]
    return task(sides, *ends, plot=Plot(**plot))


WALLS = ((-2.0, 2.0, 6.0, 6.0),)
NONE = np.zeros((0, 2, 1))  # examples of a plan


def test_stages_show_returns_path_choice_and_wall(tmp_path: Path) -> None:
    run = load_run(refitted_run(tmp_path / "run"))
    figure = stages(run, Scene.of_task(room(walls=WALLS), []))
    first, second, _ = panels(figure)
    assert len(first.collections) == 1  # no snapshot of the first stage: its contexts alone
    assert len(second.collections) == 1 + 11 + 1  # heat, eleven alphas, the choice
    assert second.collections[0].get_array().shape == (40, 40)
    chosen = second.collections[-1].get_offsets()
    assert {tuple(point) for point in chosen} == {tuple(point) for point in run.curriculum[1].particles.points}
    assert second.patches[0].get_bbox().bounds == (-2.0, 2.0, 8.0, 4.0)
    assert second.collections[0].zorder < second.patches[0].zorder < second.collections[1].zorder
    assert {"modelled score", "α of the possible path", "contexts trained on", "wall", "goal x"} <= texts(figure)


def moving_run(folder: Path, particles: int = 30) -> Path:
    """Three stages: no particle has moved; half of the mass is at a quarter of its path; all but one have arrived."""
    rng = np.random.default_rng(0)
    clouds = [rng.uniform(0, 4, (30, 2)) for _ in range(3)]
    mass = np.full(particles, 1 / particles)
    half, most = np.repeat([0.0, 0.26], particles // 2), np.append(np.ones(particles - 1), 0.5)
    shown = {1: {"progress": half, "mass": mass}, 2: {"progress": most, "mass": mass}}
    return write_run(folder, label="gradient:pace=particles", returns=[-1.0, 0.0, 0.9], points=clouds, snapshots=shown)


def test_progress_is_drawn_over_time_and_in_the_plane(tmp_path: Path) -> None:
    run = load_run(moving_run(tmp_path / "run"))
    figure = progress(run, Scene.of_task(room(walls=WALLS), []))
    over_time, first, second = panels(figure)
    fractions = over_time.collections[0].get_array().reshape(20, 3)
    np.testing.assert_allclose(fractions.sum(axis=0), 1.0)
    np.testing.assert_allclose(fractions[[0, 0, 5, 10, 19], [0, 1, 1, 2, 2]], [1.0, 0.5, 0.5, 1 / 30, 29 / 30])
    for axes, stage in ((first, run.curriculum[1]), (second, run.curriculum[2])):
        np.testing.assert_array_equal(axes.collections[-1].get_offsets(), stage.particles.points)
        np.testing.assert_array_equal(axes.collections[-1].get_array(), stage.snapshot["progress"])
    assert {"fraction of mass", "progress", "goal x"} <= texts(figure)
    assert title(figure).endswith("gradient:pace=particles, seed 0: progress of each particle")


def test_progress_of_particles_that_are_not_points_of_the_plane_is_drawn_over_time_only(tmp_path: Path) -> None:
    run = moving_run(tmp_path / "run", particles=8)
    assert len(panels(progress(load_run(run), Scene.of_task(room(), [])))) == 1
    check(figures.write_run_figures(run, room()), ["run.png", "progress.png", "contexts.png"])


def test_stages_follow_the_axes_of_the_drawing(tmp_path: Path) -> None:
    run = load_run(refitted_run(tmp_path / "run"))
    _, second, _ = panels(stages(run, Scene.of_task(room(axes=("goal_y", "goal_x")), [])))
    np.testing.assert_array_equal(second.collections[0].get_array(), run.curriculum[1].snapshot["heat"].T)
    drawn = {tuple(point) for point in second.collections[-1].get_offsets()}
    assert drawn == {tuple(point[::-1]) for point in run.curriculum[1].particles.points}
    assert second.get_xlabel() == "goal y"


def test_stages_omit_a_model_of_other_values(tmp_path: Path) -> None:
    run = load_run(refitted_run(tmp_path / "run", d=3))
    figure = stages(run, Scene.of_task(room(3, axes=("goal_x", "goal_z")), []))
    assert len(panels(figure)[1].collections) == 11 + 1
    other = stages(run, Scene.of_task(room(3, axes=("goal_x", "goal_y")), []))
    assert "modelled score, other values at their middle" in texts(other)


def test_path_summary_draws_each_label(tmp_path: Path) -> None:
    runs = [load_run(refitted_run(tmp_path / f"{label}-{seed}", label, seed=seed)) for label in "ab" for seed in (0, 1)]
    paths = {label: [stage_path(run) for run in runs if run.label == label] for label in "ab"}
    figure = path_summary(runs, paths)
    feasible, _, speed = panels(figure)
    assert [len(axes.lines) for axes in (feasible, speed)] == [6, 6]  # two seeds and their mean, twice
    mean = next(line for line in feasible.lines if line.get_label() == "a")
    np.testing.assert_allclose(mean.get_ydata(), [1, 0.5, 1])
    assert speed.lines[0].get_xdata().tolist() == [0.5, 1.0]  # the first stage has no speed


def test_paths_that_go_back_have_no_mean(tmp_path: Path) -> None:
    runs = [load_run(write_run(tmp_path / str(seed), label="spdl", seed=seed)) for seed in (0, 1)]
    alphas, ones = np.array([0.0, 0.6, 0.4, 1.0]), np.ones(4)
    back = StagePath(alphas, feasible=ones, lengths=np.arange(4.0), speeds=ones)
    _, lengths, _ = panels(path_summary(runs, {"spdl": [back, back]}))
    assert [line.get_xdata().tolist() for line in lengths.lines] == [alphas.tolist()] * 2
    assert [line.get_label() for line in lengths.lines] == ["spdl", "_"]


# Folders

CURVES = ["returns.png", "returns-iqm.png", "successes.png"]


def test_folders_with_contexts_in_a_plane_get_their_figures(tmp_path: Path) -> None:
    folder = comparison(tmp_path)
    check(figures.write_comparison_figures(folder, plane_task()), [*CURVES, "contexts.png"])
    check(figures.write_run_figures(folder / "runs" / "gradient" / "seed-0", plane_task()), ["run.png", "contexts.png"])


def test_folders_with_cells_get_their_figures(tmp_path: Path) -> None:
    drawn = cells_task()
    source, target = drawn.source_particles, drawn.target_particles
    run = run_of(tmp_path / "runs" / "gradient" / "seed-0", drawn, source, target, infeasible=[0.5, 0.0])
    check(figures.write_comparison_figures(tmp_path, drawn), [*CURVES, "contexts.png"])  # cells have no paths.png
    check(figures.write_run_figures(run, drawn), ["run.png", "stages.png"])
    distances = np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    made = CurriculumPlan(drawn, "steps", (0, 1), {"linear": [source, target]}, 1.0, 0.0, distances, (), (), None, NONE)
    check(figures.write_plan_figures(tmp_path, made), ["plan.png", "distances.png"])


def test_folders_of_a_refitted_metric_get_their_figures(tmp_path: Path) -> None:
    drawn = room(walls=WALLS)
    learned = refitted_run(tmp_path / "runs" / "gradient" / "seed-0")
    straight = write_run(tmp_path / "runs" / "uniform" / "seed-0", method="uniform", stages=1)
    check(figures.write_comparison_figures(tmp_path, drawn), [*CURVES, "contexts.png", "paths.png"])
    check(figures.write_run_figures(learned, drawn), ["run.png", "stages.png"])
    check(figures.write_run_figures(straight, drawn), ["run.png", "stages.png"])  # over the walls
    check(figures.write_run_figures(straight, room()), ["run.png", "contexts.png"])
    check(figures.write_run_figures(learned, room()), ["run.png", "stages.png"])  # pictures without walls


@pytest.mark.parametrize("d", [1, 3])
def test_paths_are_drawn_in_any_dimension_and_stages_in_a_plane(tmp_path: Path, d: int) -> None:
    run = refitted_run(tmp_path / "runs" / "gradient" / "seed-0", d=d)
    check(figures.write_comparison_figures(tmp_path, room(d)), [*CURVES, "contexts.png", "paths.png"])
    check(figures.write_run_figures(run, room(d)), ["run.png", "contexts.png"])


@pytest.mark.parametrize(
    ("options", "drawn"),
    [
        ({"snapshots": {}, "infeasible": [0.0, 0.0, 0.0]}, False),
        ({"snapshots": {}}, True),
        ({"infeasible": [0.0, 0.0, 0.0]}, True),
        ({"kinds": ["train", "explore", "explore"]}, False),  # one stage on the way
        ({"alphas": [0.0, 0.0, 0.0]}, False),  # samples drawn afresh: no path
    ],
)
def test_paths_are_drawn_only_if_informative(tmp_path: Path, options: dict[str, Any], drawn: bool) -> None:
    refitted_run(tmp_path / "runs" / "gradient" / "seed-0", **options)
    names = [path.name for path in figures.write_comparison_figures(tmp_path)]
    assert ("paths.png" in names) == drawn


@pytest.mark.parametrize(
    "drawn",
    [line_task(), support_task([[1], [2], [5]]), support_task([[1, 2], [3, 4], [5, 6]]), box_task(3), box_task(12)],
    ids=["line", "support", "plane of a support", "three values", "twelve values"],
)
def test_every_kind_of_contexts_has_its_figures(tmp_path: Path, drawn: Task) -> None:
    source, target = drawn.source_particles, drawn.target_particles
    run = run_of(tmp_path / "runs" / "gradient" / "seed-0", drawn, source, target)
    check(figures.write_run_figures(run, drawn), ["run.png", "contexts.png"])
    check(figures.write_comparison_figures(tmp_path, drawn), [*CURVES, "contexts.png"])
    made = CurriculumPlan(drawn, "l2", (0, 1), {"gradient (l2)": [source, target]}, 1.0, 0.0, None, (), (), None, NONE)
    check(figures.write_plan_figures(tmp_path, made), ["plan.png"])


def test_contexts_with_pictures_are_drawn_on_their_way(tmp_path: Path) -> None:
    made = plans.plan(load("levels"), (0.0, 0.5, 1.0))
    check(figures.write_plan_figures(tmp_path, made), ["plan.png", "pictures.png"])
    drawn = contexts.pictures(made.alphas, made.examples, made.task.plot.picture, "a title")
    assert [axes.get_title() for axes in drawn.axes[:3]] == ["α = 0", "α = 0.5", "α = 1"]
    assert len(drawn.axes) == 9
    for axes, context in zip(drawn.axes, made.examples.reshape(9, -1)):
        np.testing.assert_array_equal(axes.images[0].get_array(), made.task.plot.picture(context))


def test_successes_are_not_drawn_twice(tmp_path: Path) -> None:
    folder = comparison(tmp_path, score="success")
    check(figures.write_comparison_figures(folder), ["returns.png", "returns-iqm.png", "contexts.png"])


# Without a task


def drawn_scene(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Scene:
    """The scene of a run's figures without a given task."""
    seen: list[Scene] = []
    monkeypatch.setattr(contexts, "moments", lambda runs, scene, at: seen.append(scene) or curves.single_run(runs[0]))
    figures.write_run_figures(folder)
    return seen[0]


def test_a_run_names_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = drawn_scene(monkeypatch, write_run(tmp_path / "run", task="point-mass"))
    known = tasks.load("point-mass")
    assert scene.space.labels == known.space.labels
    assert scene.low.tolist() == known.space.low.tolist()
    assert scene.target == known.target_particles


@pytest.mark.parametrize(
    "options",
    [
        {"task": "point-mass"},
        {"task": "nowhere.to:be_found"},
        {"task": "maze"},  # the contexts are not on its cells
    ],
)
def test_without_its_task_a_run_is_framed_by_its_contexts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    clouds = [np.array([[0.0, -5.0], [1.0, 20.0]])]
    folder = write_run(tmp_path / "run", contexts=["pole_length", "1"], points=clouds, stages=1, **options)
    if options["task"] == "point-mass":  # the name of an object may be that of anything
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "objects": {"task": "0123"}}))
    scene = drawn_scene(monkeypatch, folder)
    assert scene.space.labels == ("pole length", "context 1")
    assert (scene.low.tolist(), scene.high.tolist()) == ([0.0, -5.0], [1.0, 20.0])
    assert scene.target is None


def test_a_task_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="expected contexts of 1 values, as task mine has, got 2"):
        figures.write_run_figures(write_run(tmp_path / "run"), line_task())


@pytest.mark.parametrize("d", [1, 2, 3])
def test_folders_without_a_task_get_their_figures(tmp_path: Path, d: int) -> None:
    folder = write_run(tmp_path / "runs" / "gradient" / "seed-0", points=[np.zeros((5, d)), np.eye(5, d)], stages=2)
    check(figures.write_run_figures(folder), ["run.png", "contexts.png"])
    check(figures.write_comparison_figures(tmp_path), [*CURVES, "contexts.png"])


@pytest.mark.parametrize(
    "gone", [["curriculum.npz"], ["curriculum.npz", "episodes.csv", "evaluations.csv", "stages.csv"]]
)
def test_a_run_that_has_just_started_has_its_figure(tmp_path: Path, gone: list[str]) -> None:
    folder = write_run(tmp_path / "runs" / "gradient" / "seed-0", returns=[1.0])
    for name in gone:
        (folder / name).unlink()
    check(figures.write_run_figures(folder), ["run.png"])
    check(figures.write_comparison_figures(tmp_path)[:2], ["returns.png", "returns-iqm.png"])


@pytest.mark.parametrize("drawn", [cells_task(), None], ids=["cells", "no task"])
def test_a_comparison_in_which_one_method_has_just_started(tmp_path: Path, drawn: Task | None) -> None:
    write_comparison(tmp_path, {"gradient": {}, "linear": {"method": "linear"}}, 1, points=[STARTS], stages=1)
    for name in ("episodes.csv", "evaluations.csv", "stages.csv", "curriculum.npz", "summary.json"):
        (tmp_path / "runs" / "linear" / "seed-0" / name).unlink()
    check(figures.write_comparison_figures(tmp_path, drawn), [*CURVES, "contexts.png"])


def test_the_same_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    first = [path.read_bytes() for path in figures.write_run_figures(folder)]
    assert first == [path.read_bytes() for path in figures.write_run_figures(folder)]


NAMES = "$\\frac{a}$ $b_$ {"


def test_names_and_units_are_drawn_as_they_are(tmp_path: Path) -> None:
    """Signs that matplotlib would take for mathematics, or fail on, come from anyone's folder or task."""
    given = task({NAMES: (0.0, 2.0, "$m^")}, {NAMES: 0.5}, {NAMES: (1.0, 2.0)}, name=NAMES)
    write_comparison(
        tmp_path, {NAMES: {"method": "gradient"}}, contexts=[NAMES], points=[np.ones((3, 1))] * 3, task=NAMES
    )
    (returns, *_) = figures.write_comparison_figures(tmp_path, given, ["svg"])
    assert NAMES in returns.with_suffix(".svg").read_text()
    moments = tmp_path / "figures" / "contexts.svg"
    assert f"{NAMES} ($m^)".replace("_", " ") in moments.read_text()


def test_tables_and_statistics_need_no_matplotlib() -> None:
    code = "import sys, geodesic.report.tables, geodesic.report.text; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("label", ["".join(map(chr, range(0x4E00, 0x4E40))), "W" * 255])
def test_names_that_a_figure_cannot_show_cause_no_warnings(tmp_path: Path, label: str) -> None:
    """There would be one for each character and format, and a warning fails a test."""
    write_comparison(tmp_path, {label: {}}, seeds=2)
    assert figures.write_comparison_figures(tmp_path, also=("svg",))
