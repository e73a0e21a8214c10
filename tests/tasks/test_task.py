"""Tasks: defaults, values taken from the environment, and the messages of invalid or missing arguments."""

import gymnasium as gym
import numpy as np
import pytest
from problems import CART_POLE, Walk, cart_pole, set_context, walk

import geodesic as gd
from geodesic.envs.cmdp import ContextualEnv
from geodesic.errors import InvalidInput
from geodesic.metrics import Embedding, Euclidean, Matrix, ReturnLift
from geodesic.tasks.task import PARTICLES
from mixed_walk import mixed_walk

CELLS = [[0.0], [1.0], [2.0]]
DISCRETE = {
    "contexts": gd.ContextSpace.discrete(CELLS, ("place",)),
    "source": gd.Particles.categorical([1.0, 0.0, 0.0], CELLS),
    "target": gd.Particles.categorical([0.0, 0.0, 1.0], CELLS),
}


def test_ranges_become_uniform_samples_that_never_change():
    task = cart_pole()
    source, target = task.source_particles, task.target_particles
    assert len(source) == len(target) == PARTICLES
    assert (source.points.min(axis=0) >= [9.0, 1.0]).all()
    assert (source.points.max(axis=0) <= [10.0, 1.25]).all()
    np.testing.assert_allclose(source.mean(), [9.5, 1.125], atol=0.08)
    assert (target.points[:, 0] == 9.8).all()
    assert target.points[:, 1].min() < 0.3 < 0.45 < target.points[:, 1].max()
    assert cart_pole().source_particles == source
    assert cart_pole().target_particles == target


def test_ranges_may_be_in_any_order_and_a_single_context_is_one_particle():
    task = cart_pole(target={"length": 0.3, "gravity": 12})
    assert task.target_particles == gd.Particles([[12.0, 0.3]])
    assert cart_pole(target={"length": [0.3, 0.3], "gravity": (12, 12)}).target_particles == gd.Particles([[12.0, 0.3]])


def test_particles_and_functions_are_used_as_given():
    target = gd.Particles([[9.0, 1.0]])
    assert cart_pole(target=target).target_particles is target
    made = cart_pole(target=lambda rng: gd.Particles(rng.uniform([5, 0.25], [15, 1.25], (7, 2))))
    assert len(made.target_particles) == 7
    assert made.target_particles is made.target_particles


def test_agents_are_evaluated_on_the_target_by_default():
    task = walk()
    assert task.evaluation_particles is task.target_particles
    other = walk(evaluation=gd.EvaluationSettings({"place": 0.5}))
    assert other.evaluation_particles.points.tolist() == [[0.5]]
    assert other.target_particles == task.target_particles
    with pytest.raises(InvalidInput, match="expected evaluation inside low"):
        walk(evaluation=gd.EvaluationSettings(gd.Particles([[1e6]])))


def test_names_and_units_are_those_of_the_contexts():
    assert cart_pole().space.names == ("gravity", "length")
    assert cart_pole().space.units == ("m/s²", "m")
    assert cart_pole().space.labels == ("gravity (m/s²)", "length (m)")
    space = gd.ContextSpace([5.0, 0.25], [15.0, 1.25], names=("gravity", "length"))
    assert cart_pole(contexts=space).space is space


def test_missing_arguments_come_from_the_environment():
    mdp = gd.envs.make("u-maze")
    task = gd.Task(env=mdp, threshold=0.5)
    assert task.space is mdp.context_space
    assert task.source_particles == mdp.source(np.random.default_rng(1))
    assert task.target_particles == mdp.target(np.random.default_rng(0))
    assert task.least == -1.0
    assert isinstance(task.make_metric("l2"), Euclidean)
    assert task.infeasible(gd.Particles([[0.0, 4.0], [0.0, 0.0]])) == 0.5
    target = task.target_particles
    assert task.reachable() == pytest.approx(target.weights @ mdp.best_return(target.points))
    assert not task.searches


