"""The hedged geodesic: shares of path, target and space that follow their scores."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import geodesic as gd
from geodesic.contexts import rows_of
from geodesic.curricula import AutoThreshold, HedgedGradient, Search, TargetOnly, build
from geodesic.curricula.hedged import Record, Trend
from geodesic.errors import InvalidInput
from geodesic.records import load_run
from geodesic.runs import run
from geodesic.training.configure import configure
from known_returns import ActionCost, known_returns
from run_files import Interrupted, after_each_segment, contents

SPACE = gd.ContextSpace([0.0, 0.0], [10.0, 10.0])
SOURCE = gd.Particles.uniform([0.0, 0.0], [1.0, 1.0], 50, np.random.default_rng(1))
TARGET = gd.Particles.uniform([9.0, 9.0], [10.0, 10.0], 50, np.random.default_rng(2))
CELLS = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), axis=-1).reshape(-1, 2)


def curriculum(source=SOURCE, target=TARGET, space=SPACE, threshold=5.0, **options):
    return HedgedGradient(source, target, None, threshold, space=space, **options)


def play(method, score, updates, length=lambda contexts: np.full(len(contexts), 10), seed=0, n=20, scale=(1.0, 0.0)):
    """The states of a run in which an episode's score depends on its context and on how many there were before."""
    rng = np.random.default_rng(seed)
    states = [method.init(rng)]
    for count in range(updates):
        contexts = states[-1].distribution.sample(rng, n).astype(np.float32)  # as environments in JAX report them
        returns = scale[0] * np.asarray(score(contexts, count * n), float) + scale[1]
        stages = np.full(n, states[-1].stage)
        started = count * n + np.arange(n)
        episodes = gd.EpisodeBatch(contexts, returns, length(contexts), stages, started=started)
        states.append(method.update(states[-1], episodes, rng))
    return states


def share_of(state, particles):
    """The probability of drawing one of these particles' contexts."""
    return state.distribution.weights[np.isin(rows_of(state.distribution.points), rows_of(particles.points))].sum()


def nothing(contexts, count):
    return np.zeros(len(contexts))


def near(contexts, count):
    """Good enough within a radius that grows as the agent trains."""
    return np.where(np.linalg.norm(contexts, axis=1) < 3.0 + count / 40, 10.0, 0.0)


def test_it_begins_with_all_three_arms_and_hard_contexts_have_most():
    state = curriculum().init(np.random.default_rng(0))
    assert share_of(state, SOURCE) == pytest.approx(0.25)
    assert share_of(state, TARGET) == pytest.approx(0.5)
    assert (state.stage, state.alpha, state.done) == (0, 0.0, False)


def test_no_arm_is_dropped_before_the_target_is_solved():
    for score in (nothing, near):
        for state in play(curriculum(), score, 60):
            assert state.odds.sum() == pytest.approx(1.0)
            assert (state.odds[1:] > 0.01).all()
            assert state.odds[0] > 0.01 or state.alpha == 1.0


def test_the_path_gets_most_once_it_pays_or_its_patience_is_over():
    paid = play(curriculum(), near, 6)[-1]
    assert paid.paying
    assert paid.shares == pytest.approx([0.85, 0.05, 0.1], abs=0.1)
    waited = play(curriculum(patience=10**6), nothing, 20)
    turned = next(state for state in waited if state.paying)
    assert turned.tried >= 60
    assert waited[-1].alpha == 0.0
    assert waited[-1].shares == pytest.approx([0.85, 0.05, 0.1])
    assert not play(curriculum(trial=10**6), nothing, 20)[-1].paying


def shares_after(score, updates=80, **options):
    """The shares, step by step, of a curriculum that soon gives up a path on which alpha does not rise."""
    return [state.shares.round(2).tolist() for state in play(curriculum(patience=150, **options), score, updates)]


def improving(contexts, count):
    """Ever more on the target, in units much below the threshold, and nothing on the path."""
    return np.where((contexts > 8.5).all(axis=1), 1e-5 * count, 0.0)


def late(contexts, count):
    """Nothing at first, and then ever more on the target."""
    return improving(contexts, max(count - 400, 0))


def changes(found):
    return [after for before, after in pairwise(found) if after != before]


def test_a_target_that_improves_from_the_start_is_trained_on_alone():
    found = shares_after(improving)
    assert found[0] == [0.25, 0.5, 0.25]
    assert changes(found) == [[0.0, 1.0, 0.0]]


