"""The networks of Goal-GAN. Imported on use, as they need JAX and Optax."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from geodesic.contexts import FloatArray
from geodesic.runtime import set_xla_flags

set_xla_flags()

Params = dict[str, Any]
BAD, GOOD, NEUTRAL = -1.0, 1.0, 0.0  # the paper's a, b and c
BATCH = 32
OPTIMIZER = optax.flatten(optax.adam(4e-3, b1=0.0))  # momentum makes the two networks chase each other


def generate(params: Params, noise: jax.Array) -> jax.Array:
    """Goals (n, d) in (-1, 1)^d from noise z (n, d): tanh(z / 2 + net(z)), spread out before any training."""
    return jnp.tanh(0.5 * noise + _forward(params["generator"], noise))


def discriminate(params: Params, goals: jax.Array) -> jax.Array:
    """A score (n,) for goals (n, d): high where the agent's success is intermediate."""
    return _forward(params["discriminator"], goals)[:, 0]


def _forward(network: Params, x: jax.Array) -> jax.Array:
    """The outputs (n, out) of a network with two hidden layers, for inputs (n, k)."""
    for name in ("Dense_0", "Dense_1"):
        x = jax.nn.relu(_dense(network[name], x))
    return _dense(network["Dense_2"], x)


def _dense(layer: Params, x: jax.Array) -> jax.Array:
    """One layer, in float32 on every device, as in learners/networks.py."""
    return jnp.asarray(jnp.matmul(x, layer["kernel"], precision="highest") + layer["bias"])


def discriminator_loss(
    discriminator: Params, generator: Params, goals: jax.Array, labels: jax.Array, noise: jax.Array
) -> jax.Array:
    """Mean [y (D(g) - b)^2 + (1 - y) (D(g) - a)^2] + mean (D(G(z)) - a)^2."""
    params = {"generator": generator, "discriminator": discriminator}
    seen = discriminate(params, goals) - jnp.where(labels > 0, GOOD, BAD)
    made = discriminate(params, generate(params, noise)) - BAD
    return jnp.mean(seen**2) + jnp.mean(made**2)


def generator_loss(generator: Params, discriminator: Params, noise: jax.Array) -> jax.Array:
    """Mean (D(G(z)) - c)^2."""
    params = {"generator": generator, "discriminator": discriminator}
    return jnp.mean((discriminate(params, generate(params, noise)) - NEUTRAL) ** 2)


@jax.jit
def _train(
    params: Params, goals: jax.Array, labels: jax.Array, count: jax.Array, steps: jax.Array, key: jax.Array
) -> Params:
    """The number of goals and of steps are arrays, so that one compiled program serves every fit."""

    def step(i: jax.Array, carry: tuple[Params, Params, Any, Any]) -> tuple[Params, Params, Any, Any]:
        gen, dis, gen_memory, dis_memory = carry
        pick, first, second = jax.random.split(jax.random.fold_in(key, i), 3)
        rows = jax.random.randint(pick, (BATCH,), 0, count)
        noise = jax.random.normal(first, (BATCH, goals.shape[1]))
        slope = jax.grad(discriminator_loss)(dis, gen, goals[rows], labels[rows], noise)
        change, dis_memory = OPTIMIZER.update(slope, dis_memory)
        dis = optax.apply_updates(dis, change)
        slope = jax.grad(generator_loss)(gen, dis, jax.random.normal(second, noise.shape))
        change, gen_memory = OPTIMIZER.update(slope, gen_memory)
        return optax.apply_updates(gen, change), dis, gen_memory, dis_memory

    gen, dis = params["generator"], params["discriminator"]
    gen, dis, _, _ = jax.lax.fori_loop(0, steps, step, (gen, dis, OPTIMIZER.init(gen), OPTIMIZER.init(dis)))
    return {"generator": gen, "discriminator": dis}


_generate = jax.jit(generate)


def _on_host() -> Any:
    """The CPU: the networks are too small for an accelerator, and its numbers are the same everywhere."""
    return jax.default_device(jax.local_devices(backend="cpu")[0])


def init(dim: int, rng: np.random.Generator, generator: int = 32, discriminator: int = 32) -> Params:
    """Initial parameters of both networks, as NumPy arrays: kernels N(0, 1 / fan-in), biases 0; nothing is compiled.

    Args:
        dim: The dimension of goals.
        rng: Draws the kernels.
        generator: Units of the generator's hidden layers.
        discriminator: Units of the discriminator's hidden layers.

    Returns:
        The parameters.
    """

    def network(width: int, out: int) -> Params:
        return {
            f"Dense_{k}": {"bias": np.zeros(n, np.float32), "kernel": _normal(rng, (m, n)) / np.float32(np.sqrt(m))}
            for k, (m, n) in enumerate(pairwise((dim, width, width, out)))
        }

    return {"discriminator": network(discriminator, 1), "generator": network(generator, dim)}


def train(
    params: Params, goals: FloatArray, labels: FloatArray, count: int, steps: int, rng: np.random.Generator
) -> Params:
    """Train both networks in turn.

    Args:
        params: Their parameters.
        goals: Goals (n, d) in [-1, 1]^d, padded to a fixed n so that nothing is compiled twice.
        labels: 1 for goals of intermediate difficulty, else 0 (n,).
        count: How many of the goals count, from the first on.
        steps: How many updates of each network.
        rng: Draws batches and noise.

    Returns:
        The new parameters.
    """
    with _on_host():
        key = jax.random.key(int(rng.integers(2**31)))
        arrays = np.asarray(goals, np.float32), np.asarray(labels, np.float32), np.int32(count), np.int32(steps)
        return dict(jax.device_get(_train(params, *arrays, key)))


def sample(params: Params, n: int, dim: int, rng: np.random.Generator) -> FloatArray:
    """Goals from the generator.

    Args:
        params: The parameters of both networks.
        n: How many goals.
        dim: Their dimension.
        rng: Draws the noise.

    Returns:
        Goals (n, d) in (-1, 1)^d.
    """
    with _on_host():
        return np.asarray(_generate(params, _normal(rng, (n, dim))), np.float64)


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    return rng.standard_normal(shape, dtype=np.float32)