def test_a_source_that_neither_task_nor_environment_states_is_searched_for():
    for task in (walk(source=None), cart_pole(source=None)):
        assert task.searches
        assert len(task.source_particles) == PARTICLES
        assert (np.ptp(task.source_particles.points, axis=0) > 0.9 * task.space.sides).all()
    assert not walk().searches
    discrete = walk(**{**DISCRETE, "source": None})
    assert np.unique(discrete.source_particles.points).tolist() == [0.0, 1.0, 2.0]
    assert gd.Task(env=gd.envs.make("u-maze"), source="auto").searches  # though the environment has one


def make_pole():
    return gym.make("CartPole-v1")


def test_a_task_is_called_as_its_environment_unless_it_has_a_name():
    names = [task.name for task in (walk(), cart_pole(), cart_pole(env=make_pole), cart_pole(env=lambda: make_pole()))]
    assert names == ["Walk", "CartPole-v1", "make_pole", "task"]
    assert walk(name="mine").named("found", "a:found").name == "mine"
    assert walk().named("found", "a:found").name == "found"


def test_a_threshold_need_not_be_stated():
    task = gd.Task(env=Walk(), contexts={"place": (-8.0, 8.0)}, target={"place": (6.0, 8.0)})
    assert task.threshold == "auto"
    assert np.isnan(task.solved_above)
    assert walk(threshold="auto", solved=-20.0).solved_above == -20.0
    assert repr(walk(threshold="auto")) == "Task('Walk', contexts place, threshold auto on the return)"
    gd.check_task(task)


def test_successes_have_a_threshold_of_four_fifths_if_none_is_stated():
    task = gd.Task(env=Walk(), contexts={"place": (-8.0, 8.0)}, target={"place": (6.0, 8.0)}, score="success")
    assert (task.threshold, task.solved_above) == (0.8, 0.8)
    assert walk(score="success", threshold=0.5).threshold == 0.5


def test_a_metric_that_needs_a_threshold_is_on_offer_if_it_is_a_number():
    task = walk(worst_return=-200.0, threshold="auto")
    assert task.metric_names == ("l2", "embedding", "embedding-raw")
    with pytest.raises(InvalidInput, match="expected a number as threshold= in task Walk for the learned"):
        task.make_metric("return-lift")
    with pytest.raises(InvalidInput, match="expected a number as the threshold for metric return-lift, got 'auto'"):
        walk(worst_return=-200.0).make_metric("return-lift", threshold="auto")
    assert walk(score="success", threshold="auto").make_metric("return-lift").threshold == 0.8
    gd.check_task(task)
    seen = []
    made = walk(threshold="auto", metrics={"made": lambda task, threshold: seen.append(threshold) or Euclidean()})
    made.make_metric("made")
    assert np.isnan(seen).all()


def test_arguments_win_over_the_environment():
    task = gd.Task(
        env=gd.envs.make("u-maze"),
        threshold=0.5,
        contexts={"x": (-2, 10), "y": (-2, 10)},
        source={"x": 0, "y": 0},
        target={"x": 8, "y": 8},
        worst_return=-2.0,
        best_return=lambda contexts: np.full(len(contexts), 0.9),
        is_feasible=lambda contexts: contexts[:, 0] > 4,
    )
    assert task.space.names == ("x", "y")
    assert task.target_particles == gd.Particles([[8.0, 8.0]])
    assert task.least == -2.0
    assert task.reachable() == pytest.approx(0.9)
    assert task.infeasible(gd.Particles([[0.0, 0.0], [8.0, 0.0]], [0.25, 0.75])) == 0.25


def test_bounds_follow_the_kind_of_score():
    assert walk(score="success", threshold=0.5).least == 0.0
    assert walk(score="success", threshold=0.5).reachable() == 1.0
    known = {"best_return": lambda contexts: np.zeros(len(contexts))}
    assert walk(**known).reachable() == 0.0
    assert walk(**known, score="discounted_return").reachable() == np.inf
    assert walk().reachable() == np.inf
    assert walk().least is None


def test_the_target_counts_as_solved_above_the_threshold_by_default():
    assert walk().solved_above == -40.0
    assert walk(solved=-20).solved_above == -20.0


