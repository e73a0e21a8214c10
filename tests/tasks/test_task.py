"""A task: what may be left out, what it takes from where, and the exact words of everything that is missing."""

import gymnasium as gym
import numpy as np
import pytest
from problems import CART_POLE, Walk, cart_pole, put, walk

import geodesic as gd
from geodesic.envs.gymnasium import ContextualEnv
from geodesic.errors import InvalidInput
from geodesic.metrics import Embedding, Euclidean, Matrix, ReturnLift
from geodesic.tasks.task import PARTICLES

CELLS = [[0.0], [1.0], [2.0]]
DISCRETE = {
    "contexts": gd.ContextSpace.discrete(CELLS, ("place",)),
    "source": gd.Particles.categorical([1.0, 0.0, 0.0], CELLS),
    "target": gd.Particles.categorical([0.0, 0.0, 1.0], CELLS),
}


def test_ranges_are_uniform_within_them_and_the_same_every_time():
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


def test_ranges_may_come_in_any_order_and_a_single_context_is_one_particle():
    task = cart_pole(target={"length": 0.3, "gravity": 12})
    assert task.target_particles == gd.Particles([[12.0, 0.3]])
    assert cart_pole(target={"length": [0.3, 0.3], "gravity": (12, 12)}).target_particles == gd.Particles([[12.0, 0.3]])


def test_particles_and_functions_are_taken_as_they_are():
    target = gd.Particles([[9.0, 1.0]])
    assert cart_pole(target=target).target_particles is target
    made = cart_pole(target=lambda rng: gd.Particles(rng.uniform([5, 0.25], [15, 1.25], (7, 2))))
    assert len(made.target_particles) == 7
    assert made.target_particles is made.target_particles


def test_agents_are_evaluated_on_the_target_unless_the_task_says_otherwise():
    task = walk()
    assert task.evaluation_particles is task.target_particles
    other = walk(evaluation={"place": 0.5})
    assert other.evaluation_particles.points.tolist() == [[0.5]]
    assert other.target_particles == task.target_particles
    with pytest.raises(InvalidInput, match="expected evaluation inside low"):
        walk(evaluation=gd.Particles([[1e6]]))


def test_names_and_units_are_those_of_the_contexts():
    assert cart_pole().space.names == ("gravity", "length")
    assert cart_pole().space.units == ("m/s²", "m")
    assert cart_pole().space.labels == ("gravity (m/s²)", "length (m)")
    space = gd.ContextSpace([5.0, 0.25], [15.0, 1.25], names=("gravity", "length"))
    assert cart_pole(contexts=space).space is space


def test_what_is_not_stated_comes_from_the_environment():
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


def test_what_is_stated_wins_over_the_environment():
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


def test_bounds_follow_the_measure():
    assert walk(measure="success", threshold=0.5).least == 0.0
    assert walk(measure="success", threshold=0.5).reachable() == 1.0
    known = {"best_return": lambda contexts: np.zeros(len(contexts))}
    assert walk(**known).reachable() == 0.0
    assert walk(**known, measure="discounted").reachable() == np.inf
    assert walk().reachable() == np.inf
    assert walk().least is None


def test_the_target_counts_as_solved_above_the_threshold_unless_it_is_told_otherwise():
    assert walk().solved_above == -40.0
    assert walk(solved=-20).solved_above == -20.0


def test_a_box_has_three_metrics_and_two_without_a_worst_return_or_bounds():
    task = walk(worst_return=-200.0)
    assert task.metric_names == ("l2", "embedding", "return-lift", "embedding-raw")
    assert walk().metric_names == ("l2",)
    endless = walk(worst_return=-200.0, contexts={"place": (-8.0, np.inf)})
    assert endless.metric_names == ("l2",)
    assert isinstance(task.make_metric("embedding"), Embedding)
    lift = task.make_metric("return-lift", threshold=-30.0)
    assert isinstance(lift, ReturnLift)
    assert (lift.worst_return, lift.threshold, lift.space) == (-200.0, -30.0, task.space)
    assert task.make_metric("return-lift").threshold == -40.0


