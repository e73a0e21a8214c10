"""Validation of a checkpoint: its headers before any data is read, its state before any file is changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from geodesic.checks import MOST
from geodesic.contexts import Array, Arrays, ContextSpace, EpisodeBatch, Particles
from geodesic.contexts.episodes import COLUMNS
from geodesic.curricula import State
from geodesic.errors import CheckpointError
from geodesic.records import Checkpoint, RunConfig, checkpoint
from geodesic.records.archive import Header, Headers
from geodesic.records.config import LOOPS
from geodesic.records.files import LONGEST
from geodesic.records.tables import Recorded
from geodesic.training.best import BEST

if TYPE_CHECKING:
    from geodesic.learners.base import Learner, LearnerState

CURRICULUM, WAITING = "curriculum/", "waiting/"  # prefixes of a checkpoint's arrays
ROUNDING = 1e-5  # by which contexts may lie outside of their space: environments in JAX have 32 bits
MAY_BE_NAN = ("/successes", "/discounted")  # of episodes, where the environment does not say
KINDS = ("b", "iuf", "SU")  # groups of array types that may replace each other


def check_members(
    headers: Headers, agent: Headers, own: Arrays, state: type[State], unchecked: str | None = None
) -> None:
    """Refuse a checkpoint with members that the run does not have.

    agent: the members of its trainer, which must match exactly. own: what the curriculum saves in its first state;
    sizes may differ, types and dimensions may not. unchecked: prefix of keys exempt from checks. Arrays of the best
    policy must be like those that they replace.
    """
    checkpoint.require(agent, headers)
    known, waiting = {field.name for field in fields(state)}, {WAITING + name for name in COLUMNS}
    for name, header in headers.items():
        free = unchecked is not None and name.removeprefix(BEST).startswith(unchecked)
        if name in agent or name in waiting or (free and not name.startswith(BEST)):
            continue
        if (free or name.removeprefix(BEST) in agent) and headers.get(name.removeprefix(BEST)) == header:
            continue
        place = name.removeprefix(CURRICULUM)
        if place == name or place.split("/")[0] not in known:
            raise CheckpointError(f"the checkpoint belongs to another run: expected no {name!r:.60}, got {header}")
        if place in own and not _alike(Header.of(own[place]), header):
            seen = Header.of(own[place])
            raise CheckpointError(f"the checkpoint belongs to another run: expected {name} like {seen}, got {header}")
    size = sum(header.size for name, header in headers.items() if name.startswith((CURRICULUM, WAITING)))
    if size > LONGEST:
        raise CheckpointError(f"expected the state of a curriculum of at most {LONGEST} bytes, got {size}")


def check_state(state: State, waiting: EpisodeBatch, dim: int) -> None:
    """Refuse a state that no curriculum over contexts of this dimension can be in."""
    values = {field.name: getattr(state, field.name) for field in fields(state)}
    for name, value in values.items():
        if isinstance(value, int) and not 0 <= value <= MOST:
            raise CheckpointError(f"expected {name} in [0, {MOST}], got {value}")
        if isinstance(value, Particles) and value.dim != dim:
            raise CheckpointError(f"expected {name} over contexts of dimension {dim}, got dimension {value.dim}")
        if isinstance(value, EpisodeBatch):
            _check_episodes(value, name, dim)
    if not 0 <= state.alpha <= 1:
        raise CheckpointError(f"expected alpha in [0, 1], got {state.alpha}")
    if state.kind not in ("train", "explore"):
        raise CheckpointError(f"expected a stage of kind train or explore, got {state.kind!r:.40}")
    _check_episodes(waiting, "waiting episodes", dim)


def check_contexts(state: State, waiting: EpisodeBatch, space: ContextSpace) -> None:
    """Refuse the state of a curriculum of ours with contexts beyond their bounds, which environments cannot take.

    A path between discrete contexts, under a metric of the user's own, may lead through points that are none of them.
    """
    values = {**{field.name: getattr(state, field.name) for field in fields(state)}, "waiting episodes": waiting}
    for name, value in values.items():
        points = value.points if isinstance(value, Particles) else getattr(value, "contexts", None)
        if points is None or not len(points):
            continue
        nearest = space.clip(points) if space.support is None else points.clip(space.low, space.high)
        outside = (np.abs(points - nearest) > ROUNDING * np.maximum(np.abs(nearest), 1)).any(axis=1)
        if outside.any():
            raise CheckpointError(f"expected {name} inside the task's contexts, got {points[outside][0].tolist()}")


def check_numbers(arrays: Arrays, own: Arrays) -> None:
    """Refuse the state of a curriculum of ours with numbers that are not finite, unless they are so from the start."""
    for name, array in arrays.items():
        unknown = name.endswith(MAY_BE_NAN) or (name in own and not _all_finite(own[name]))
        if not unknown and not _all_finite(array):
            raise CheckpointError(f"expected {name} to be finite, got other numbers")


def _all_finite(array: Array) -> bool:
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def check_counts(found: Checkpoint, config: RunConfig, recorded: Mapping[str, Recorded], stage: int) -> None:
    """Refuse counts that contradict what is recorded: the episodes, the evaluations and the last stage.

    recorded: rows and last steps of the tables. stage: the step at which the last stage began.
    """
    step, updates = found.count("step"), found.count("updates")
    episodes, evaluations = recorded["episodes.csv"], recorded["evaluations.csv"]
    if step < max(episodes.step, evaluations.step, stage):
        raise CheckpointError(f"its step {step} is before the last one recorded")
    if found.count("best", "step") > max(evaluations.step, 0):
        raise CheckpointError(f"its best policy is of a step after its last evaluation, {evaluations.step}")
    if config.backend in LOOPS:  # which count the steps and batches of finished episodes
        if step != max(episodes.step, 0):
            raise CheckpointError(f"expected step {max(episodes.step, 0)}, where its last episode ended, got {step}")
        if updates > episodes.rows:
            raise CheckpointError(f"expected at most {episodes.rows} updates, one for each episode, got {updates}")
    if "evaluated" in found.meta and found.count("evaluated") != evaluations.step + 1:
        raise CheckpointError(f"expected its last evaluation at step {evaluations.step}, got another step")


def check_finite(learner: Learner, state: LearnerState) -> None:
    """Refuse an agent whose parameters are not finite; of a learner of ours, also its optimiser and its memory."""
    import jax

    ours = type(learner).__module__.startswith("geodesic.learners.")
    leaves = jax.tree.leaves(state if ours else learner.params(state))
    if not all(np.isfinite(leaf).all() for leaf in leaves):
        raise CheckpointError("damaged checkpoint: the agent's parameters are not finite")
    if ours and any(((leaf < 0) | (leaf >= MOST)).any() for leaf in leaves if leaf.dtype.kind == "i"):
        raise CheckpointError("damaged checkpoint: the agent's counters are out of range")


def check_episode(stage: ArrayLike, last: int, length: ArrayLike, own: ArrayLike, *numbers: ArrayLike) -> None:
    """Refuse running episodes with impossible counters, or with numbers that are not finite.

    stage: of their runs. last: the longest that an episode can be. length, own: of the episodes, and their stages.
    """
    lengths, stages = np.asarray(length), np.asarray(own)
    counted = ((lengths >= 0) & (lengths <= last)).all() and ((stages >= 0) & (stages <= np.asarray(stage))).all()
    if not counted or not all(np.isfinite(each).all() for each in numbers):
        raise CheckpointError("damaged checkpoint: a running episode has impossible numbers")


def _check_episodes(episodes: EpisodeBatch, name: str, dim: int) -> None:
    if len(episodes) and episodes.contexts.shape[1] != dim:
        raise CheckpointError(f"expected {name} over contexts of dimension {dim}, got {episodes.contexts.shape[1]}")
    counts = (episodes.lengths, episodes.stages, episodes.started, episodes.ended)
    if any(((column < 0) | (column > MOST)).any() for column in counts) or np.isinf(episodes.successes).any():
        raise CheckpointError(f"expected {name} with possible counts and successes, got others")


def _alike(one: Header, other: Header) -> bool:
    kind = next((kind for kind in KINDS if one.dtype.kind in kind), one.dtype.kind)
    return other.dtype.kind in kind and len(one.shape) == len(other.shape)