def test_a_box_has_standard_metrics_and_only_l2_without_worst_return_or_bounds():
    task = walk(worst_return=-200.0)
    assert task.metric_names == ("l2", "embedding", "return-lift", "practice", "embedding-raw")
    assert walk().metric_names == ("l2",)
    endless = walk(worst_return=-200.0, contexts={"place": (-8.0, np.inf)})
    assert endless.metric_names == ("l2",)
    assert isinstance(task.make_metric("embedding"), Embedding)
    lift = task.make_metric("return-lift", threshold=-30.0)
    assert isinstance(lift, ReturnLift)
    assert (lift.worst_return, lift.threshold, lift.space) == (-200.0, -30.0, task.space)
    assert task.make_metric("return-lift").threshold == -40.0


def test_l2_is_in_units_of_the_sides_of_the_space():
    corners = np.array([[5.0, 0.25], [15.0, 0.25], [5.0, 1.25]])
    np.testing.assert_allclose(cart_pole().make_metric().pairwise(corners[:1], corners)[0], [0, 1, 1])
    far = np.array([[0.0], [16.0]])
    endless = walk(contexts={"place": (-8.0, np.inf)})
    assert endless.make_metric("l2").pairwise(far[:1], far[1:])[0, 0] == 16.0


def test_the_tasks_metrics_come_first_and_the_default_before_all():
    plain = Euclidean()
    task = walk(metrics={"plain": plain, "made": lambda task, threshold: Euclidean(task.space.sides * -threshold)})
    assert task.metric_names == ("plain", "made", "l2")
    assert task.make_metric() is plain
    assert walk(metrics={"plain": plain}, metric="l2").metric_names == ("l2", "plain")
    assert task.make_metric("made", threshold=-2.0).scale.tolist() == [32.0]
    assert walk(metrics={"l2": plain}).make_metric() is plain


def test_a_discrete_space_has_only_the_metrics_it_is_given():
    steps = Matrix([[0, 1, 2], [1, 0, 1], [2, 1, 0]], CELLS)
    task = walk(**DISCRETE, metrics={"steps": steps})
    assert task.metric_names == ("steps",)
    assert task.make_metric() is steps
    assert walk(**DISCRETE).metric_names == ()


def test_made_environments_draw_contexts_from_the_target():
    in_jax, on_host = walk().make(), cart_pole().make()
    assert isinstance(in_jax, ContextualEnv)
    assert isinstance(on_host, gd.ContextWrapper)
    for env, task in ((in_jax, walk()), (on_host, cart_pole())):
        assert env.distribution == task.target_particles
        obs, info = env.reset(seed=0)
        assert env.observation_space.contains(obs)
        assert (task.target_particles.points == info["context"]).all(axis=1).any()
    assert on_host.observation_space.shape == (6,)
    assert cart_pole(observe_context=False).make().observation_space.shape == (4,)


def test_a_function_that_makes_the_environment_receives_the_render_mode():
    calls = []

    def make(**options):
        calls.append(options)
        return gym.make("CartPole-v1")

    task = cart_pole(env=make)
    task.make()
    task.make(render_mode="rgb_array")
    assert calls == [{}, {"render_mode": "rgb_array"}]


def test_named_gives_a_name_and_a_reference_to_a_task_without_one():
    task = walk().named("walk", "walk.py:task")
    assert (task.name, task.reference, task.threshold) == ("walk", "walk.py:task", -40.0)
    assert walk(name="mine").named("walk", "walk.py:task").name == "mine"


def test_repr_is_one_short_line():
    assert repr(walk(name="walk")) == "Task('walk', contexts place, threshold -40 on the return)"


