"""Small multilayer perceptrons as plain parameter trees, with Stable-Baselines3's initialisations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from geodesic.checks import as_count, as_name
from geodesic.errors import InvalidInput, shown

Params = Any

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {"tanh": jnp.tanh, "relu": jax.nn.relu}


def orthogonal_mlp(key: jax.Array, sizes: Sequence[int], out_gain: float) -> list[dict[str, jax.Array]]:
    """Layers sizes[0] -> ... -> sizes[-1]: orthogonal weights, gain sqrt(2) inside and out_gain last, zero biases."""
    gains = [2**0.5] * (len(sizes) - 2) + [out_gain]
    keys = jax.random.split(key, len(gains))
    return [
        {"kernel": jax.nn.initializers.orthogonal(gain)(k, (m, n)), "bias": jnp.zeros(n)}
        for k, m, n, gain in zip(keys, sizes[:-1], sizes[1:], gains)
    ]


def forward(layers: Sequence[dict[str, jax.Array]], x: jax.Array, activation: str) -> jax.Array:
    """The network's output; the last layer is linear."""
    for layer in layers[:-1]:
        x = ACTIVATIONS[activation](_linear(layer, x))
    return _linear(layers[-1], x)


def _linear(layer: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """In float32 throughout: left to itself, JAX rounds the factors to ten bits on GPUs of 2020 and later."""
    return jnp.matmul(x, layer["kernel"], precision="highest") + layer["bias"]


def as_net(value: object, name: str) -> tuple[int, ...]:
    """The sizes of a network's hidden layers."""
    if not isinstance(value, (list, tuple)):
        raise InvalidInput(f"expected {name} to be a list of layer sizes, got {shown(value)}")
    return tuple(as_count(size, name, 10**6) for size in value)


def as_activation(value: object, name: str) -> str:
    return as_name(value, name, ACTIVATIONS)
