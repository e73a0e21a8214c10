from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import geodesic as gd
from geodesic.curricula import GoalGAN, gan

SPACE = gd.ContextSpace([-2.0, 0.0], [2.0, 4.0])
SOURCE = gd.Particles.gaussian([1.0, 3.0], 0.3, 300, np.random.default_rng(0), SPACE.low, SPACE.high)


def probability(contexts: np.ndarray) -> np.ndarray:
    """Success grows with the second coordinate: intermediate between 1.63 and 2.37, certain in the source."""
    return np.asarray(1 / (1 + np.exp(-3.0 * (contexts[:, 1] - 2.0))))


def intermediate(contexts: np.ndarray) -> float:
    p = probability(contexts)
    return float(((p > 0.25) & (p < 0.75)).mean())


def test_pretraining_puts_the_goals_on_the_source() -> None:
    state = GoalGAN(SOURCE, SPACE, 0.0).init(np.random.default_rng(1))
    np.testing.assert_allclose(state.distribution.mean(), [1.0, 3.0], atol=0.35)
    assert gd.wasserstein(state.distribution, SOURCE) < 0.6


@pytest.mark.parametrize(("form", "updates", "steps"), [("original", 40, 40), ("small", 80, 30)])
def test_it_concentrates_on_goals_of_intermediate_success(form: Any, updates: int, steps: int) -> None:
    rng = np.random.default_rng(4)
    curriculum = GoalGAN(SOURCE, SPACE, 0.5, form=form, fit_steps=steps)
    state = curriculum.init(rng)
    first, fractions = intermediate(state.distribution.points), []
    for _ in range(updates):
        contexts = state.distribution.sample(rng, 25)
        returns = (rng.random(25) < probability(contexts)).astype(float)
        episodes = gd.EpisodeBatch(contexts, returns, np.full(25, 50), np.full(25, state.stage))
        state = curriculum.update(state, episodes, rng)
        fractions.append(intermediate(state.distribution.points))
    uniform = intermediate(SPACE.uniform(5000, rng).points)
    assert first < 0.2
    assert uniform == pytest.approx(0.18, abs=0.02)
    assert np.mean(fractions[-30:]) > 2.2 * uniform


def test_reported_success_wins_over_the_threshold() -> None:
    curriculum = GoalGAN(SOURCE, SPACE, 5.0, pretrain_steps=1, neighbours=1)
    state = curriculum.init(np.random.default_rng(0))
    contexts, successes = [[1.0, 1.0], [0.0, 1.0], [-1.0, 1.0]], [0.0, np.nan, np.nan]
    episodes = gd.EpisodeBatch(contexts, [9.0, 9.0, 1.0], [1, 1, 1], [0, 0, 0], successes=successes)
    np.testing.assert_array_equal(curriculum.success(state.absorb(episodes, 200, "return")), [0.0, 1.0, 0.0])


def test_success_is_averaged_over_the_nearest_contexts() -> None:
    curriculum = GoalGAN(SOURCE, SPACE, 5.0, pretrain_steps=1, neighbours=2)
    contexts = [[0.0, 0.0], [0.0, 0.1], [1.0, 4.0], [1.0, 3.9]]
    tried = gd.EpisodeBatch(contexts, np.zeros(4), np.ones(4), np.zeros(4), successes=[1.0, 0.0, 1.0, 1.0])
    state = curriculum.init(np.random.default_rng(0)).replace(recent=tried)
    np.testing.assert_array_equal(curriculum.success(state), [0.5, 0.5, 1.0, 1.0])


def test_without_a_goal_of_intermediate_success_the_networks_stay() -> None:
    rng = np.random.default_rng(3)
    curriculum = GoalGAN(SOURCE, SPACE, 5.0, pretrain_steps=1)
    state = curriculum.init(rng)
    hopeless = gd.EpisodeBatch(
        state.distribution.sample(rng, 30), np.zeros(30), np.full(30, 9), np.zeros(30, dtype=int)
    )
    after = curriculum.update(state, hopeless, rng)
    assert (after.stage, after.fresh) == (0, 0)
    assert after.params is state.params
    assert after.distribution is state.distribution