MISSING = [
    (
        lambda: walk(contexts=None),
        'expected contexts=, such as {"length": (0.05, 1.0)}: name and bounds of each context value',
    ),
    (lambda: walk(target=None), 'expected target=, such as {"place": (low, high)} or Particles(points)'),
    (
        lambda: walk(source=None, contexts={"place": (-8.0, np.inf)}),
        "expected bounded contexts to search for a source in, got low [-8.] and high [inf]; try source=...",
    ),
    (
        lambda: cart_pole(set_context=None, contexts={"wind": (0.0, 1.0)}),
        "expected set_context=, a function set_context(env, **context) that puts a context into the environment, or "
        "contexts with the names of its attributes",
    ),
    (
        lambda: cart_pole(env=None),
        "expected env to be a ContextualMDP, a function that makes a Gymnasium environment or the id of one, got None",
    ),
    (lambda: cart_pole(env=lambda: 5).make(), "expected env() to make a Gymnasium environment, got int"),
]
BAD = [
    (lambda: walk(threshold="high"), "expected threshold to be a finite number, got 'high'"),
    (lambda: walk(threshold=float("nan")), "expected threshold to be a finite number, got nan"),
    (lambda: walk(threshold=None), "expected threshold to be a finite number, got None"),
    (lambda: walk(solved=np.inf), "expected solved to be a finite number, got inf"),
    (lambda: walk(score="regret"), "expected score to be one of return, discounted_return, success; got 'regret'"),
    (lambda: walk(discount=0.0), "expected discount in (0, 1], got 0.0"),
    (lambda: gd.TrainingSettings(steps=0), "expected steps to be a positive integer, got 0"),
    (lambda: gd.TrainingSettings(segment=-1), "expected segment to be a positive integer, got -1"),
    (lambda: gd.EvaluationSettings(every=0.5), "expected every to be a positive integer, got 0.5"),
    (lambda: gd.EvaluationSettings(episodes=0), "expected episodes to be a positive integer, got 0"),
    (
        lambda: gd.EvaluationSettings(policy="greedy"),
        "expected policy to be one of deterministic, stochastic; got 'greedy'",
    ),
    (
        lambda: gd.TrainingSettings(methods={"gradient": 3}),
        "expected methods as {method: {option: value}}, got {'gradient': 3}",
    ),
    (lambda: gd.TrainingSettings(compare="gradient"), "expected compare to be a list of names, got 'gradient'"),
    (lambda: walk(evaluation={"place": 1}), "expected evaluation to be EvaluationSettings, got dict"),
    (lambda: walk(training={"steps": 1}), "expected training to be TrainingSettings, got dict"),
    (lambda: walk(plot={"axes": "xy"}), "expected plot to be Plot, got dict"),
    (lambda: walk(metrics=[3]), "expected metrics as {name: metric}, got [3]"),
    (
        lambda: walk(contexts={"place": 3}),
        "expected context 'place' as (low, high), (low, high, unit), a range or a list of categories, got 3",
    ),
    (lambda: walk(contexts="place"), "expected contexts as {name: (low, high)}, got 'place'"),
    (lambda: walk(source={"place": 20}), "expected source inside low [-8.0], high [8.0], got [20.0]"),
    (lambda: walk(target={"place": (8, 6)}), "expected place of target as a value or (low, high), got (8, 6)"),
    (lambda: walk(target={"place": (1, 2, 3)}), "expected place of target as a value or (low, high), got (1, 2, 3)"),
    (lambda: walk(target={"place": "far"}), "expected place of target as a value or (low, high), got 'far'"),
    (
        lambda: cart_pole(target={"length": 0.3}),
        "expected target to give a value or a range for each of gravity, length, got length",
    ),
    (lambda: walk(target=gd.Particles([[1.0, 2.0]])), "expected target of dimension 1, got dimension 2"),
    (
        lambda: walk(target=lambda rng: 1 / 0),
        "expected target(rng) to return Particles, got ZeroDivisionError: division by zero",
    ),
    (
        lambda: walk(target=lambda rng: [[1.0]]),
        "expected target to be Particles, ranges or a function of a generator, got [[1.0]]",
    ),
    (
        lambda: walk(target=[[1.0]]),
        "expected target to be Particles, ranges or a function of a generator, got [[1.0]]",
    ),
    (
        lambda: walk(**{**DISCRETE, "target": {"place": 2.0}}),
        "expected target to be Particles on the support of a discrete context space, got ranges",
    ),
    (
        lambda: walk(**{**DISCRETE, "target": gd.Particles([[1.5]])}),
        "expected target inside its support, got [1.5]",
    ),
    (
        lambda: walk(**DISCRETE).make_metric(),
        "expected metrics= on the discrete contexts of Walk, such as {'steps': geodesic.metrics.Graph(...)}: "
        "no distance is known between them",
    ),
    (
        lambda: walk(metric="manhattan"),
        "expected metric of Walk to be one of l2; got 'manhattan'",
    ),
    (
        lambda: walk(worst_return=-9.0, name="walk").make_metric("manhattan"),
        "expected metric of walk to be one of l2, embedding, return-lift, practice, embedding-raw; got 'manhattan'",
    ),
    (
        lambda: walk(metric="embedding"),
        "expected worst_return= in task Walk for the learned metric embedding",
    ),
    (
        lambda: walk(metric="return-lift", worst_return=-9.0, contexts={"place": (-8.0, np.inf)}),
        "expected bounded contexts in task Walk for the learned metric return-lift",
    ),
    (
        lambda: walk(available_metrics=("steps",)).make_metric(),
        "expected metric to be one of l2, product, embedding, return-lift, practice, embedding-raw; got 'steps'",
    ),
    (
        lambda: walk(plot=gd.Plot(axes=("place", "speed"))),
        "expected axes among the context values place, got 'speed'",
    ),
]


