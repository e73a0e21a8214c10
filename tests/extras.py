"""Tests of what an extra brings are skipped, with the reason, where it is not installed."""

import importlib.util

import pytest

from geodesic import envs

WITH_MUJOCO = all(importlib.util.find_spec(package) for package in ("mujoco", "gymnasium_robotics"))
needs_mujoco = pytest.mark.skipif(not WITH_MUJOCO, reason="needs MuJoCo: pip install 'geodesic-rl[mujoco]'")


def each(names):
    """A parameter for each environment or task."""
    on_host = {name for name, spec in envs.REGISTRY.items() if spec.on_host}
    return [pytest.param(name, marks=needs_mujoco if name in on_host else ()) for name in names]
