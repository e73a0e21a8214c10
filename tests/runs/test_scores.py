"""The kind of score of a task is what runs record and what decides when a stage is mastered."""

import numpy as np
import pytest

from geodesic.records import load_run
from geodesic.runs import run
from geodesic.training.configure import configure
from known_returns import known_returns


def trained(tmp_path, **options):
    task = known_returns(**options)
    run.start([configure(task, "gradient", seed=0)], [tmp_path / "r"], task).train()
    return load_run(tmp_path / "r")


def discounted(lengths, g):
    """1 a step for L steps: (1 - g^L) / (1 - g)."""
    return (1 - g ** np.asarray(lengths)) / (1 - g)


def test_the_return_is_the_score_by_default(tmp_path):
    result = trained(tmp_path)
    assert result.score == "return"
    np.testing.assert_array_equal(result.episodes.returns, result.episodes.lengths)
    np.testing.assert_array_equal(result.episodes.scores, result.episodes.returns)
    assert (result.evaluations.returns == 8).all()
    assert (result.evaluations.scores == 8).all()
    assert result.evaluations.steps.tolist() == [0, 200, 400, 600]


@pytest.mark.parametrize("g", [0.9, pytest.param(0.5, marks=pytest.mark.slow)])
def test_scores_are_discounted_returns(tmp_path, g):
    result = trained(tmp_path, score="discounted_return", discount=g, threshold=1.0)
    np.testing.assert_array_equal(result.episodes.returns, result.episodes.lengths)
    assert set(result.episodes.lengths) == {4, 6, 8}
    np.testing.assert_allclose(result.episodes.scores, discounted(result.episodes.lengths, g), rtol=1e-6)
    np.testing.assert_allclose(result.evaluations.scores, discounted(8, g), rtol=1e-6)
    assert (result.evaluations.returns == 8).all()
    assert result.config.discount == g


@pytest.mark.parametrize("luck", [0.0, 1.0])
def test_scores_are_successes(tmp_path, luck):
    result = trained(tmp_path, score="success", target={"length": 8.0, "luck": luck}, threshold=0.5)
    assert set(result.episodes.scores) <= {0.0, 1.0}
    np.testing.assert_array_equal(result.episodes.scores, result.episodes.contexts[:, 1] > 0.5)
    np.testing.assert_array_equal(result.episodes.scores, result.episodes.successes)
    assert (result.evaluations.scores == luck).all()
    assert (result.evaluations.returns == 8).all()


@pytest.mark.parametrize(
    ("score", "threshold", "stages"),
    [
        ("return", 3.5, 3),  # a return of 4 at the source: mastered twice, which ends at the target
        ("discounted_return", 3.4, 3),  # (1 - 0.9^4) / 0.1 = 3.439
        ("discounted_return", 3.5, 1),  # never mastered, though the return is above it
        ("return", 4.0, 1),  # not above it
        ("success", 0.5, 3),
    ],
)
def test_stages_are_mastered_on_the_score(tmp_path, score, threshold, stages):
    result = trained(tmp_path, score=score, discount=0.9, threshold=threshold)
    assert len(result.stages.stages) == stages
    assert result.stages.alphas.tolist() == [0.0, 0.5, 1.0][:stages]
    assert set(result.stages.events[1:]) <= {"mastered"}


def test_a_stage_without_success_is_not_mastered(tmp_path):
    result = trained(tmp_path, score="success", source={"length": 4.0, "luck": 0.2}, threshold=0.5)
    assert len(result.stages.stages) == 1
    assert not result.episodes.scores.any()
    assert (result.episodes.returns == 4).all()