@pytest.mark.parametrize(("make", "message"), MISSING + BAD, ids=[message[:60] for _, message in MISSING + BAD])
def test_a_missing_or_invalid_argument_is_reported_in_one_line(make, message):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert str(caught.value) == message
    assert "\n" not in message


def test_an_error_in_set_context_is_reported_in_one_line():
    def broken(env, gravity, length):
        raise KeyError("mass")

    with pytest.raises(InvalidInput) as caught:
        cart_pole(set_context=broken).make().reset(seed=0)
    assert str(caught.value) == (
        "expected set_context(env, gravity, length) to set the context of <CartPoleEnv<CartPole-v1>>, "
        "got KeyError: 'mass'"
    )


def test_tasks_are_frozen_and_contexts_may_be_in_any_order():
    task = cart_pole(contexts=dict(reversed(CART_POLE.items())), set_context=set_context)
    assert task.space.names == ("length", "gravity")
    assert task.target_particles.points[0, 1] == 9.8
    with pytest.raises(AttributeError):
        task.threshold = 3.0


def wrapped():
    """An environment that already has contexts."""
    space = gd.ContextSpace.of(CART_POLE)
    return gd.ContextWrapper(gym.make("CartPole-v1"), space, set_context)


def test_a_function_that_makes_a_context_wrapper_needs_neither_contexts_nor_set_context():
    task = gd.Task(wrapped, source={"gravity": 10, "length": 1}, target={"gravity": 12, "length": 0.3}, threshold=100.0)
    assert task.space.names == ("gravity", "length")
    env = task.make()
    assert isinstance(env, gd.ContextWrapper)
    assert not isinstance(env.env, gd.ContextWrapper)
    assert env.distribution == task.target_particles
    _, info = env.reset(seed=0)
    assert info["context"].tolist() == [12.0, 0.3]
    assert (env.unwrapped.gravity, env.unwrapped.length) == (12.0, 0.3)
    made = iter([wrapped(), gym.make("CartPole-v1")])
    changing = gd.Task(lambda: next(made), source=task.source, target=task.target, threshold=100.0)
    with pytest.raises(
        InvalidInput, match=r"expected env\(\) to make an environment in a ContextWrapper, as before, got "
    ):
        changing.make()


ENDS = {"source": {"gravity": 10, "length": 1}, "target": {"gravity": 12, "length": 0.3}, "threshold": 100.0}


@pytest.mark.parametrize(
    "outer",
    [
        gym.wrappers.RecordEpisodeStatistics,
        lambda env: gym.wrappers.TimeLimit(gym.wrappers.FlattenObservation(env), 300),
    ],
)
def test_a_context_wrapper_may_be_inside_other_wrappers(outer):
    task = gd.Task(lambda: outer(wrapped()), **ENDS)
    assert task.space.names == ("gravity", "length")
    env = task.make()
    _, info = env.reset(seed=0)
    assert info["context"].tolist() == [12.0, 0.3]
    assert env.unwrapped.gravity == 12.0
    gd.check_task(task)


def test_an_environment_of_gymnasium_may_have_a_context_wrapper(monkeypatch):
    monkeypatch.setitem(gym.registry, "Wrapped-v0", gym.envs.registration.EnvSpec("Wrapped-v0", wrapped))
    task = gd.Task("Wrapped-v0", **ENDS)
    _, info = task.make().reset(seed=0)
    assert info["context"].tolist() == [12.0, 0.3]


