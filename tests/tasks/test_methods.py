"""Methods on a task: parsed, completed with the task's defaults, and built."""

import numpy as np
import pytest
from problems import walk

import geodesic as gd
from extras import each
from geodesic.curricula import REGISTRY, Curriculum, options_of
from geodesic.errors import InvalidInput
from geodesic.metrics import Euclidean, Matrix
from geodesic.tasks import catalogue
from geodesic.tasks.methods import build, expand, parse, problem, resolve


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("gradient", "gradient", {}),
        ("gradient:step=0.05:window=10", "gradient", {"step": 0.05, "window": 10}),
        ("gradient:step=1e-1", "gradient", {"step": 0.1}),
        ("gradient:step=.5", "gradient", {"step": 0.5}),
        ("spdl:std_lower_bound=[0.2, 0.1]", "spdl", {"std_lower_bound": [0.2, 0.1]}),
        ("x:flag=true:word=high:file=a/b.txt", "x", {"flag": True, "word": "high", "file": "a/b.txt"}),
        ("x:equation=a=b", "x", {"equation": "a=b"}),
    ],
)
def test_a_method_is_a_name_and_options(text, name, options):
    got = parse(text)
    assert got == (name, options)
    assert [type(value) for value in got[1].values()] == [type(value) for value in options.values()]


@pytest.mark.parametrize("text", ["gradient:step", "gradient:=0.1", "gradient:step=", "gradient:"])
def test_an_option_without_a_name_or_value_is_refused(text):
    with pytest.raises(InvalidInput) as caught:
        parse(text)
    assert str(caught.value) == f"expected a method as name:option=value, got {text!r}"


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("gradient", ["gradient"]),
        ("gradient:step=0.1|0.2", ["gradient:step=0.1", "gradient:step=0.2"]),
        ("x:a=1|2:b=3:c=u|v", ["x:a=1:b=3:c=u", "x:a=1:b=3:c=v", "x:a=2:b=3:c=u", "x:a=2:b=3:c=v"]),
        (
            "file.py:Mine:pace=other.py:Pace:a=1|2",
            ["file.py:Mine:pace=other.py:Pace:a=1", "file.py:Mine:pace=other.py:Pace:a=2"],
        ),
    ],
)
def test_a_grid_stands_for_the_product_of_its_values(text, expanded):
    assert expand(text) == expanded


@pytest.mark.parametrize("text", ["gradient:step=0.1|", "gradient:step=|0.1", "gradient:step=0.1||0.2"])
def test_a_grid_with_an_empty_value_is_refused(text):
    with pytest.raises(InvalidInput, match=r"expected a value on both sides of each \|"):
        expand(text)


def test_a_value_that_is_no_string_is_refused():
    with pytest.raises(InvalidInput) as caught:
        parse(3, "a task")
    assert str(caught.value) == "expected a task as name:option=value, got 3"


TASK = walk(
    worst_return=-200.0,
    metrics={"plain": Euclidean()},
    training=gd.TrainingSettings(methods={"gradient": {"step": 0.25, "window": 5}, "uniform": {"particles": 7}}),
)


@pytest.mark.parametrize(
    ("method", "metric", "resolved"),
    [
        ("gradient", None, ("gradient", {"step": 0.25, "window": 5}, "plain")),
        ("gradient:step=0.5", None, ("gradient", {"step": 0.5, "window": 5}, "plain")),
        ("gradient", "l2", ("gradient", {"step": 0.25, "window": 5}, "l2")),
        ("gradient:metric=embedding", None, ("gradient", {"step": 0.25, "window": 5}, "embedding")),
        ("gradient:metric=l2", "l2", ("gradient", {"step": 0.25, "window": 5}, "l2")),
        ("uniform", None, ("uniform", {"particles": 7}, None)),
        ("linear:step=0.5", None, ("linear", {"step": 0.5}, None)),
    ],
)
def test_options_of_the_method_win_over_those_of_the_task(method, metric, resolved):
    assert resolve(TASK, method, metric) == resolved


TABLES = walk(
    worst_return=-200.0,
    training=gd.TrainingSettings(
        methods={
            "gradient:pace=particles:stride=2": {"bandwidth": 0.3},
            "gradient:pace=particles": {"threshold": -60.0, "window": 9, "bandwidth": 0.2},
            "gradient": {"window": 5},
            "gradient:metric=embedding": {"explore_steps": 77},
            "linear:pace=particles": {"window": 1},
        }
    ),
)
PARTICLES = {"window": 9, "threshold": -60.0, "bandwidth": 0.2, "pace": "particles"}


