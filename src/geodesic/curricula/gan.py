"""The generative network of Goal-GAN. Imported on use: it needs JAX and Flax."""

from __future__ import annotations

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from geodesic.contexts import FloatArray
from geodesic.runtime import prepare

prepare()

Params = dict[str, Any]
BAD, GOOD, NEUTRAL = -1.0, 1.0, 0.0  # the paper's a, b and c
BATCH = 32
OPTIMIZER = optax.flatten(optax.adam(4e-3, b1=0.0))  # momentum makes the two networks chase each other


class MLP(nn.Module):
    """Two hidden layers."""

    out: int
    width: int

    @nn.compact  # type: ignore[untyped-decorator]
    def __call__(self, x: jax.Array) -> jax.Array:
        dense = partial(nn.Dense, precision="highest")  # float32 on every device, as in learners/networks.py
        for _ in range(2):
            x = nn.relu(dense(self.width)(x))
        return jnp.asarray(dense(self.out)(x))


def generate(params: Params, noise: jax.Array) -> jax.Array:
    """Goals (n, d) in (-1, 1)^d from noise z (n, d): tanh(z / 2 + net(z)), spread out from the first step on."""
    return jnp.tanh(0.5 * noise + _apply(params["generator"], noise, noise.shape[1]))


def discriminate(params: Params, goals: jax.Array) -> jax.Array:
    """A score (n,) for goals (n, d): high where the agent's success is intermediate."""
    return _apply(params["discriminator"], goals, 1)[:, 0]


def _apply(network: Params, x: jax.Array, out: int) -> jax.Array:
    width = network["Dense_0"]["bias"].shape[0]
    return jnp.asarray(MLP(out, width).apply({"params": network}, x))


def discriminator_loss(
    discriminator: Params, generator: Params, goals: jax.Array, labels: jax.Array, noise: jax.Array
) -> jax.Array:
    """mean [y (D(g) - b)^2 + (1 - y) (D(g) - a)^2] + mean (D(G(z)) - a)^2."""
    params = {"generator": generator, "discriminator": discriminator}
    seen = discriminate(params, goals) - jnp.where(labels > 0, GOOD, BAD)
    made = discriminate(params, generate(params, noise)) - BAD
    return jnp.mean(seen**2) + jnp.mean(made**2)


def generator_loss(generator: Params, discriminator: Params, noise: jax.Array) -> jax.Array:
    """mean (D(G(z)) - c)^2."""
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
    """These networks are too small for an accelerator, and the host gives the same numbers everywhere."""
    return jax.default_device(jax.local_devices(backend="cpu")[0])


def init(dim: int, rng: np.random.Generator, generator: int = 32, discriminator: int = 32) -> Params:
    """Fresh parameters of these widths, as NumPy arrays: kernels N(0, 1 / fan-in), biases 0; nothing is compiled."""

    def fill(shape: jax.ShapeDtypeStruct) -> NDArray[np.float32]:
        fan_in = shape.shape[0]
        bias = len(shape.shape) == 1
        return np.zeros(shape.shape, np.float32) if bias else _normal(rng, shape.shape) / np.float32(np.sqrt(fan_in))

    key, goal = jax.eval_shape(lambda: jax.random.key(0)), np.zeros((1, dim), np.float32)
    networks = {"generator": MLP(dim, generator), "discriminator": MLP(1, discriminator)}
    shapes = {name: jax.eval_shape(network.init, key, goal)["params"] for name, network in networks.items()}
    return dict(jax.tree.map(fill, shapes))


def train(
    params: Params, goals: FloatArray, labels: FloatArray, count: int, steps: int, rng: np.random.Generator
) -> Params:
    """Alternate `steps` updates of both networks on the first `count` goals (n, d) in [-1, 1]^d and labels (n,)."""
    with _on_host():
        arrays = np.asarray(goals, np.float32), np.asarray(labels, np.float32), np.int32(count), np.int32(steps)
        return dict(jax.device_get(_train(params, *arrays, _key(rng))))


def sample(params: Params, n: int, dim: int, rng: np.random.Generator) -> FloatArray:
    """n goals (n, d) in (-1, 1)^d."""
    with _on_host():
        return np.asarray(_generate(params, _normal(rng, (n, dim))), np.float64)


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    return rng.standard_normal(shape, dtype=np.float32)


def _key(rng: np.random.Generator) -> jax.Array:
    return jax.random.key(int(rng.integers(2**31)))
