"""Observations scaled by their running mean and standard deviation, as Stable-Baselines3's VecNormalize does."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

CLIP = 10.0
EPSILON = 1e-8


class Moments(NamedTuple):
    """Of the observations seen so far: how many, mean (d,) and variance (d,)."""

    number: jax.Array
    mean: jax.Array
    variance: jax.Array


Running = Moments | tuple[()]  # nothing where observations are left as they are


def first_moments(n_obs: int) -> Moments:
    return Moments(jnp.float32(1e-4), jnp.zeros(n_obs), jnp.ones(n_obs))


def normalized(seen: Running, obs: jax.Array) -> jax.Array:
    """Observations (..., d) as the networks get them."""
    if not isinstance(seen, Moments):
        return obs
    return jnp.clip((obs - seen.mean) / jnp.sqrt(seen.variance + EPSILON), -CLIP, CLIP)


def merged(seen: Running, obs: jax.Array) -> Running:
    """The moments with more observations (..., d) taken in (Chan et al.'s parallel formula)."""
    if not isinstance(seen, Moments):
        return seen
    rows = obs.reshape(-1, obs.shape[-1])
    n, mean, variance = len(rows), rows.mean(axis=0), rows.var(axis=0)
    total, gap = seen.number + n, mean - seen.mean
    spread = seen.variance * seen.number + variance * n + gap**2 * seen.number * n / total
    return Moments(total, seen.mean + gap * n / total, spread / total)
