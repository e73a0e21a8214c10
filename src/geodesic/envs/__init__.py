"""Environments by name. The module of each is imported when it is used."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import gymnasium as gym

from geodesic.checks import as_name
from geodesic.errors import InvalidInput


@dataclass(frozen=True)
class EnvSpec:
    """Where an environment lives and what it is called in Gymnasium."""

    module: str
    class_name: str
    gym_id: str
    summary: str
    on_host: bool = False  # a Gymnasium environment of its own, not a contextual MDP in JAX

    def make(self, **options: Any) -> Any:
        """The contextual MDP, or the environment where it is one on the host."""
        return getattr(import_module(self.module), self.class_name)(**options)


REGISTRY: dict[str, EnvSpec] = {
    "maze": EnvSpec("geodesic.envs.maze", "Maze", "geodesic/Maze-v0", "11 x 11 maze; context: start cell (discrete)"),
    "point-mass": EnvSpec(
        "geodesic.envs.point_mass",
        "PointMass",
        "geodesic/PointMass-v0",
        "wall with a gate; context: gate position and width",
    ),
    "fetch-push": EnvSpec(
        "geodesic.envs.fetch_push",
        "FetchPush",
        "geodesic/FetchPush-v0",
        "robot arm that pushes a box (MuJoCo); context: goal position",
        on_host=True,
    ),
    "u-maze": EnvSpec(
        "geodesic.envs.u_maze", "UMaze", "geodesic/UMaze-v0", "U-shaped corridor; context: goal position"
    ),
    "e-maze": EnvSpec(
        "geodesic.envs.e_maze", "EMaze", "geodesic/EMaze-v0", "20 x 20 maze of heights; context: goal cell (discrete)"
    ),
    "sparse-goal": EnvSpec(
        "geodesic.envs.sparse_goal",
        "SparseGoal",
        "geodesic/SparseGoal-v0",
        "corridor around a square, reward at the goal only; context: goal position and tolerance",
    ),
    "point-mass-bimodal": EnvSpec(
        "geodesic.envs.point_masses",
        "BimodalPointMass",
        "geodesic/PointMassBimodal-v0",
        "point-mass with a target of two modes, gates at 3 and -3",
    ),
    "point-mass-nd": EnvSpec(
        "geodesic.envs.point_masses",
        "PointMassND",
        "geodesic/PointMassND-v0",
        "point-mass with contexts of 3 k values, point-mass-nd:k=10",
    ),
}

# Other libraries' environments in JAX, by name only: what needs an extra is imported when it is asked for.
ADAPTERS = {"from_gymnax": "geodesic.integrations.gymnax", "from_brax": "geodesic.integrations.brax"}


def __getattr__(name: str) -> Any:
    if name not in ADAPTERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(ADAPTERS[name]), name)


def make(name: str, **options: Any) -> Any:
    """The contextual MDP of this name; for one on the host, the Gymnasium environment."""
    spec = REGISTRY[as_name(name, "environment", REGISTRY)]
    try:
        return spec.make(**options)
    except TypeError as error:
        raise InvalidInput(f"expected options of the environment {name}: {error}") from error


def make_gymnasium(name: str, render_mode: str | None = None, **options: Any) -> gym.Env[Any, Any]:
    """The Gymnasium environment of this name, on its target to begin with; `gymnasium.make` calls it."""
    import numpy as np

    from geodesic.envs.gymnasium import ContextualEnv

    if name in REGISTRY and REGISTRY[name].on_host:
        env: gym.Env[Any, Any] = make(name, render_mode=render_mode, **options)
        return env
    mdp = make(name, **options)
    return ContextualEnv(mdp, mdp.context_space, mdp.target(np.random.default_rng(0)), render_mode)


def make_vector(
    name: str, num_envs: int, autoreset_mode: Any = "NextStep", **options: Any
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Many of this environment, stepped by one compiled program; `gymnasium.make_vec` calls it."""
    import numpy as np

    from geodesic.envs.vector import VectorContextualEnv

    mdp = make(name, **options)
    return VectorContextualEnv(mdp, mdp.context_space, mdp.target(np.random.default_rng(0)), num_envs, autoreset_mode)


def register() -> None:
    """Make the environments known to `gymnasium.make` and `gymnasium.make_vec`."""
    for name, spec in REGISTRY.items():
        if spec.gym_id not in gym.registry:
            gym.register(
                spec.gym_id,
                entry_point="geodesic.envs:make_gymnasium",
                vector_entry_point=None if spec.on_host else "geodesic.envs:make_vector",
                kwargs={"name": name},
            )
