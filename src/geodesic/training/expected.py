"""What a checkpoint must hold to be gone on from, looked at before its data is read and before a file is touched."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields

import numpy as np

from geodesic.contexts import Array, Arrays, Episodes, Particles
from geodesic.contexts.episodes import COLUMNS
from geodesic.curricula import State
from geodesic.errors import CheckpointError
from geodesic.records import checkpoint
from geodesic.records.archive import Header, Headers
from geodesic.training.ordering import PREFIX, Waiting

CURRICULUM = "curriculum/"
WAITING = tuple(PREFIX + name for name in ("began", *COLUMNS))
SORTS = ("b", "iuf", "SU")  # types of which one may stand for another


def check_members(headers: Headers, agent: Headers, own: Arrays, state: type[State], free: str | None = None) -> None:
    """Refuse members that a run does not have.

    agent: those of its trainer, exactly. own: what the curriculum saves today; its sizes change, its types and
    dimensions do not. Names that begin with `free` are the user's.
    """
    checkpoint.require(agent, headers)
    known = {field.name for field in fields(state)}
    for name, header in headers.items():
        if name in agent or name in WAITING or (free is not None and name.startswith(free)):
            continue
        place = name.removeprefix(CURRICULUM)
        if place == name or place.split("/")[0] not in known:
            raise CheckpointError(f"the checkpoint is of another run: expected no {name!r:.60}, got {header}")
        if place in own and not _alike(Header.of(own[place]), header):
            seen = Header.of(own[place])
            raise CheckpointError(f"the checkpoint is of another run: expected {name} like {seen}, got {header}")


def check_state(state: State, waiting: Waiting, dim: int) -> None:
    """Refuse a state that no curriculum over contexts of this dimension can be in."""
    values = {field.name: getattr(state, field.name) for field in fields(state)}
    for name, value in values.items():
        if isinstance(value, int) and value < 0:
            raise CheckpointError(f"expected {name} of at least 0, got {value}")
        if isinstance(value, Particles) and value.dim != dim:
            raise CheckpointError(f"expected {name} over contexts of dimension {dim}, got dimension {value.dim}")
        if isinstance(value, Episodes):
            _check_episodes(value, name, dim)
    if not math.isfinite(state.alpha):
        raise CheckpointError(f"expected a finite alpha, got {state.alpha}")
    if state.kind not in ("train", "explore"):
        raise CheckpointError(f"expected a stage to train or to explore in, got {state.kind!r:.40}")
    _check_episodes(waiting.episodes, "episodes that wait", dim)
    if waiting.began.shape != (len(waiting.episodes),) or waiting.began.dtype.kind != "i":
        raise CheckpointError(f"expected a beginning for each episode that waits, got {Header.of(waiting.began)}")


def check_finite(leaves: Iterable[Array]) -> None:
    """Refuse an agent whose parameters are not numbers any more."""
    if not all(np.isfinite(leaf).all() for leaf in leaves):
        raise CheckpointError("damaged checkpoint: the agent's parameters are not finite")


def _check_episodes(episodes: Episodes, name: str, dim: int) -> None:
    if len(episodes) and episodes.contexts.shape[1] != dim:
        raise CheckpointError(f"expected {name} over contexts of dimension {dim}, got {episodes.contexts.shape[1]}")
    if (episodes.stages < 0).any() or np.isinf(episodes.successes).any():
        raise CheckpointError(f"expected {name} of stages that there were, got others")


def _alike(one: Header, other: Header) -> bool:
    sort = next((sort for sort in SORTS if one.dtype.kind in sort), one.dtype.kind)
    return other.dtype.kind in sort and len(one.shape) == len(other.shape)
