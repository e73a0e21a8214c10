"""Forged values in configurations and checkpoints; `benchmarks/reliability/forged.py` tries a thousand."""

import shutil

import numpy as np
import pytest
from benchmarks.reliability import forged

from geodesic.errors import CheckpointError
from geodesic.records import checkpoint, checkpoint_path


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return forged.interrupted(tmp_path_factory.mktemp("forged") / "whole")


@pytest.mark.parametrize("forge", [forged.forge_configs, forged.forge_checkpoints])
def test_one_wrong_value_is_refused_in_one_line(whole, forge):
    tally = forge(whole, 50, np.random.default_rng())
    assert not tally.bad, "\n".join(tally.bad)
    assert tally.refused > 25


@pytest.mark.parametrize(
    ("arrays", "meta", "reason"),
    [
        ({"curriculum/stage": np.array(2**63 - 1)}, {}, r"expected stage in \[0, "),
        ({"curriculum/stage": np.array(1)}, {}, "expected stage 0, the last one recorded, got 1"),
        ({"curriculum/alpha": np.array(1.5)}, {}, r"expected alpha in \[0, 1\]"),
        ({"curriculum/recent": np.full(5, np.inf)}, {}, "expected recent to be finite"),
        ({"device.slots.length": np.full(1, 2**31 - 1, np.int32)}, {}, "a running episode has impossible numbers"),
        ({}, {"batch_members": [f"x{k}" for k in range(100_000)]}, "expected runs that were started together"),
        ({}, {"batch_members": ["x"]}, "its runs have other names"),
        ({}, {"segment": 2**31 - 1, "updates": 2**31 - 1}, "its counts are not those of a run of this budget"),
        ({}, {"updates": 7}, "its counts are not those of a run of this budget"),
        ({}, {"step": 0}, "its step 0 is before the last one recorded"),
        ({}, {"step": 1000, "segment": 2, "updates": 2}, "its counts are not those"),  # was not evaluated there
        ({}, {"step": 10**6}, "its counts are not those of a run of this budget"),
        ({}, {"train_score": 10**400}, "as a number"),
    ],
)  # fmt: skip
def test_impossible_numbers_are_refused(whole, tmp_path, arrays, meta, reason):
    folder = shutil.copytree(whole, tmp_path / "run")
    kept = checkpoint.load(checkpoint_path(folder))
    checkpoint.save(checkpoint_path(folder), {**kept.arrays, **arrays}, {**kept.meta, **meta})
    with pytest.raises((CheckpointError, ValueError), match=reason):
        forged.resume(folder)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_an_optimiser_that_is_not_finite_is_refused(whole, tmp_path, value):
    folder = shutil.copytree(whole, tmp_path / "run")
    kept = checkpoint.load(checkpoint_path(folder))
    name = next(name for name in kept.arrays if "optimiser" in name and ".mu" in name)
    checkpoint.save(checkpoint_path(folder), {**kept.arrays, name: np.full_like(kept.arrays[name], value)}, kept.meta)
    with pytest.raises(CheckpointError, match="not finite"):
        forged.resume(folder)