def test_l2_is_in_units_of_the_spaces_sides():
    corners = np.array([[5.0, 0.25], [15.0, 0.25], [5.0, 1.25]])
    np.testing.assert_allclose(cart_pole().make_metric().pairwise(corners[:1], corners)[0], [0, 1, 1])
    far = np.array([[0.0], [16.0]])
    endless = walk(contexts={"place": (-8.0, np.inf)})
    assert endless.make_metric("l2").pairwise(far[:1], far[1:])[0, 0] == 16.0


def test_metrics_of_ones_own_come_first_and_the_default_before_all():
    plain = Euclidean()
    task = walk(metrics={"plain": plain, "made": lambda task, threshold: Euclidean(task.space.sides * -threshold)})
    assert task.metric_names == ("plain", "made", "l2")
    assert task.make_metric() is plain
    assert walk(metrics={"plain": plain}, metric="l2").metric_names == ("l2", "plain")
    assert task.make_metric("made", threshold=-2.0).scale.tolist() == [32.0]
    assert walk(metrics={"l2": plain}).make_metric() is plain


def test_a_discrete_space_has_only_the_metrics_that_it_states():
    steps = Matrix([[0, 1, 2], [1, 0, 1], [2, 1, 0]], CELLS)
    task = walk(**DISCRETE, metrics={"steps": steps})
    assert task.metric_names == ("steps",)
    assert task.make_metric() is steps
    assert walk(**DISCRETE).metric_names == ()


def test_it_makes_gymnasium_environments_on_its_target():
    in_jax, anyones = walk().make(), cart_pole().make()
    assert isinstance(in_jax, ContextualEnv)
    assert isinstance(anyones, gd.ContextWrapper)
    for env, task in ((in_jax, walk()), (anyones, cart_pole())):
        assert env.distribution == task.target_particles
        obs, info = env.reset(seed=0)
        assert env.observation_space.contains(obs)
        assert (task.target_particles.points == info["context"]).all(axis=1).any()
    assert anyones.observation_space.shape == (6,)
    assert cart_pole(observe=False).make().observation_space.shape == (4,)


def test_a_function_may_make_the_environment_and_is_told_how_to_render():
    asked = []

    def make(**options):
        asked.append(options)
        return gym.make("CartPole-v1")

    task = cart_pole(env=make)
    task.make()
    task.make(render_mode="rgb_array")
    assert asked == [{}, {"render_mode": "rgb_array"}]


def test_known_elsewhere_it_is_the_same_task_by_another_name():
    task = walk().named("walk", "walk.py:task")
    assert (task.name, task.reference, task.threshold) == ("walk", "walk.py:task", -40.0)
    assert walk(name="mine").named("walk", "walk.py:task").name == "mine"


def test_its_repr_is_one_short_line():
    assert repr(walk(name="walk")) == "Task('walk', contexts place, threshold -40 on the return)"