def test_arguments_that_contradict_a_context_wrapper_are_refused():
    again = gd.Task(wrapped, CART_POLE, **ENDS)
    assert gd.Task(wrapped, again.space, **ENDS).space.names == ("gravity", "length")
    for contexts in ({"length": (0.1, 20.0), "gravity": (0.1, 20.0)}, {**CART_POLE, "gravity": (0.0, 20.0)}):
        with pytest.raises(InvalidInput, match="expected contexts= as in the environment's ContextWrapper, got others"):
            gd.Task(wrapped, contexts, **ENDS)
    with pytest.raises(InvalidInput, match="expected observe_context=False in the ContextWrapper"):
        gd.Task(wrapped, observe_context=False, **ENDS)
    twice = gd.Task(wrapped, CART_POLE, set_context=set_context, **ENDS)
    with pytest.raises(InvalidInput, match="expected set_context= or an environment in a ContextWrapper, got both"):
        gd.check_task(twice)


def test_the_metric_may_be_an_object():
    plain = Euclidean()
    task = walk(metric=plain)
    assert (task.metric, task.metric_names[0]) == ("Euclidean", "Euclidean")
    assert task.make_metric() is plain
    assert walk().make_metric(plain) is plain
    with pytest.raises(InvalidInput, match="Metric"):
        walk(metric=3)


class Manhattan(gd.metrics.Metric):
    def pairwise(self, x, y):
        return np.abs(x[:, None] - y).sum(axis=2)


def manhattan(task, threshold):
    return Manhattan()


@pytest.mark.parametrize("metric", [Manhattan, manhattan], ids=["class", "function"])
def test_the_metric_may_be_a_class_or_a_function(metric):
    task = walk(metric=metric)
    assert (task.metric, task.metric_names[0]) == (metric.__name__, metric.__name__)
    made = [task.make_metric(), walk().make_metric(metric), walk(metrics={"mine": metric}).make_metric("mine")]
    assert [type(each) for each in made] == [Manhattan] * 3


def test_the_default_metric_may_be_registered_or_a_reference(tmp_path, monkeypatch):
    monkeypatch.setattr(gd.metrics.standard.REGISTRY, "_values", {**gd.metrics.standard.REGISTRY._values})
    gd.metrics.register("manhattan", Manhattan)
    (tmp_path / "my.py").write_text("import geodesic as gd\nclass Scaled(gd.metrics.Euclidean):\n    pass\n")
    for name, kind in (("manhattan", "Manhattan"), (f"{tmp_path / 'my.py'}:Scaled", "Scaled")):
        for task in (walk(metric=name), walk(metric=name, available_metrics=["l2"])):
            assert task.metric_names == (name, "l2")
            assert type(task.make_metric()).__name__ == kind


@pytest.mark.parametrize("learner", [3, gd.PPO, object()])
def test_a_learner_that_is_none_is_refused_at_once(learner):
    with pytest.raises(InvalidInput, match=r"expected learner such as geodesic\.PPO\(n_envs=8\) or 'ppo:n_envs=8'"):
        gd.TrainingSettings(learner=learner)


def test_the_source_may_be_found_by_search():
    task = walk(source="auto")
    assert len(task.source_particles) == PARTICLES
    assert np.ptp(task.source_particles.points) > 14.0
    assert task.searches
    with pytest.raises(InvalidInput, match="expected bounded contexts to search for a source in"):
        walk(source="auto", contexts={"place": (-np.inf, np.inf)})


RANGES = [
    ({"place": 3, "steering": "slow", "cost": 2}, [[3, 2, 2]]),
    ({"place": 3.0, "steering": ["slow", "straight"], "cost": (1, 2)}, [[3, 0, 1], [3, 0, 2], [3, 2, 1], [3, 2, 2]]),
    ({"place": (3, 3), "steering": "slow", "cost": [0, 3]}, [[3, 2, 0], [3, 2, 3]]),
    ({"place": 3, "steering": {"slow"}, "cost": range(1, 4)}, [[3, 2, 1], [3, 2, 2], [3, 2, 3]]),
]