def test_mastered_goals_lie_apart_and_return_with_probability_p_old() -> None:
    rng = np.random.default_rng(4)
    curriculum = GoalGAN(SOURCE, SPACE, 5.0, pretrain_steps=1, p_old=0.3, noise=0.0, neighbours=1)
    contexts = [[1.0, 1.0], [1.0, 1.001], [-1.0, 1.0]]
    tried = gd.EpisodeBatch(contexts, np.zeros(3), np.ones(3), np.zeros(3), successes=np.ones(3))
    state = curriculum.init(rng).replace(recent=tried, fresh=3)
    mastered = curriculum.collect(state, curriculum.success(state))
    np.testing.assert_array_equal(mastered, [[1.0, 1.0], [-1.0, 1.0]])
    drawn = curriculum._draw(state.params, mastered, rng).points
    old = (drawn[:, None] == mastered).all(axis=2).any(axis=1)
    assert old.sum() == 150


@pytest.mark.parametrize(("form", "aim"), [("original", 1.0), ("small", 0.0)])
def test_the_losses_are_those_of_the_paper(form: str, aim: float) -> None:
    """The generator's aim is the paper's c = 0 in the small form, and b = 1, as in the authors' code, in the other."""
    rng, networks = np.random.default_rng(5), gan.FORMS[form]
    params = gan.init(2, rng, networks)
    goals, noise = (rng.normal(size=(6, 2)).astype(np.float32) for _ in range(2))
    labels = np.array([1, 0, 1, 0, 0, 1], dtype=np.float32)
    seen = np.asarray(gan.discriminate(params, goals, networks))
    made = np.asarray(gan.discriminate(params, np.asarray(gan.generate(params, noise, networks)), networks))
    expected = np.mean(labels * (seen - 1) ** 2 + (1 - labels) * (seen + 1) ** 2) + np.mean((made + 1) ** 2)
    loss = gan.discriminator_loss(params["discriminator"], params["generator"], goals, labels, noise, networks)
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    loss = gan.generator_loss(params["generator"], params["discriminator"], noise, networks)
    assert float(loss) == pytest.approx(np.mean((made - aim) ** 2), rel=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p_old": 2.0}, "expected p_old in [0, 1], got 2.0"),
        ({"noise": -0.1}, "expected noise to be non-negative, got -0.1"),
    ],
)
def test_bad_options(options: dict[str, float], message: str) -> None:
    with pytest.raises(gd.GeodesicError) as caught:
        GoalGAN(SOURCE, SPACE, 0.0, **options)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_the_original_form_has_the_authors_networks_and_units() -> None:
    rng, form = np.random.default_rng(0), gan.FORMS["original"]
    params = gan.init(2, rng, form)
    shapes = {name: [layer["kernel"].shape for layer in net.values()] for name, net in params.items()}
    assert shapes == {"generator": [(2, 256), (256, 256), (256, 2)], "discriminator": [(2, 128), (128, 128), (128, 1)]}
    below = {
        name: {"kernel": np.ones((1, 1), np.float32), "bias": np.zeros(1, np.float32)} for name in params["generator"]
    }
    assert float(gan.discriminate({"discriminator": below}, np.array([[-2.0]]), form)[0]) == pytest.approx(-0.02)
    # the bounds of the space are where the generator's output is 1 / 2, so that goals there need no saturated unit
    assert np.abs(gan.sample(params, 200, 2, rng, form)).max() > 1
    assert np.abs(gan.sample(gan.init(2, rng, gan.FORMS["small"]), 200, 2, rng, gan.FORMS["small"])).max() <= 1


def test_rmsprop_is_that_of_tensorflow_1() -> None:
    """Mean squares m begin at 1: m <- 0.9 m + 0.1 g^2, then a step of -0.001 g / sqrt(m + 1e-10)."""
    optimizer, weights, means = gan.FORMS["original"].optimizer, np.array([1.0, -2.0]), np.ones(2)
    state = optimizer.init(weights)
    for slope in (np.array([0.5, 4.0]), np.array([-1.0, 0.0])):
        step, state = optimizer.update(slope, state)
        means = 0.9 * means + 0.1 * slope**2
        np.testing.assert_allclose(step, -1e-3 * slope / np.sqrt(means + 1e-10), rtol=1e-5)


@pytest.mark.parametrize(("form", "most"), [("original", 0.12), ("small", 0.17)])
def test_first_goals_lie_on_the_source(form: Any, most: float) -> None:
    space = gd.ContextSpace([-4.0, 0.5], [4.0, 8.0])
    source = gd.Particles.gaussian([0, 4.25], [2, 1.875], 500, np.random.default_rng(0), space.low, space.high)
    state = GoalGAN(source, space, 0.0, form=form).init(np.random.default_rng(1))
    assert gd.wasserstein(state.distribution, source) / np.linalg.norm(space.sides) < most