@pytest.mark.parametrize(
    ("method", "metric", "threshold", "options"),
    [
        ("gradient", None, None, {"window": 5}),
        ("gradient:pace=fixed", None, None, {"window": 5, "pace": "fixed"}),
        ("gradient:pace=particles", None, None, PARTICLES),
        ("gradient:pace=particles:window=3", None, None, {**PARTICLES, "window": 3}),
        ("gradient:pace=particles", None, -50.0, {key: PARTICLES[key] for key in ("window", "bandwidth", "pace")}),
        ("gradient:stride=2:pace=particles", None, None, {**PARTICLES, "stride": 2, "bandwidth": 0.3}),
        ("gradient:metric=embedding", None, None, {"window": 5, "explore_steps": 77}),
        ("gradient", "embedding", None, {"window": 5, "explore_steps": 77}),
        ("linear", None, None, {}),
    ],
)
def test_a_task_may_have_options_for_a_method_with_options(method, metric, threshold, options):
    assert resolve(TABLES, method, metric, threshold)[1] == options


def test_a_tasks_defaults_for_another_pace_are_left_out():
    task = walk(training=gd.TrainingSettings(methods={"gradient": {"step": 0.2, "max_stage_steps": 9, "wrong": 1}}))
    assert resolve(task, "gradient:pace=adaptive")[1] == {"pace": "adaptive", "wrong": 1}
    assert resolve(task, "gradient:pace=particles")[1] == {
        "pace": "particles",
        "step": 0.2,
        "max_stage_steps": 9,
        "wrong": 1,
    }
    assert resolve(task, "gradient:pace=adaptive:step=0.5")[1] == {"pace": "adaptive", "step": 0.5, "wrong": 1}
    with pytest.raises(InvalidInput, match="got 'step'"):
        build(TASK, *resolve(TASK, "gradient:pace=adaptive:step=0.5"), threshold=-40.0)
    assert build(TASK, *resolve(TASK, "gradient:pace=adaptive"), threshold=-40.0).pace == gd.AdaptivePace(window=5)
    with pytest.raises(InvalidInput, match="got 'wrong'"):
        build(task, *resolve(task, "gradient"), threshold=-40.0)


def test_in_the_mazes_the_per_particle_threshold_is_currots():
    for name in ("maze", "e-maze"):
        task = catalogue.load(name)
        thresholds = [resolve(task, method)[1]["threshold"] for method in ("gradient:pace=particles", "currot")]
        assert thresholds[0] == thresholds[1] < task.threshold
        assert "threshold" not in resolve(task, "gradient")[1]


CELLS = [[0.0], [1.0], [2.0]]
DISCRETE = walk(
    contexts=gd.ContextSpace.discrete(CELLS, ("place",)),
    source=gd.Particles.categorical([1.0, 0.0, 0.0], CELLS),
    target=gd.Particles.categorical([0.0, 0.0, 1.0], CELLS),
    name="cells",
)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda: resolve(TASK, "uniform", "l2"),
            "expected a method that uses a metric (auto, gradient), got uniform with metric l2",
        ),
        (
            lambda: resolve(TASK, "linear:metric=l2"),
            "expected a method that uses a metric (auto, gradient), got linear with metric l2",
        ),
        (
            lambda: resolve(TASK, "gradient:metric=l2", "plain"),
            "expected one metric, got 'plain' and 'gradient:metric=l2'",
        ),
        (
            lambda: resolve(TASK, "gradient", "graph"),
            "expected metric of Walk to be one of plain, l2, embedding, return-lift, practice, embedding-raw; "
            "got 'graph'",
        ),
        (
            lambda: resolve(walk(name="walk"), "gradient:metric=return-lift"),
            "expected worst_return= in task walk for the learned metric return-lift",
        ),
        (
            lambda: resolve(DISCRETE, "gradient"),
            "expected metrics= on the discrete contexts of cells, such as {'steps': geodesic.metrics.Graph(...)}: "
            "no distance is known between them",
        ),
        (
            lambda: resolve(TASK, "nonsense"),
            f"expected method to be one of {', '.join(REGISTRY)}; got 'nonsense'",
        ),
        (
            lambda: build(TASK, *resolve(TASK, "gradient:stepp=0.1"), threshold=-40.0),
            f"expected an option of Gradient ({', '.join(options_of('gradient', stepp=0.1))}), got 'stepp'",
        ),
        (
            lambda: build(walk(), *resolve(walk(), "spdl"), threshold=-40.0),
            "expected worst_return= in task Walk for the method spdl",
        ),
        (
            lambda: build(walk(score="success", threshold=0.5), "uniform", {}, None, threshold=1.5),
            "expected a threshold that the target can reach (below 1), got 1.5",
        ),
    ],
)
def test_invalid_methods_are_refused(ask, message):
    with pytest.raises(InvalidInput) as caught:
        ask()
    assert str(caught.value) == message