def test_training_on_the_target_alone_ends_when_it_stops_improving():
    def parked(contexts, count):
        return improving(contexts, min(count, 500))

    found = shares_after(parked, 120)
    assert changes(found) == [[0.0, 1.0, 0.0], [0.85, 0.05, 0.1], [0.25, 0.5, 0.25]]


def test_a_target_that_is_solved_alone_gets_most_of_the_steps():
    def learned(contexts, count):
        return np.where((contexts > 8.5).all(axis=1), min(count / 60, 8.0), 0.0)

    assert changes(shares_after(learned, 150)) == [[0.0, 1.0, 0.0], [0.0, 0.9, 0.1]]


def test_a_trend_needs_a_clear_gain_in_each_block_of_twice_the_size():
    rng = np.random.default_rng(0)

    def after(*blocks):
        trend = Trend(50)
        for block in blocks:
            for part in np.array_split(np.stack([np.zeros(len(block)), block], axis=1), 7):
                trend = trend.observe(part, 20)
        return trend

    def values(mean, count):
        return mean + rng.normal(size=count)

    rising = after(values(0, 50), values(2, 50), values(4, 100), values(6, 200))
    assert (rising.improved, rising.over, rising.size) == (True, False, 400)
    assert after(values(0, 50), values(0, 50)).over
    assert after(values(0, 50), values(2, 50), values(2, 100)).over
    assert after(values(0, 50), values(200, 50), values(202, 100)).over  # less than a tenth of what was gained
    assert after(np.full(20, -100.0)).over  # episodes that are all alike teach nothing
    assert not after(np.full(10, -100.0)).over
    assert after(values(0, 50), values(0, 50), values(9, 100)).over  # for good


def test_a_trend_has_the_moments_of_its_block():
    values = np.random.default_rng(0).normal(1e6, 1.0, (90, 2))
    trend = Trend(100)
    for part in (values[:1], values[1:20], values[20:]):
        trend = trend.observe(part, 20)
    assert trend.mean == pytest.approx(values.mean(axis=0), rel=1e-12)
    assert trend.squares / 90 == pytest.approx(values.var(axis=0), rel=1e-6)


def test_a_path_that_leads_nowhere_gives_way_to_a_target_that_improves():
    assert changes(shares_after(late)) == [[0.85, 0.05, 0.1], [0.25, 0.5, 0.25], [0.3, 0.6, 0.1]]


def test_a_path_on_which_scores_rise_is_not_given_up_though_alpha_does_not():
    def learned(contexts, count):
        return np.where((contexts < 1.5).all(axis=1), 1e-5 * count, 0.0)

    assert changes(shares_after(learned)) == [[0.85, 0.05, 0.1]]


def test_scores_on_a_path_that_moved_are_compared_with_those_since_then():
    record = Record()
    for score in (1.0, 2.0, 9.0):
        record = record.observe(np.full((20, 2), score), 20, clock=score)
    assert (record.first.tolist(), record.best.tolist(), record.improved) == ([1.0, 1.0], [9.0, 9.0], 9.0)
    record = record.restart().observe(np.full((10, 2), 3.0), 20, clock=10.0)
    assert record.score == 6.0  # the latest 20, to look at
    assert np.isnan(record.best).all()
    for clock in (11.0, 12.0, 13.0):
        record = record.observe(np.full((20, 2), clock - 8.0), 20, clock)
    assert (record.first.tolist(), record.improved) == ([3.0, 3.0], 13.0)


def test_where_nothing_makes_progress_hard_contexts_get_most_again():
    assert shares_after(nothing)[-1] == [0.25, 0.5, 0.25]


def test_a_stage_says_why_it_began():
    def rising(contexts, count):
        return np.where((contexts > 8.5).all(axis=1), min(max(count - 400, 0) / 300, 4.0), 0.0)

    def length(contexts):
        return np.where((contexts > 8.5).all(axis=1), 100, 10)

    states = play(curriculum(patience=150), rising, 80)
    assert {state.event for state in states} == {"start", "new shares"}
    assert states[-1].shares == pytest.approx([0.12, 0.78, 0.1])
    assert "new lengths" in {state.event for state in play(curriculum(trial=10**6), nothing, 20, length)}


def test_a_target_that_stops_improving_makes_way_again():
    def stalling(contexts, count):
        return late(contexts, min(count, 1000))

    found = shares_after(stalling, 200)
    assert [0.3, 0.6, 0.1] in found
    assert found[-1] == [0.25, 0.5, 0.25]


