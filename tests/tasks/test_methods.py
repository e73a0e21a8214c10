"""Methods on a task: read, completed with the task's defaults, built."""

import numpy as np
import pytest
from problems import walk

import geodesic as gd
from extras import each
from geodesic.curricula import REGISTRY, Curriculum
from geodesic.errors import InvalidInput
from geodesic.metrics import Euclidean, Matrix
from geodesic.tasks import catalogue
from geodesic.tasks.methods import build, parse, problem, resolve


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


def test_what_is_no_text_is_refused():
    with pytest.raises(InvalidInput) as caught:
        parse(3, "a task")
    assert str(caught.value) == "expected a task as name:option=value, got 3"


TASK = walk(
    worst_return=-200.0,
    metrics={"plain": Euclidean()},
    methods={"gradient": {"step": 0.25, "window": 5}, "uniform": {"particles": 7}},
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
def test_options_are_the_methods_own_then_the_tasks(method, metric, resolved):
    assert resolve(TASK, method, metric) == resolved


TABLES = walk(
    worst_return=-200.0,
    methods={
        "gradient:gate=true:step=auto": {"width": 0.3},
        "gradient:gate=true": {"threshold": -60.0, "window": 9, "width": 0.2},
        "gradient": {"window": 5},
        "gradient:metric=embedding": {"explore_steps": 77},
        "linear:gate=true": {"window": 1},
    },
)
GATED = {"window": 9, "threshold": -60.0, "width": 0.2, "gate": True}


@pytest.mark.parametrize(
    ("method", "metric", "threshold", "options"),
    [
        ("gradient", None, None, {"window": 5}),
        ("gradient:gate=false", None, None, {"window": 5, "gate": False}),
        ("gradient:gate=true", None, None, GATED),
        ("gradient:gate=true:window=3", None, None, {**GATED, "window": 3}),
        ("gradient:gate=true", None, -50.0, {key: GATED[key] for key in ("window", "width", "gate")}),
        ("gradient:step=auto:gate=true", None, None, {**GATED, "step": "auto", "width": 0.3}),
        ("gradient:metric=embedding", None, None, {"window": 5, "explore_steps": 77}),
        ("gradient", "embedding", None, {"window": 5, "explore_steps": 77}),
        ("linear", None, None, {}),
    ],
)
def test_a_task_may_have_options_for_a_method_with_options(method, metric, threshold, options):
    assert resolve(TABLES, method, metric, threshold)[1] == options


def test_in_the_mazes_the_gate_asks_each_context_for_what_currot_asks():
    for name in ("maze", "e-maze"):
        task = catalogue.load(name)
        gate, currot = (resolve(task, method)[1]["threshold"] for method in ("gradient:gate=true", "currot"))
        assert gate == currot < task.threshold
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
            "expected a method that uses a metric (gradient), got uniform with metric l2",
        ),
        (
            lambda: resolve(TASK, "linear:metric=l2"),
            "expected a method that uses a metric (gradient), got linear with metric l2",
        ),
        (
            lambda: resolve(TASK, "gradient:metric=l2", "plain"),
            "expected one metric, got 'plain' and 'gradient:metric=l2'",
        ),
        (
            lambda: resolve(TASK, "gradient", "graph"),
            "expected metric of task to be one of plain, l2, embedding, return-lift, embedding-raw; got 'graph'",
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
            "expected method to be one of gradient, target-only, uniform, linear, alp-gmm, goal-gan, spdl, wb-spdl, "
            "currot, procurl-target; got 'nonsense'",
        ),
        (
            lambda: build(TASK, *resolve(TASK, "gradient:stepp=0.1"), threshold=-40.0),
            "expected an option of Gradient (source, target, step, threshold, window, max_stage_steps, stride, "
            "memory, width, success, space, metric, explore_steps, gate), got 'stepp'",
        ),
        (
            lambda: build(walk(), *resolve(walk(), "spdl"), threshold=-40.0),
            "expected worst_return= in task task for the method spdl",
        ),
        (
            lambda: build(walk(measure="success", threshold=0.5), "uniform", {}, None, threshold=1.5),
            "expected a threshold that the target can reach (below 1), got 1.5",
        ),
    ],
)
def test_refusals(ask, message):
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
            assert made.threshold == task.methods.get(method, {}).get("threshold", task.threshold)


@pytest.mark.parametrize("name", each(catalogue.BUILT_IN))
def test_the_tables_of_built_in_tasks_name_what_exists(name):
    task = catalogue.load(name)
    for metric in task.metric_names:
        assert build(task, *resolve(task, "gradient", metric), threshold=task.threshold).metric is not None
    for method in task.compare:
        state = build(task, *resolve(task, method), threshold=task.threshold).init(np.random.default_rng(0))
        assert state.stage == 0


def test_a_problem_is_what_the_task_states_at_the_threshold_of_the_run():
    stated = problem(TASK, "return-lift", -30.0)
    assert stated.source is TASK.source_particles
    assert stated.target is TASK.target_particles
    assert (stated.space, stated.threshold, stated.worst_return) == (TASK.space, -30.0, -200.0)
    assert stated.metric.threshold == -30.0
    assert problem(TASK, None, -30.0).metric is None
    assert problem(walk(), "l2", -30.0).worst_return == 0.0
    moments = (np.zeros(1), np.eye(1))
    assert problem(walk(source_moments=moments), "l2", -30.0).source_moments is moments


def test_a_worst_return_may_be_an_option_of_the_method():
    built = build(walk(), *resolve(walk(), "spdl:worst_return=-50"), threshold=-40.0)
    assert built.worst_return == -50


def test_a_metric_of_ones_own_reaches_the_curriculum():
    steps = Matrix([[0, 1, 2], [1, 0, 1], [2, 1, 0]], CELLS)
    task = walk(contexts=DISCRETE.contexts, source=DISCRETE.source, target=DISCRETE.target, metrics={"steps": steps})
    built = build(task, *resolve(task, "gradient"), threshold=-40.0)
    assert built.metric is steps
    np.testing.assert_allclose(built.path(0.5).weights, [0, 1, 0])