def test_methods_without_a_metric_need_none_on_discrete_contexts():
    for method in ("linear", "uniform", "target-only"):
        state = build(DISCRETE, *resolve(DISCRETE, method), threshold=-40.0).init(np.random.default_rng(0))
        assert DISCRETE.space.contains(state.distribution.points).all()


@pytest.mark.parametrize("name", each(catalogue.BUILT_IN))
def test_every_method_is_built_on_every_built_in_task(name):
    task = catalogue.load(name)
    for method in REGISTRY:
        made = build(task, *resolve(task, method), threshold=task.threshold)
        assert isinstance(made, Curriculum)
        if hasattr(made, "threshold"):
            assert made.threshold == task.training.methods.get(method, {}).get("threshold", task.threshold)


@pytest.mark.parametrize("name", each(catalogue.BUILT_IN))
def test_the_tables_of_built_in_tasks_name_existing_metrics_and_methods(name):
    task = catalogue.load(name)
    for metric in task.metric_names:
        assert build(task, *resolve(task, "gradient", metric), threshold=task.threshold).metric is not None
    for method in task.training.compare:
        state = build(task, *resolve(task, method), threshold=task.threshold).init(np.random.default_rng(0))
        assert state.stage == 0


def test_a_problem_has_the_facts_of_the_task_and_the_threshold_of_the_run():
    stated = problem(TASK, "return-lift", -30.0)
    assert stated.source is TASK.source_particles
    assert stated.target is TASK.target_particles
    assert (stated.space, stated.threshold, stated.worst_return) == (TASK.space, -30.0, -200.0)
    assert stated.metric.threshold == -30.0
    assert stated.score == "return"
    assert problem(walk(score="success", threshold=0.5), None, 0.5).score == "success"
    assert problem(TASK, None, -30.0).metric is None
    assert problem(walk(), "l2", -30.0).worst_return == 0.0
    moments = (np.zeros(1), np.eye(1))
    assert problem(walk(source_moments=moments), "l2", -30.0).source_moments is moments


def test_a_worst_return_may_be_an_option_of_the_method():
    built = build(walk(), *resolve(walk(), "spdl:worst_return=-50"), threshold=-40.0)
    assert built.worst_return == -50


def test_a_metric_of_the_task_reaches_the_curriculum():
    steps = Matrix([[0, 1, 2], [1, 0, 1], [2, 1, 0]], CELLS)
    task = walk(contexts=DISCRETE.contexts, source=DISCRETE.source, target=DISCRETE.target, metrics={"steps": steps})
    built = build(task, *resolve(task, "gradient"), threshold=-40.0)
    assert built.metric is steps
    np.testing.assert_allclose(built.path(0.5).weights, [0, 1, 0])


class Mine(gd.curricula.Uniform):
    """A method of a user."""