MISSING = [
    (
        lambda: walk(contexts=None),
        'expected contexts=, such as {"length": (0.05, 1.0)}: name and bounds of each context value',
    ),
    (lambda: walk(target=None), 'expected target=, such as {"place": (low, high)} or Particles(points)'),
    (
        lambda: walk(source=None),
        'expected source=, such as {"place": (low, high)} or Particles(points), or "auto", which finds one',
    ),
    (
        lambda: walk(threshold=float("nan")),
        "expected threshold=, the mean return above which a stage counts as mastered",
    ),
    (
        lambda: gd.Task(env=Walk(), contexts={"place": (0, 1)}, source={"place": 0}, target={"place": 1}),
        "expected threshold=, the mean return above which a stage counts as mastered",
    ),
    (
        lambda: cart_pole(apply=None),
        "expected apply=, a function apply(env, **context) that puts a context into the environment",
    ),
    (
        lambda: cart_pole(env=None),
        "expected env to be a ContextualMDP, a function that makes a Gymnasium environment or the id of one, got None",
    ),
    (lambda: cart_pole(env=lambda: 5).make(), "expected env() to make a Gymnasium environment, got int"),
]
BAD = [
    (lambda: walk(threshold="high"), "expected threshold to be a finite number, got 'high'"),
    (lambda: walk(solved=np.inf), "expected solved to be a finite number, got inf"),
    (lambda: walk(measure="regret"), "expected measure to be one of return, discounted, success; got 'regret'"),
    (lambda: walk(discount=0.0), "expected discount in (0, 1], got 0.0"),
    (lambda: walk(steps=0), "expected steps to be a positive integer, got 0"),
    (lambda: walk(segment=-1), "expected segment to be a positive integer, got -1"),
    (lambda: walk(eval_every=0.5), "expected eval_every to be a positive integer, got 0.5"),
    (lambda: walk(eval_episodes=0), "expected eval_episodes to be a positive integer, got 0"),
    (
        lambda: walk(eval_policy="greedy"),
        "expected eval_policy to be one of deterministic, stochastic; got 'greedy'",
    ),
    (lambda: walk(contexts={"place": 3}), "expected context 'place' as (low, high) or (low, high, unit), got 3"),
    (lambda: walk(contexts="place"), "expected contexts as {name: (low, high)}, got 'place'"),
    (lambda: walk(source={"place": 20}), "expected source inside low [-8.0], high [8.0], got [20.0]"),
    (lambda: walk(target={"place": (8, 6)}), "expected low <= high, got low [8.] and high [6.]"),
    (
        lambda: walk(target={"place": (1, 2, 3)}),
        "expected target as {name: value or (low, high)}, got {'place': (1, 2, 3)}",
    ),
    (
        lambda: walk(target={"place": "far"}),
        "expected target as {name: value or (low, high)}, got {'place': 'far'}",
    ),
    (
        lambda: cart_pole(target={"length": 0.3}),
        "expected target to give a value or a range for each of gravity, length, got length",
    ),
    (lambda: walk(target=gd.Particles([[1.0, 2.0]])), "expected target of dimension 1, got dimension 2"),
    (
        lambda: walk(target=lambda rng: 1 / 0),
        "expected target(rng) to give Particles, got ZeroDivisionError: division by zero",
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
        "expected metrics= on the discrete contexts of task, such as {'steps': geodesic.metrics.Graph(...)}: "
        "no distance is known between them",
    ),
    (
        lambda: walk(metric="manhattan"),
        "expected metric of task to be one of l2; got 'manhattan'",
    ),
    (
        lambda: walk(worst_return=-9.0, name="walk").make_metric("manhattan"),
        "expected metric of walk to be one of l2, embedding, return-lift, embedding-raw; got 'manhattan'",
    ),
    (
        lambda: walk(metric="embedding"),
        "expected worst_return= in task task for the learned metric embedding",
    ),
    (
        lambda: walk(metric="return-lift", worst_return=-9.0, contexts={"place": (-8.0, np.inf)}),
        "expected bounded contexts in task task for the learned metric return-lift",
    ),
    (
        lambda: walk(offers=("steps",)).make_metric(),
        "expected metric 'steps' in metrics= of task task, found none",
    ),
    (
        lambda: walk(drawing=gd.Drawing(axes=("place", "speed"))),
        "expected axes among the context values place, got 'speed'",
    ),
]


@pytest.mark.parametrize(("make", "message"), MISSING + BAD, ids=[message[:60] for _, message in MISSING + BAD])
def test_what_is_missing_or_wrong_is_said_in_one_line(make, message):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert str(caught.value) == message
    assert "\n" not in message


def test_an_apply_that_raises_is_said_in_one_line():
    def broken(env, gravity, length):
        raise KeyError("mass")

    with pytest.raises(InvalidInput) as caught:
        cart_pole(apply=broken).make().reset(seed=0)
    assert str(caught.value) == (
        "expected apply(env, gravity, length) to put a context into <CartPoleEnv<CartPole-v1>>, got KeyError: 'mass'"
    )


def test_tasks_are_frozen_and_contexts_may_be_a_mapping_of_any_kind():
    task = cart_pole(contexts=dict(reversed(CART_POLE.items())), apply=put)
    assert task.space.names == ("length", "gravity")
    assert task.target_particles.points[0, 1] == 9.8
    with pytest.raises(AttributeError):
        task.threshold = 3.0
