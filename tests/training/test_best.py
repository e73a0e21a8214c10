"""The best policy so far: which one is kept, and that a checkpoint restores what is needed to find a better one."""

import math

import numpy as np
import pytest

from geodesic.errors import CheckpointError, InvalidInput, UnknownName
from geodesic.records import checkpoint
from geodesic.records.schema import checkpoint_path
from geodesic.training.best import BestPolicy, policy_arrays, with_policy


def kept_after(*scores):
    """The index of the evaluation whose policy is kept."""
    best = BestPolicy()
    for step, score in enumerate(scores):
        best.update(step, score, {"weights": np.array([float(step)])})
    return int(best.arrays["weights"][0]) if best.arrays else None


@pytest.mark.parametrize(("scores", "kept"), [
    ((0, 1, 2, 3), 3),
    ((3, 3, 3), 2),  # of equal ones the latest
    ((0, 50, 60, 60, 60, 10, 20), 4),
    ((1, 80, 79, 2), 2),  # the mean before the collapse does not make the collapsed one the best
    ((0, 0, 90, 0, 40, 40, 40), 6),  # a lucky one among bad ones
    ((-200, -100, -150, -160), 2),
    ((math.nan, math.nan), None),
    ((math.nan, 1, math.nan, 0), 1),
    ((2, math.nan, math.nan), 0),
])  # fmt: skip
def test_the_policy_with_the_best_smoothed_evaluation_is_kept(scores, kept):
    assert kept_after(*scores) == kept


def stored(folder, policy, **changes):
    arrays, meta = policy.save()
    path = checkpoint_path(folder)
    path.parent.mkdir(exist_ok=True)
    checkpoint.save(path, {"weights": np.array([9.0]), "critic": np.array([7.0]), **arrays}, {**meta, **changes})
    return checkpoint.load(path)


def test_an_interrupted_search_continues_as_an_uninterrupted_one(tmp_path):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=30).tolist()
    best, resumed = BestPolicy(), BestPolicy()
    for step, score in enumerate(scores):
        for each in (best, resumed):
            each.update(step, score, {"weights": np.array([float(step)])})
        resumed = BestPolicy.load(stored(tmp_path, resumed))
        assert resumed.save()[1] == best.save()[1]
        assert resumed.arrays == best.arrays


def test_the_policies_of_a_checkpoint_are_read_by_name(tmp_path):
    best = BestPolicy()
    best.update(100, 1.0, {"weights": np.array([1.0])})
    found = stored(tmp_path, best)
    assert with_policy(found, "best")["weights"] == 1.0
    assert with_policy(found, "best")["critic"] == 7.0
    assert with_policy(found, "last")["weights"] == 9.0
    for which, weights in (("best", 1.0), ("last", 9.0)):
        arrays, read = policy_arrays(tmp_path, ["weights"], which)
        assert arrays == {"weights": np.array([weights])}
        assert len(read.arrays) == 1  # nothing else was read
    with pytest.raises(UnknownName, match="expected which to be one of best, last; got 'bset'; did you mean best"):
        policy_arrays(tmp_path, ["weights"], "bset")
    with pytest.raises(CheckpointError, match="expected the best policy to have 'critic', got none in .*latest.npz"):
        policy_arrays(tmp_path, ["weights", "critic"], "best")


def test_a_run_without_evaluations_has_no_best_policy(tmp_path):
    found = stored(tmp_path, BestPolicy())
    for ask in (lambda: with_policy(found, "best"), lambda: policy_arrays(tmp_path, ["weights"], "best")):
        with pytest.raises(
            InvalidInput, match=r"expected a run that was evaluated on the target, .*; try which='last'"
        ):
            ask()


@pytest.mark.parametrize("meta", [
    {"recent": [1, "2"], "score": 1.0, "step": 1}, {"recent": 3, "score": 1.0, "step": 1},
    {"recent": [], "score": "high", "step": 1}, {"recent": [], "score": 1.0, "step": -1}, {"recent": [1e200]}, None,
])  # fmt: skip
def test_metadata_of_other_types_is_refused(tmp_path, meta):
    with pytest.raises(CheckpointError):
        BestPolicy.load(stored(tmp_path, BestPolicy(), best=meta))


def test_values_that_are_not_numbers_are_refused(tmp_path):
    best = BestPolicy()
    best.update(100, 1.0, {"weights": np.array([np.nan])})
    with pytest.raises(CheckpointError, match="its best policy has values that are not finite"):
        BestPolicy.load(stored(tmp_path, best))
