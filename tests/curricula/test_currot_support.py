"""CURROT on a finite support: its particles follow the metric, no further than the agent can."""

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import CURROT
from geodesic.curricula.currot import SupportTable
from geodesic.envs.maze import EMaze
from geodesic.tasks import load
from geodesic.tasks.methods import build, resolve

# Seven points of a U: the ends are near each other, and six edges apart.
U = np.array([(0.0, 2.0), (0.0, 1.0), (0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (2.0, 1.0), (2.0, 2.0)])
PATH = gd.metrics.Graph(U, [(i, i + 1) for i in range(6)])
ENDS = tuple(gd.Particles.categorical(np.eye(7)[i], U) for i in (0, 6))
MAZE = EMaze()


def on_u(metric=PATH, **options):
    space = gd.ContextSpace.discrete(U)
    given = {"threshold": 0.5, "episodes_per_update": 20, "n_particles": 30, "metric": metric, **options}
    return CURROT(*ENDS, space, **given)


def trail(method, score, rounds):
    rng = np.random.default_rng(0)
    states = [method.init(rng)]
    for _ in range(rounds):
        contexts = states[-1].distribution.sample(rng, 20)
        scores, stages = score(contexts), np.full(20, states[-1].stage)
        episodes = gd.EpisodeBatch(contexts, scores, np.ones(20), stages, discounted=scores)
        states.append(method.update(states[-1], episodes, rng))
    return states


def test_a_competent_agent_is_led_along_the_graph_one_neighbour_at_a_time():
    states = trail(on_u(), lambda c: np.ones(len(c)), 8)
    for place, state in enumerate(states[:7]):
        np.testing.assert_array_equal(state.particles, np.tile(U[place], (30, 1)))
        assert state.alpha == pytest.approx(place / 6)
    assert states[-1].stage == 6  # at the target nothing moves any more


def test_a_larger_epsilon_reaches_as_far_on_the_graph():
    states = trail(on_u(epsilon=0.5), lambda c: np.ones(len(c)), 2)
    assert [state.particles[0].tolist() for state in states] == [U[0].tolist(), U[3].tolist(), U[6].tolist()]


def test_particles_wait_where_the_agent_fails_and_go_back_when_it_forgets():
    """Nothing beyond the fourth point can be solved: they try the fifth and return."""
    states = trail(on_u(), lambda c: (c[:, 0] < 1.5).astype(float), 12)
    places = [set(PATH.index(state.particles)) for state in states]
    assert max(max(place) for place in places) == 4
    assert set().union(*places[6:]) <= {3, 4}
    assert any("particles back" in state.event for state in states)


def test_without_a_metric_it_goes_straight_from_end_to_end():
    states = trail(on_u(metric=None, epsilon=0.3), lambda c: np.ones(len(c)), 8)
    assert not any((state.distribution.points[:, 1] == 0).any() for state in states)


def test_distances_are_in_units_of_the_longest_from_source_to_target():
    table = SupportTable(PATH, *ENDS)
    np.testing.assert_allclose(table.distances[0], np.arange(7) / 6)
    assert table.matched(U[[0, 5]], U[[6, 1]]).tolist() == [1, 0]
    kernel = np.exp(-0.5 * (np.abs(np.arange(7)[:, None] - [0, 4]) / 6 / 0.2) ** 2)
    np.testing.assert_allclose(
        table.estimate(U[[0, 4]], np.array([1.0, 3.0]), 0.2), kernel @ [1, 3] / kernel.sum(axis=1)
    )


def judge(table, good):
    """Which contexts are mastered, from a value for each support point."""
    return lambda points: np.asarray(good)[table.metric.index(points)]


def test_ties_go_to_the_nearest_point_and_no_step_leads_away():
    cross = gd.metrics.Matrix([[0, 1, 2, 2], [1, 0, 1, 1], [2, 1, 0, 1], [2, 1, 1, 0]], np.arange(4.0)[:, None])
    table = SupportTable(cross, gd.Particles([[0.0]]), gd.Particles([[3.0]]))
    start, goal = np.array([[0.0]]), np.array([[3.0]])
    good, anything = judge(table, [True, True, True, False]), judge(table, np.ones(4, bool))
    assert table.onward(start, goal, good, 1.0).tolist() == [[1.0]]
    assert table.onward(np.array([[1.0]]), goal, good, 1.0).tolist() == [[1.0]]
    assert table.onward(start, goal, anything, 0.1).tolist() == [[1.0]]
    assert table.onward(start, goal, anything, 1.0).tolist() == [[3.0]]


def test_a_step_is_long_enough_to_connect_source_and_target():
    """Each of 0, 1, 2, 3 has a twin close by, as cells of a maze can under a metric of values."""
    places = np.array([0.0, 1.0, 2.0, 3.0, -0.1, 0.9, 1.9, 2.9])
    twins = gd.metrics.Matrix(np.abs(places[:, None] - places), places[:, None])
    table = SupportTable(twins, gd.Particles([[0.0]]), gd.Particles([[3.0]]))
    assert table.stride == pytest.approx(0.9 / 3)
    here = np.array([[0.0]])
    for _ in range(8):
        here = table.onward(here, np.array([[3.0]]), judge(table, np.ones(8, bool)), 0.01)
    assert here.tolist() == [[3.0]]


def test_in_the_e_maze_shortest_paths_lead_around_the_wall_where_straight_lines_stop_at_it():
    task = load("e-maze")

    def at_the_end(metric):
        method = build(task, *resolve(task, f"currot:metric={metric}:n_particles=30"), threshold=task.threshold)
        return trail(method, lambda c: MAZE.optimal_returns[MAZE.context_space.index(c)], 50)

    around = at_the_end("graph")
    assert around[-1].alpha == 1.0
    assert max(state.particles[:, 0].min() for state in around) >= 15  # all were once at the bottom
    assert not any((~MAZE.is_feasible(state.particles)).any() for state in around)
    assert at_the_end("l2")[-1].particles[:, 1].max() == 3


def test_it_takes_the_tasks_metric_on_discrete_contexts_only():
    assert resolve(load("e-maze"), "currot")[2] == "graph"
    assert resolve(load("e-maze"), "currot:metric=l2")[2] == "l2"
    assert resolve(load("point-mass"), "currot")[2] is None
    with pytest.raises(gd.GeodesicError) as caught:
        resolve(load("point-mass"), "currot", "l2")
    assert str(caught.value) == "expected discrete contexts for currot with a metric, got point-mass with l2"
    with pytest.raises(gd.GeodesicError) as caught:
        resolve(load("e-maze"), "currot", "policy-returns")
    assert str(caught.value) == "expected a metric that is known before training for currot, got policy-returns"