def test_a_path_that_reached_the_target_is_not_given_up():
    def forgotten(contexts, count):
        return near(contexts, count) if count < 600 else nothing(contexts, count)

    states = play(curriculum(patience=100), forgotten, 120)
    assert max(state.alpha for state in states) == 1.0
    assert states[-1].shares == pytest.approx([0.85, 0.05, 0.1])


def test_a_path_on_which_alpha_keeps_rising_is_never_given_up():
    patient = play(curriculum(patience=10**9), near, 60)
    for one, other in zip(play(curriculum(), near, 60), patient):
        assert one.distribution == other.distribution
    assert patient[-1].tried > curriculum().patience


def test_returns_tell_of_progress_before_the_first_success():
    method = curriculum(threshold=0.8, patience=100, score="success")
    rng, state = np.random.default_rng(0), None
    state = method.init(rng)
    for count in range(80):
        contexts = state.distribution.sample(rng, 20)
        returns = late(contexts, 20 * count)
        episodes = gd.EpisodeBatch(contexts, returns, np.full(20, 10), np.full(20, state.stage), successes=np.zeros(20))
        state = method.update(state, episodes, rng)
    assert state.shares == pytest.approx([0.3, 0.6, 0.1])


def test_a_path_that_is_learned_is_followed_to_the_target():
    states = play(curriculum(), near, 60)
    alphas = [state.alpha for state in states]
    assert alphas[-1] == 1.0
    assert max(b - a for a, b in pairwise(alphas) if b < 1.0) <= 0.2 + 1e-9
    assert share_of(states[-1], TARGET) > 0.85


def test_a_target_that_is_learned_without_the_path_takes_over():
    def far(contexts, count):
        return np.where((contexts > 8.5).all(axis=1), min(max(count - 100, 0) / 40, 10.0), 0.0)

    states = play(curriculum(), far, 40)
    shares = np.array([state.shares[1] for state in states])
    assert (np.diff(shares) > -0.15).all()
    assert shares.max() < 1.0
    assert states[-1].shares == pytest.approx([0.0, 0.9, 0.1])
    assert states[-1].alpha == 1.0


def test_training_returns_to_the_path_if_the_target_is_lost():
    def fleeting(contexts, count):
        return np.where((contexts > 8.5).all(axis=1), 10.0 if 400 <= count < 800 else 0.0, 0.0)

    states = play(curriculum(), fleeting, 80)
    assert max(state.shares[1] for state in states) == pytest.approx(0.9)
    assert states[-1].shares[1] == pytest.approx(0.5)


def test_shares_are_of_steps():
    """Where episodes on the target are ten times as long, it gets as many steps and so a tenth of the episodes."""

    def length(contexts):
        return np.where((contexts > 8.5).all(axis=1), 100, 10)

    state = play(curriculum(trial=10**6), nothing, 20, length)[-1]
    steps = state.odds * [10, 100, 10]
    assert steps / steps.sum() == pytest.approx(state.shares, abs=0.05)
    assert state.shares == pytest.approx([0.25, 0.5, 0.25])


@pytest.mark.parametrize("score", [near, improving, late])
def test_the_same_stages_whatever_the_unit_of_the_score(score):
    plain = play(curriculum(patience=150), score, 80)
    scaled = play(curriculum(patience=150, threshold=1000.0 * 5.0 - 7.0), score, 80, scale=(1000.0, -7.0))
    assert len({tuple(state.shares) for state in plain}) > 1
    for one, other in zip(plain, scaled):
        assert (one.stage, one.event) == (other.stage, other.event)
        assert one.alpha == pytest.approx(other.alpha, abs=1e-6)
        np.testing.assert_allclose(one.distribution.weights, other.distribution.weights)


class Rescaled(HedgedGradient):
    """Sees returns in another unit than the learner."""

    def update(self, state, episodes, rng):
        return super().update(state, replace(episodes, returns=1024.0 * episodes.returns - 512.0), rng)


def test_an_agent_trains_alike_whatever_the_unit_in_which_the_curriculum_sees_returns(tmp_path):
    task = known_returns(ActionCost(), threshold=7.9)

    def rescaled(problem):
        return Rescaled(problem.source, problem.target, threshold=1024.0 * 7.9 - 512.0, space=problem.space)

    for name, method in (("plain", "auto"), ("rescaled", rescaled)):
        gd.train(task, method, steps=6000, out=tmp_path / name, progress=False)
    plain, other = (load_run(next((tmp_path / name).glob("runs/*/seed-0"))) for name in ("plain", "rescaled"))
    assert len(plain.curriculum) > 3
    np.testing.assert_array_equal(plain.evaluations.returns, other.evaluations.returns)
    assert [row.alpha for row in plain.curriculum] == [row.alpha for row in other.curriculum]


