"""A Stable-Baselines3 or SBX model as named arrays, with its replay buffer and VecNormalize, and back in place.

The model's part is the file that its own `save` writes, as bytes. Loading one runs what is in it, as `load` does: go on
only with folders that you trust.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np

from geodesic.contexts import Array, Arrays
from geodesic.errors import CheckpointError
from geodesic.records.archive import ANY, Header, Headers

PREFIX = "sb3/"
MODEL, BUFFER, NORMALIZER = PREFIX + "model", PREFIX + "buffer/", PREFIX + "normalizer/"
# of this process and this call of `learn`, whatever the model was before
OF_NOW = (
    "env", "n_envs", "_vec_normalize_env", "_logger", "_custom_logger", "verbose", "tensorboard_log", "device",
    "replay_buffer", "start_time", "_total_timesteps", "_last_obs", "_last_episode_starts", "_last_original_obs",
)  # fmt: skip

Model = Any
Buffer = Any


def name_of(model: Model) -> str:
    """Which algorithm it is: 'stable_baselines3.ppo.ppo.PPO'."""
    return f"{type(model).__module__}.{type(model).__qualname__}"


def save_model(model: Model) -> Arrays:
    """Everything of it that decides what it does next, but for the episodes under way."""
    file = io.BytesIO()
    model.save(file, exclude=["_last_obs", "_last_episode_starts", "_last_original_obs"])
    arrays: Arrays = {MODEL: np.frombuffer(file.getvalue(), np.uint8)}
    buffer = getattr(model, "replay_buffer", None)
    if buffer is not None:
        rows = _rows(buffer)
        arrays |= {BUFFER + name: array[: rows if cut else None].copy() for name, array, cut in _parts(buffer)}
        arrays |= {BUFFER + name: np.asarray(getattr(buffer, name)) for name in ("pos", "full")}
    return arrays | {NORMALIZER + name: np.asarray(getattr(of, field)) for name, of, field in _moments(model)}


def shapes_of(model: Model) -> Headers:
    """Of what `save_model` gives; the model itself may be of any length, and a buffer hold any number of rows."""
    arrays = save_model(model)
    headers = {name: Header.of(array) for name, array in arrays.items()}
    buffer = getattr(model, "replay_buffer", None)
    rows = [MODEL] if buffer is None else [MODEL, *(BUFFER + name for name, _, cut in _parts(buffer) if cut)]
    return headers | {name: Header(headers[name].dtype, (ANY, *headers[name].shape[1:])) for name in rows}


def restore_model(model: Model, arrays: Arrays) -> None:
    """Make a model, with its environment, what it was when `save_model` was called; its episodes begin anew."""
    try:
        file = io.BytesIO(arrays[MODEL].tobytes())
        loaded = type(model).load(file, env=model.env, device=str(model.device))
        kept = {name: getattr(model, name) for name in OF_NOW if hasattr(model, name)}
        model.__dict__.update(loaded.__dict__ | kept)
        if getattr(model, "replay_buffer", None) is not None:
            _restore_buffer(model.replay_buffer, arrays)
        for name, of, field in _moments(model):
            setattr(of, field, _like(getattr(of, field), arrays[NORMALIZER + name]))
    except (KeyError, ValueError, RuntimeError, AttributeError, EOFError) as error:
        raise CheckpointError(
            f"expected a checkpoint of {name_of(model)} with these spaces and sizes, got {type(error).__name__}: "
            f"{' '.join(str(error).split()):.120}; try another out="
        ) from error


def _rows(buffer: Buffer) -> int:
    """How many rows of a replay buffer hold something."""
    if buffer.full:
        return int(buffer.buffer_size)
    return int(buffer.pos) + bool(getattr(buffer, "optimize_memory_usage", False))


def _parts(buffer: Buffer) -> Iterator[tuple[str, Array, bool]]:
    """The arrays of a replay buffer, by name, and whether each has a row for every transition."""
    for name, value in vars(buffer).items():
        members = value.items() if isinstance(value, dict) else [("", value)]
        for key, array in members:
            if isinstance(array, np.ndarray) and array.ndim:
                yield f"{name}/{key}".removesuffix("/"), array, len(array) == buffer.buffer_size


def _restore_buffer(buffer: Buffer, arrays: Arrays) -> None:
    for name, array, cut in _parts(buffer):
        saved = arrays[BUFFER + name]
        array[: len(saved) if cut else None] = saved
    buffer.pos, buffer.full = int(arrays[BUFFER + "pos"]), bool(arrays[BUFFER + "full"])
    if hasattr(buffer, "truncate_last_trajectory"):  # of hindsight: the episode that was under way is over
        buffer.truncate_last_trajectory()


def _moments(model: Model) -> Iterator[tuple[str, Any, str]]:
    """What VecNormalize has learned: names, and the objects and fields that hold the values."""
    normalizer = model.get_vec_normalize_env()
    if normalizer is None:
        return
    observations = getattr(normalizer, "obs_rms", None)
    each = observations if isinstance(observations, dict) else {"observation": observations}
    for name, moments in {**each, "reward": normalizer.ret_rms}.items():
        if moments is not None:
            yield from ((f"{name}/{field}", moments, field) for field in ("mean", "var", "count"))


def _like(old: Any, new: Array) -> Any:
    return new.copy() if isinstance(old, np.ndarray) else new.item()
