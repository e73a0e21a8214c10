"""Marks that skip the tests of an extra, with the reason, where it is not installed."""

import importlib.util

import pytest

from geodesic import envs

WITH_MUJOCO = all(importlib.util.find_spec(package) for package in ("mujoco", "gymnasium_robotics"))
needs_mujoco = pytest.mark.skipif(not WITH_MUJOCO, reason="needs MuJoCo: pip install 'geodesic-rl[mujoco]'")


def needs(package, extra):
    """A mark for tests that need a package of an extra."""
    reason = f"needs {package}: pip install 'geodesic-rl[{extra}]'"
    return pytest.mark.skipif(not importlib.util.find_spec(package), reason=reason)


needs_gymnax, needs_brax = needs("gymnax", "gymnax"), needs("brax", "brax")
needs_minigrid = needs("minigrid", "minigrid")
needs_rllib = needs("ormsgpack", "rllib")  # RLlib is part of ray, what it needs is not


def each(names):
    """A pytest parameter for each environment or task."""
    on_host = {name for name, spec in envs.REGISTRY.items() if spec.on_host}
    return [pytest.param(name, marks=needs_mujoco if name in on_host else ()) for name in names]
