"""Multilayer perceptrons as plain parameter trees, and running normalisation of their inputs.

Initialisations are Stable-Baselines3's; the normalisation is that of its VecNormalize.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp

from geodesic.checks import as_count, as_name, as_size
from geodesic.errors import InvalidInput, short_repr

Params = Any
Layer = dict[str, jax.Array]  # kernel (inputs, outputs) and bias (outputs,)

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {"tanh": jnp.tanh, "relu": jax.nn.relu}
MOST_LAYERS = 100
LOG_2PI = math.log(2 * math.pi)
CLIP = 10.0
EPSILON = 1e-8


def orthogonal_mlp(key: jax.Array, sizes: Sequence[int], out_gain: float) -> list[Layer]:
    """Layers of these sizes with zero biases and orthogonal weights: gain sqrt(2), in the last layer `out_gain`."""
    gains = [2**0.5] * (len(sizes) - 2) + [out_gain]
    keys = jax.random.split(key, len(gains))
    return [
        {"kernel": jax.nn.initializers.orthogonal(gain)(k, size), "bias": jnp.zeros(size[1])}
        for k, size, gain in zip(keys, pairwise(sizes), gains)
    ]


def torch_mlp(key: jax.Array, sizes: Sequence[int]) -> list[Layer]:
    """Layers initialised as torch.nn.Linear: weights and biases uniform within 1 / sqrt(inputs)."""
    layers = []
    for m, n in pairwise(sizes):
        key, kernel, bias = jax.random.split(key, 3)
        bound = 1.0 / math.sqrt(m)
        weights = jax.random.uniform(kernel, (m, n), minval=-bound, maxval=bound)
        layers.append({"kernel": weights, "bias": jax.random.uniform(bias, (n,), minval=-bound, maxval=bound)})
    return layers


def forward(layers: Sequence[Layer], x: jax.Array, activation: str) -> jax.Array:
    """Apply the network; its last layer is linear."""
    for layer in layers[:-1]:
        x = ACTIVATIONS[activation](_linear(layer, x))
    return _linear(layers[-1], x)


def _linear(layer: Layer, x: jax.Array) -> jax.Array:
    """One layer in full float32: by default JAX rounds the factors to ten bits on GPUs since 2020."""
    return jnp.matmul(x, layer["kernel"], precision="highest") + layer["bias"]


def as_net(value: object, name: str) -> tuple[int, ...]:
    """Check the sizes of a network's hidden layers."""
    if not isinstance(value, (list, tuple)):
        raise InvalidInput(f"expected {name} to be a list of layer sizes, got {short_repr(value)}")
    if len(value) > MOST_LAYERS:
        raise InvalidInput(f"expected {name} of at most {MOST_LAYERS} layers, got {len(value)}")
    sizes = tuple(as_count(size, name, 10**5) for size in value)
    as_size(1 + sum(a * b for a, b in pairwise(sizes)), f"the number of weights of {name}")
    return sizes


Net = Annotated[tuple[int, ...], as_net]
Envs = Annotated[int, partial(as_count, most=2**15)]
Activation = Annotated[str, partial(as_name, known=ACTIVATIONS)]


class Moments(NamedTuple):
    """Running moments of observations.

    Args:
        number: How many observations were seen.
        mean: Their mean (d,).
        variance: Their variance (d,).
    """

    number: jax.Array
    mean: jax.Array
    variance: jax.Array


Running = Moments | tuple[()]  # empty where observations are not normalised


class ActingNetwork(NamedTuple):
    """The part of a learner's state that chooses deterministic actions.

    Args:
        layers: The layers from observation to output. Discrete actions take the largest output; continuous ones the
            first outputs.
        activation: The function between layers.
        moments: Moments by which observations are normalised; empty if they are not.
        squash: Whether tanh maps outputs into the bounds of the actions; otherwise they are clipped.
    """

    layers: list[Layer]
    activation: str
    moments: Running
    squash: bool


def initial_moments(n_obs: int) -> Moments:
    """Moments before any observation: mean 0 and variance 1, with a weight of 1e-4 observations."""
    return Moments(jnp.float32(1e-4), jnp.zeros(n_obs), jnp.ones(n_obs))


def normalize(moments: Running, obs: jax.Array) -> jax.Array:
    """Scale observations (..., d) by their running mean and deviation, clipped to [-10, 10]."""
    if not isinstance(moments, Moments):
        return obs
    return jnp.clip((obs - moments.mean) / jnp.sqrt(moments.variance + EPSILON), -CLIP, CLIP)


def merge_moments(moments: Running, obs: jax.Array) -> Running:
    """Add observations (..., d) to the moments (Chan et al.'s parallel formula)."""
    if not isinstance(moments, Moments):
        return moments
    rows = obs.reshape(-1, obs.shape[-1])
    n, mean, variance = len(rows), rows.mean(axis=0), rows.var(axis=0)
    total, gap = moments.number + n, mean - moments.mean
    spread = moments.variance * moments.number + variance * n + gap**2 * moments.number * n / total
    return Moments(total, moments.mean + gap * n / total, spread / total)
