"""What decides the rest of an episode of a Gymnasium environment, as arrays, where the environment can say it.

An environment of one's own says it with two methods: `save_state() -> {name: array}` and `restore_state(arrays)`, which
is called after a reset to the same context. MuJoCo environments need not: their simulator's state can be read. The
generator `np_random` and the count of a TimeLimit are kept for everyone.
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

WITHOUT_STATE = (  # between two steps; a TimeLimit's count is kept
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
OWN = "own/"


def save(env: Env) -> Arrays | None:
    """The state of the episode under way; nothing where the environment or a wrapper of it cannot say."""
    own = _own_state(env.unwrapped)
    if own is None or not all(type(layer) in WITHOUT_STATE for layer in _layers(env)):
        return None
    counts = [layer._elapsed_steps for layer in _layers(env) if isinstance(layer, wrappers.TimeLimit)]
    return {**own, ELAPSED: np.array(counts, np.int64), GENERATOR: _packed(env.unwrapped.np_random)}


def restore(env: Env, arrays: Arrays) -> None:
    """Go on where `save` was called. The environment has been reset to the episode's context before."""
    base: Any = env.unwrapped
    try:
        if hasattr(base, "restore_state"):
            base.restore_state({name.removeprefix(OWN): a for name, a in arrays.items() if name.startswith(OWN)})
        else:
            _set_simulator(base, arrays[SIMULATOR])
        limits: list[Any] = [layer for layer in _layers(env) if isinstance(layer, wrappers.TimeLimit)]
        for layer, count in zip(limits, arrays[ELAPSED], strict=True):
            layer._elapsed_steps = int(count)
        _unpack(base.np_random, arrays[GENERATOR])
    except (KeyError, ValueError, TypeError) as error:
        raise CheckpointError(f"the checkpoint does not fit the environment {base}: {error}") from error


def _layers(env: Env) -> list[gym.Wrapper[Any, Any, Any, Any]]:
    """The wrappers around an environment, the outermost first."""
    found = []
    while isinstance(env, gym.Wrapper):
        found.append(env)
        env = env.env
    return found


def _own_state(base: Any) -> Arrays | None:
    if hasattr(base, "save_state") and hasattr(base, "restore_state"):
        return {OWN + name: np.asarray(value) for name, value in base.save_state().items()}
    if type(getattr(base, "data", None)).__name__ == "MjData" and hasattr(base, "model"):
        return {SIMULATOR: _simulator(base)}
    return None


def _simulator(base: Any) -> NDArray[np.float64]:
    import mujoco

    parts = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(base.model, parts))
    mujoco.mj_getState(base.model, base.data, state, parts)
    return state


def _set_simulator(base: Any, state: NDArray[np.float64]) -> None:
    import mujoco

    parts = mujoco.mjtState.mjSTATE_INTEGRATION
    if state.shape != (mujoco.mj_stateSize(base.model, parts),):
        raise ValueError(f"expected {mujoco.mj_stateSize(base.model, parts)} numbers, got {state.shape}")
    mujoco.mj_setState(base.model, base.data, state, parts)
    mujoco.mj_forward(base.model, base.data)
    mujoco.mj_setState(base.model, base.data, state, parts)  # mj_forward renews the warm start


def _packed(generator: np.random.Generator) -> NDArray[np.uint64]:
    """A PCG64 generator, which is what Gymnasium uses."""
    state: Any = generator.bit_generator.state
    halves = [(state["state"][part] >> shift) & (2**64 - 1) for part in ("state", "inc") for shift in (64, 0)]
    return np.array([*halves, state["has_uint32"], state["uinteger"]], np.uint64)


def _unpack(generator: np.random.Generator, packed: NDArray[np.uint64]) -> None:
    high, low, inc_high, inc_low, has, value = (int(number) for number in packed)
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": high << 64 | low, "inc": inc_high << 64 | inc_low},
        "has_uint32": has,
        "uinteger": value,
    }