@pytest.mark.parametrize(("ranges", "points"), RANGES)
def test_ranges_of_integers_and_categories(ranges, points):
    task = mixed_walk(source=ranges, evaluation=gd.EvaluationSettings(ranges))
    assert task.source_particles.points.tolist() == task.evaluation_particles.points.tolist() == points
    assert gd.Task(task.env, task.space, ranges, gd.Particles(points)).target_particles == task.source_particles


def test_a_range_of_numbers_has_samples_in_which_integers_and_categories_occur_equally_often():
    target = mixed_walk(target={"place": (3, 4), "steering": ["slow", "mirrored"], "cost": (0, 3)}).target_particles
    assert len(target) == 200
    assert np.unique(target.points[:, 1], return_counts=True)[1].tolist() == [100, 100]
    assert np.unique(target.points[:, 2], return_counts=True)[1].tolist() == [50] * 4


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({"place": 3, "steering": "fast", "cost": 2}, "expected steering of target to be one of straight, mirrored"),
        ({"place": 3, "steering": "slow", "cost": 4}, "expected cost of target as an integer in 0 ... 3, got 4"),
        ({"place": 3, "steering": "slow", "cost": (3, 1)}, "expected cost of target among 0 ... 3"),
        ({"place": 30, "steering": "slow", "cost": 1}, "expected target inside place -8 ... 8, steering 0 ... 2"),
        ({"place": 3, "steering": "slow"}, "expected target to give a value or a range for each of place, steering"),
        (gd.Particles([[3.0, 0.5, 1.0]]), "expected target inside place -8 ... 8, steering 0 ... 2 (straight"),
    ],
)
def test_ranges_that_do_not_fit_integers_or_categories_are_refused(ranges, message):
    with pytest.raises(InvalidInput) as caught:
        mixed_walk(target=ranges)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_metrics_of_integers_and_categories():
    task = mixed_walk()
    assert task.metric_names == ("product", "embedding", "embedding-raw")
    assert isinstance(task.make_metric(), gd.metrics.Product)
    further = mixed_walk(metric=lambda task, threshold: gd.metrics.Product(task.space, {"steering": 3.0}))
    ends = np.array([[0.0, 0, 0]]), np.array([[0.0, 1, 0]])
    assert further.make_metric().pairwise(*ends) == 3 * task.make_metric().pairwise(*ends)
    with pytest.raises(InvalidInput, match="expected contexts without integers and categories in task MixedWalk"):
        task.make_metric("return-lift")
    with pytest.raises(InvalidInput, match="expected metric of MixedWalk to be one of product, embedding"):
        mixed_walk(metric="l2")


def test_a_search_begins_on_the_whole_space():
    task = mixed_walk(source="auto")
    assert task.searches
    assert task.space.contains(task.source_particles.points).all()
    assert set(task.source_particles.points[:, 1]) == {0, 1, 2}


def test_an_environment_in_a_wrapper_with_other_categories_is_refused():
    sides = {"wind": ["none", "gusts"]}
    env = gd.ContextWrapper(gym.make("CartPole-v1"), sides, lambda env, wind: None)
    assert gd.Task(lambda: env, target={"wind": "gusts"}).space.categories == {"wind": ("none", "gusts")}
    with pytest.raises(InvalidInput, match="expected contexts= as in the environment's ContextWrapper, got others"):
        gd.Task(lambda: env, {"wind": ["gusts", "none"]}, target={"wind": "gusts"})


def test_without_set_context_the_names_are_those_of_attributes():
    task = gd.Task(
        "CartPole-v1", {"gravity": (5.0, 50.0), "length": (0.2, 2.0)}, target={"gravity": 50.0, "length": 2.0}
    )
    env = task.make()
    env.reset(seed=0, options={"context": {"gravity": 20.0, "length": 1.0}})
    inner = env.unwrapped
    assert (inner.gravity, inner.length, inner.polemass_length) == (20.0, 1.0, inner.masspole)
    with pytest.raises(InvalidInput, match="expected set_context="):
        gd.Task("CartPole-v1", {"reset": (5.0, 50.0)}, target={"reset": 50.0})
