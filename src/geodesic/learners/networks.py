"""Small multilayer perceptrons as plain parameter trees, with Stable-Baselines3's initialisations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

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
        x = ACTIVATIONS[activation](x @ layer["kernel"] + layer["bias"])
    return x @ layers[-1]["kernel"] + layers[-1]["bias"]