def test_an_interrupted_run_ends_with_the_same_bytes(tmp_path):
    task = known_returns(ActionCost(), threshold=7.9)
    config = configure(task, "auto", 0, 6000)
    run.start([config], [tmp_path / "whole"], task).train()
    batch = run.start([config], [tmp_path / "interrupted"], task)

    def interrupt(index):
        if batch.sessions[index].state.stage:
            raise Interrupted

    after_each_segment(batch, interrupt)
    batch.checkpoint_seconds = 0.0
    with pytest.raises(Interrupted):
        batch.train()
    run.extend(tmp_path / "interrupted", None, task).train()
    assert contents(tmp_path / "interrupted") == contents(tmp_path / "whole")
    assert len(load_run(tmp_path / "whole").curriculum) > 3


def test_without_a_source_the_path_searches_for_one():
    method = build("auto", gd.Problem("auto", TARGET, SPACE, 5.0))
    assert isinstance(method, HedgedGradient)
    assert isinstance(method.path, Search)
    states = play(method, near, 120)
    assert states[0].kind == "explore"
    assert share_of(states[0], TARGET) == pytest.approx(0.5)
    assert states[-1].alpha == 1.0
    with pytest.raises(InvalidInput, match="expected a bounded space to search for a source in"):
        curriculum("auto", space=None)


def test_discrete_contexts_stay_on_their_support():
    corner, opposite = CELLS.sum(axis=1) <= 1, CELLS.sum(axis=1) >= 9
    space = gd.ContextSpace.discrete(CELLS)
    metric = gd.metrics.Matrix(np.abs(CELLS[:, None] - CELLS).sum(axis=2), CELLS)
    source, target = gd.Particles.categorical(corner, CELLS), gd.Particles.categorical(opposite, CELLS)
    method = HedgedGradient(source, target, metric, 5.0, space=space)
    for state in play(method, lambda contexts, count: np.where(contexts.sum(axis=1) < count / 60, 10.0, 0.0), 60):
        assert space.contains(state.distribution.points).all()
        assert len(state.distribution) == len(CELLS)  # the space arm has every cell
    assert state.alpha == 1.0


def test_an_unbounded_space_is_replaced_by_a_box_around_both_ends():
    space = gd.ContextSpace([0.0, -np.inf], [np.inf, np.inf])
    box = curriculum(space=space).box
    ends = np.concatenate([SOURCE.points, TARGET.points])
    assert box.low.tolist() == [0.0, ends[:, 1].min()]
    assert box.high.tolist() == ends.max(axis=0).tolist()
    assert play(curriculum(space=space), near, 60)[-1].alpha == 1.0


def test_a_state_is_saved_and_restored():
    method = curriculum()
    states = play(method, near, 20)
    for state in (states[0], states[7], states[-1]):
        arrays = method.save(state)
        for name, value in method.save(method.load(arrays)).items():
            np.testing.assert_array_equal(value, arrays[name])
    snapshot = method.snapshot(states[-1])
    assert snapshot["shares"].sum() == pytest.approx(1.0)


def test_options_are_checked():
    for options in (
        {"waiting": (1.0, 2.0)},
        {"paying": (-1.0, 1.0, 1.0)},
        {"patience": 0},
        {"trial": 0},
        {"stride": 2.0},
    ):
        with pytest.raises(InvalidInput):
            curriculum(**options)
    assert curriculum(waiting=(2, 1, 1)).waiting == (0.5, 0.25, 0.25)


def probed(method="auto", **options):
    return build(method, gd.Problem(SOURCE, TARGET, SPACE, "auto"), **options)


