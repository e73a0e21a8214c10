"""Snapshots of running episodes: everything that decides the rest of an episode, as arrays.

An environment takes part with two methods: `save_state() -> {name: array}`, and `restore_state(arrays)`, which is
called after a reset to the same context. MuJoCo environments need neither, because the simulator's state can be read.
The generator `np_random` and the step count of a TimeLimit are saved for every environment.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import wrappers
from numpy.typing import NDArray

from geodesic.contexts import Arrays
from geodesic.envs.gymnasium import ContextWrapper, Env
from geodesic.errors import CheckpointError

STATELESS = (  # between two steps, but for the count of a TimeLimit, which is saved
    ContextWrapper,
    wrappers.TimeLimit,
    wrappers.OrderEnforcing,
    wrappers.PassiveEnvChecker,
    wrappers.FlattenObservation,
    wrappers.FilterObservation,
    wrappers.DtypeObservation,
    wrappers.RescaleObservation,
    wrappers.RescaleAction,
    wrappers.ClipAction,
    wrappers.ClipReward,
)
SIMULATOR, ELAPSED, GENERATOR = "simulator", "elapsed", "generator"
OWN = "own/"  # prefix of what `save_state` returned


def save(env: Env) -> Arrays | None:
    """Return the state of the current episode, or None if the environment or one of its wrappers cannot be saved."""
    state = _env_state(env.unwrapped)
    if state is None or not all(type(layer) in STATELESS for layer in _layers(env)):
        return None
    counts = [layer._elapsed_steps for layer in _layers(env) if isinstance(layer, wrappers.TimeLimit)]
    return {**state, ELAPSED: np.array(counts, np.int64), GENERATOR: pack_generator(env.unwrapped.np_random)}


def restore(env: Env, arrays: Arrays) -> None:
    """Continue the saved episode.

    Args:
        env: The environment, after a reset to the episode's context.
        arrays: What `save` returned.

    Raises:
        CheckpointError: If the arrays belong to another environment.
    """
    base: Any = env.unwrapped
    try:
        if hasattr(base, "restore_state"):
            base.restore_state({name.removeprefix(OWN): a for name, a in arrays.items() if name.startswith(OWN)})
        else:
            set_simulator_state(base.model, base.data, arrays[SIMULATOR])
        limits: list[Any] = [layer for layer in _layers(env) if isinstance(layer, wrappers.TimeLimit)]
        for layer, count in zip(limits, arrays[ELAPSED], strict=True):
            layer._elapsed_steps = int(count)
        unpack_generator(base.np_random, arrays[GENERATOR])
    except (KeyError, ValueError, TypeError) as error:
        raise CheckpointError(f"the checkpoint does not fit the environment {base}: {error}") from error


def _layers(env: Env) -> list[gym.Wrapper[Any, Any, Any, Any]]:
    """The wrappers around an environment, outermost first."""
    found = []
    while isinstance(env, gym.Wrapper):
        found.append(env)
        env = env.env
    return found


def _env_state(base: Any) -> Arrays | None:
    if hasattr(base, "save_state") and hasattr(base, "restore_state"):
        return {OWN + name: np.asarray(value) for name, value in base.save_state().items()}
    if type(getattr(base, "data", None)).__name__ == "MjData" and hasattr(base, "model"):
        return {SIMULATOR: simulator_state(base.model, base.data)}
    return None


def simulator_state(model: Any, data: Any) -> NDArray[np.float64]:
    """Return all that decides what a MuJoCo simulation does next: positions, velocities, mocap, the warm start."""
    import mujoco

    parts = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(model, parts))
    mujoco.mj_getState(model, data, state, parts)
    return state


def set_simulator_state(model: Any, data: Any, state: NDArray[np.float64]) -> None:
    """Put a MuJoCo simulation into a state, with the positions of bodies and sites, which observations read."""
    import mujoco

    parts = mujoco.mjtState.mjSTATE_INTEGRATION
    if state.shape != (mujoco.mj_stateSize(model, parts),):
        raise ValueError(f"expected {mujoco.mj_stateSize(model, parts)} numbers, got {state.shape}")
    mujoco.mj_setState(model, data, state, parts)
    mujoco.mj_forward(model, data)
    mujoco.mj_setState(model, data, state, parts)  # mj_forward has replaced the solver's warm start


def pack_generator(generator: np.random.Generator) -> NDArray[np.uint64]:
    """Return the state of a PCG64 generator, Gymnasium's kind, as six words."""
    state: Any = generator.bit_generator.state
    halves = [(state["state"][part] >> shift) & (2**64 - 1) for part in ("state", "inc") for shift in (64, 0)]
    return np.array([*halves, state["has_uint32"], state["uinteger"]], np.uint64)


def unpack_generator(generator: np.random.Generator, words: NDArray[np.uint64]) -> None:
    """Put a generator into a state that `pack_generator` returned."""
    high, low, inc_high, inc_low, has, value = (int(word) for word in words)
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": high << 64 | low, "inc": inc_high << 64 | inc_low},
        "has_uint32": has,
        "uinteger": value,
    }