def test_a_reference_is_parsed_with_its_options(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert parse("mine.py:Mine") == ("mine.py:Mine", {})
    assert parse("a/mine.py:Mine:rate=3:word=high") == ("a/mine.py:Mine", {"rate": 3, "word": "high"})
    assert parse("package.module:Name:rate=3") == ("package.module:Name", {"rate": 3})
    assert parse("mine:Mine:rate=3") == ("mine:Mine", {"rate": 3})
    assert parse("gradient:metric=mine.py:Metric:step=0.5") == ("gradient", {"metric": "mine.py:Metric", "step": 0.5})
    assert parse("gradient:metric=pkg.metrics:Metric") == ("gradient", {"metric": "pkg.metrics:Metric"})


def test_a_reference_resolves_to_its_whole_path_and_is_built(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("import geodesic as gd\nclass Mine(gd.curricula.Uniform):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    name, options, metric = resolve(TASK, "mine.py:Mine:particles=3")
    assert (name, options, metric) == (f"{tmp_path / 'mine.py'}:Mine", {"particles": 3}, None)
    built = build(TASK, name, options, metric, threshold=-40.0)
    assert (type(built).__name__, built.particles) == ("Mine", 3)
    with pytest.raises(InvalidInput, match="expected mine.py to have 'Other', found none; it has Mine"):
        resolve(TASK, "mine.py:Other")


def test_an_object_or_a_function_is_a_method():
    curriculum = Mine(TASK.space)
    assert resolve(TASK, curriculum) == ("Mine", {}, None)
    assert resolve(TASK, lambda problem: curriculum)[1:] == ({}, "plain")
    assert resolve(TASK, Mine) == ("Mine", {}, None)
    assert resolve(TASK, Mine.from_problem, "l2") == ("Curriculum.from_problem", {}, "l2")
    with pytest.raises(InvalidInput, match="got metric= as well"):
        resolve(TASK, curriculum, "l2")
    with pytest.raises(InvalidInput, match="expected a method as a name, a Curriculum or a function, got 3"):
        resolve(TASK, 3)


def gradient_of(problem):
    return gd.Gradient(problem.source, problem.target, problem.metric)


@pytest.mark.parametrize("method", [gd.Gradient, gradient_of, lambda problem: gradient_of(problem)])
def test_a_class_or_a_function_gets_the_tasks_metric_as_a_name_does(method):
    assert resolve(TASK, method)[2] == resolve(TASK, "gradient")[2] == "plain"
    assert resolve(TASK, method, "l2")[2] == "l2"
    assert resolve(catalogue.load("maze"), method)[2] == resolve(catalogue.load("maze"), "gradient")[2]
    with pytest.raises(InvalidInput, match="expected metric of Walk to be one of plain, l2, .*; got 'nope'"):
        resolve(TASK, method, "nope")


def test_a_class_is_refused_a_metric_that_it_cannot_use():
    assert resolve(DISCRETE, gradient_of)[2] is None
    with pytest.raises(InvalidInput, match="expected metrics= on the discrete contexts"):
        resolve(DISCRETE, gd.Gradient)
    with pytest.raises(InvalidInput, match=r"expected a method that uses a metric \(auto, gradient\), got Mine"):
        resolve(TASK, Mine, "l2")
    assert resolve(TASK, gd.curricula.CURROT)[2] is None
    with pytest.raises(InvalidInput, match="expected discrete contexts for CURROT"):
        resolve(TASK, gd.curricula.CURROT, "l2")


def test_a_function_in_a_file_gets_the_tasks_metric(tmp_path):
    (tmp_path / "made.py").write_text(
        "import geodesic as gd\ndef make(p):\n    return gd.Gradient(p.source, p.target, p.metric)\n"
    )
    resolved = resolve(TASK, f"{tmp_path / 'made.py'}:make")
    assert resolved[2] == "plain"
    assert isinstance(build(TASK, *resolved, threshold=-40.0).metric, Euclidean)


def test_a_metric_may_be_an_object_or_a_reference(tmp_path):
    assert resolve(TASK, "gradient", Euclidean())[2] == "Euclidean"
    (tmp_path / "mine.py").write_text("import geodesic as gd\nclass Plain(gd.metrics.Euclidean):\n    pass\n")
    reference = f"{tmp_path / 'mine.py'}:Plain"
    name, options, metric = resolve(TASK, "gradient", reference)
    assert metric == reference
    assert type(build(TASK, name, options, metric, threshold=-40.0).metric).__name__ == "Plain"


def test_a_default_metric_that_is_a_reference_is_recorded_with_its_whole_path(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("import geodesic as gd\nclass Plain(gd.metrics.Euclidean):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    task = walk(metric="mine.py:Plain")
    resolved = resolve(task, "gradient")
    assert resolved[2] == f"{tmp_path / 'mine.py'}:Plain"
    assert type(build(task, *resolved, threshold=-40.0).metric).__name__ == "Plain"


@pytest.mark.parametrize("metric", [3, object(), Matrix, [1.0]])
def test_a_metric_that_is_none_is_refused_before_a_run(metric):
    with pytest.raises(InvalidInput, match="expected metric"):
        resolve(TASK, "gradient", metric)


def test_a_metric_may_be_a_class_or_a_function():
    for metric, name in ((Euclidean, "Euclidean"), (lambda task, level: Euclidean(), "<lambda>")):
        resolved = resolve(TASK, "gradient", metric)
        assert resolved[2] == name
        assert type(problem(TASK, metric, -40.0).metric) is Euclidean


def test_a_source_that_is_searched_for_stays_auto_in_the_problem():
    assert problem(walk(source="auto"), None, -40.0).source == "auto"


def test_a_folder_with_the_name_of_a_method_is_no_module(tmp_path, monkeypatch):
    (tmp_path / "gradient").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InvalidInput, match="expected a method as name:option=value, got 'gradient:step'"):
        parse("gradient:step")