def test_a_threshold_is_found_between_the_untrained_agents_score_and_the_best():
    def score(contexts, count):  # an untrained agent earns 3 near the source, else 1; a trained one 9 or 5
        easy = np.linalg.norm(contexts, axis=1) < 3.0
        return np.where(easy, 3.0, 1.0) if count < 100 else np.where(easy, 9.0, 5.0)

    states = play(probed("gradient", step=0.25, window=10), score, 40)
    assert states[0].kind == "explore"
    assert [state.event for state in states].index("probed") == 2  # after 40 episodes
    assert states[-1].untrained.tolist() == [3.0, 1.0]
    moved = next(state for state in states if state.alpha == 0.25)
    assert moved.best > 3.0
    for state, alpha in ((moved, 0.0), (states[-1], 1.0)):
        untrained = (1 - alpha) * 3.0 + alpha * 1.0
        assert state.threshold == pytest.approx(untrained + 0.5 * (state.best - untrained))
    assert states[-1].alpha == 1.0
    assert [state.best for state in states] == sorted(state.best for state in states)


def test_a_source_that_even_an_untrained_agent_masters_is_left_in_the_end():
    def score(contexts, count):
        return np.where((np.linalg.norm(contexts, axis=1) < 3.0) | (count >= 400), 9.0, 1.0)

    states = play(probed("gradient", step=0.25, window=10), score, 60)
    assert max(state.alpha for state in states[:10]) == 0.0
    assert states[-1].alpha == 1.0


def test_nothing_is_good_enough_before_anything_was_earned():
    for state in play(probed(), nothing, 30):
        assert state.alpha == 0.0


def test_a_threshold_that_is_found_moves_with_the_score():
    plain, scaled = play(probed(), near, 40), play(probed(), near, 40, scale=(1000.0, -7.0))
    for one, other in zip(plain, scaled):
        assert (one.stage, one.event) == (other.stage, other.event)
        assert one.alpha == pytest.approx(other.alpha, abs=1e-6)
    assert scaled[-1].threshold == pytest.approx(1000.0 * plain[-1].threshold - 7.0)
    assert plain[-1].alpha == 1.0


def test_gradient_can_follow_a_threshold_that_is_found():
    method = probed("gradient", step=0.2, window=10)
    assert isinstance(method, AutoThreshold)
    assert play(method, near, 60)[-1].alpha == 1.0
    searched = build("gradient", gd.Problem("auto", TARGET, SPACE, "auto"), pace="adaptive")
    assert play(searched, near, 150)[-1].alpha == 1.0


def test_methods_that_need_a_number_say_so():
    with pytest.raises(InvalidInput, match="expected a number as the threshold of CURROT, got 'auto'"):
        probed("currot")
    assert not isinstance(probed("uniform"), AutoThreshold)


@pytest.mark.parametrize("source", [SOURCE, "auto"], ids=["source", "no source"])
def test_a_run_that_is_restored_before_every_update_is_the_same(source):
    def make():
        return build("auto", gd.Problem(source, TARGET, SPACE, "auto"))

    class Restored:
        def init(self, rng):
            return make().init(rng)

        def update(self, state, episodes, rng):
            made = make()
            return made.update(made.load(make().save(state)), episodes, rng)

    plain, restored = play(make(), near, 100), play(Restored(), near, 100)
    for one, other in zip(plain, restored):
        assert (one.stage, one.alpha, one.event, one.kind) == (other.stage, other.alpha, other.event, other.kind)
        assert one.threshold == other.threshold
        assert one.distribution == other.distribution
    assert plain[-1].alpha == 1.0
    assert len({state.threshold for state in plain}) > 10


def test_a_found_threshold_needs_a_method_that_follows_it():
    method = HedgedGradient(SOURCE, TARGET, space=SPACE)
    assert AutoThreshold(method, SOURCE, TARGET, SPACE).fraction == 0.5
    line = gd.Particles([[0.0]])
    for arguments, message in (
        ((3, SOURCE, TARGET, SPACE), "expected method to be Curriculum, got int"),
        ((TargetOnly(TARGET), SOURCE, TARGET, SPACE), "expected a method whose threshold may change, got TargetOnly"),
        ((method, [[0.0, 0.0]], TARGET, SPACE), "expected easy to be Particles, got list"),
        ((method, line, TARGET, SPACE), "expected easy and target of one dimension, got 1 and 2"),
        ((method, SOURCE, TARGET, gd.ContextSpace([0.0, 0.0], [1.0, np.inf])), "expected a bounded context space"),
    ):
        with pytest.raises(InvalidInput, match=message):
            AutoThreshold(*arguments)


def test_the_threshold_is_restored_with_the_state():
    method = probed()
    states = play(method, near, 20)
    for state in (states[0], states[-1]):
        again = method.load(method.save(state))
        assert (again.threshold, again.stage, again.alpha) == (state.threshold, state.stage, state.alpha)
        assert again.distribution == state.distribution
