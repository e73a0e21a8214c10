"""The networks of Goal-GAN. Imported on use, as they need JAX and Optax."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
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


@dataclass(frozen=True)
class Form:
    """Two networks with two hidden layers each, and how they are trained.

    Args:
        generator: Units of the generator's hidden layers.
        discriminator: Units of the discriminator's hidden layers.
        slope: Of the discriminator's units below 0.
        passed: The part of the noise that is added to the generator's last layer: it spreads goals before training.
        reach: The generator's output where a goal is at a bound of the space; outputs lie in (-1, 1).
        aim: The score that the generator wants for its goals.
        batch: Goals in an update.
        optimizer: Of both networks.
        fit_steps: Updates of both networks at a fit.
        pretrain_steps: Updates before the first stage.
        pretrain_goals: Samples of the source that they are trained on then.
    """

    generator: int
    discriminator: int
    slope: float
    passed: float
    reach: float
    aim: float
    batch: int
    optimizer: optax.GradientTransformation
    fit_steps: int
    pretrain_steps: int
    pretrain_goals: int


FORMS = {
    # TensorFlow 1's RMSProp begins with mean squares of 1
    "original": Form(
        256, 128, 0.1, 0.0, 0.5, GOOD, 64, optax.rmsprop(1e-3, eps=1e-10, initial_scale=1.0), 250, 500, 1000
    ),
    # momentum makes the two networks chase each other; one flat vector is faster only for so few weights
    "small": Form(32, 32, 0.0, 0.5, 1.0, NEUTRAL, 32, optax.flatten(optax.adam(4e-3, b1=0.0)), 30, 1000, 200),
}


def generate(params: Params, noise: jax.Array, form: Form) -> jax.Array:
    """Goals (n, d) in (-1, 1)^d from noise z (n, d): tanh(passed z + net(z))."""
    return jnp.tanh(form.passed * noise + _forward(params["generator"], noise))


def discriminate(params: Params, goals: jax.Array, form: Form) -> jax.Array:
    """A score (n,) for goals (n, d): high where the agent's success is intermediate."""
    return _forward(params["discriminator"], goals, form.slope)[:, 0]


def _forward(network: Params, x: jax.Array, slope: float = 0.0) -> jax.Array:
    """The outputs (n, out) of a network with two hidden layers, for inputs (n, k)."""
    for name in ("Dense_0", "Dense_1"):
        x = jax.nn.leaky_relu(_dense(network[name], x), slope)
    return _dense(network["Dense_2"], x)


def _dense(layer: Params, x: jax.Array) -> jax.Array:
    """One layer, in float32 on every device, as in learners/networks.py."""
    return jnp.asarray(jnp.matmul(x, layer["kernel"], precision="highest") + layer["bias"])


def discriminator_loss(
    discriminator: Params, generator: Params, goals: jax.Array, labels: jax.Array, noise: jax.Array, form: Form
) -> jax.Array:
    """Mean [y (D(g) - b)^2 + (1 - y) (D(g) - a)^2] + mean (D(G(z)) - a)^2."""
    params = {"generator": generator, "discriminator": discriminator}
    seen = discriminate(params, goals, form) - jnp.where(labels > 0, GOOD, BAD)
    made = discriminate(params, generate(params, noise, form), form) - BAD
    return jnp.mean(seen**2) + jnp.mean(made**2)


def generator_loss(generator: Params, discriminator: Params, noise: jax.Array, form: Form) -> jax.Array:
    """Mean (D(G(z)) - aim)^2."""
    params = {"generator": generator, "discriminator": discriminator}
    return jnp.mean((discriminate(params, generate(params, noise, form), form) - form.aim) ** 2)


@partial(jax.jit, static_argnames="form")
def _train(
    params: Params, goals: jax.Array, labels: jax.Array, count: jax.Array, steps: jax.Array, key: jax.Array, form: Form
) -> Params:
    """The number of goals and of steps are arrays, so that one compiled program serves every fit."""
    optimizer = form.optimizer

    def step(i: jax.Array, carry: tuple[Params, Params, Any, Any]) -> tuple[Params, Params, Any, Any]:
        gen, dis, gen_memory, dis_memory = carry
        pick, first, second = jax.random.split(jax.random.fold_in(key, i), 3)
        rows = jax.random.randint(pick, (form.batch,), 0, count)
        noise = jax.random.normal(first, (form.batch, goals.shape[1]))
        slope = jax.grad(discriminator_loss)(dis, gen, goals[rows], labels[rows], noise, form)
        change, dis_memory = optimizer.update(slope, dis_memory)
        dis = optax.apply_updates(dis, change)
        slope = jax.grad(generator_loss)(gen, dis, jax.random.normal(second, noise.shape), form)
        change, gen_memory = optimizer.update(slope, gen_memory)
        return optax.apply_updates(gen, change), dis, gen_memory, dis_memory

    gen, dis = params["generator"], params["discriminator"]
    gen, dis, _, _ = jax.lax.fori_loop(0, steps, step, (gen, dis, optimizer.init(gen), optimizer.init(dis)))
    return {"generator": gen, "discriminator": dis}


_generate = jax.jit(generate, static_argnames="form")


def _on_host() -> Any:
    """The CPU: the networks are too small for an accelerator, and its numbers are the same everywhere."""
    return jax.default_device(jax.local_devices(backend="cpu")[0])


def init(dim: int, rng: np.random.Generator, form: Form) -> Params:
    """Initial parameters of both networks, as NumPy arrays: kernels N(0, 1 / fan-in), biases 0; nothing is compiled.

    Args:
        dim: The dimension of goals.
        rng: Draws the kernels.
        form: The networks.

    Returns:
        The parameters.
    """

    def network(width: int, out: int) -> Params:
        return {
            f"Dense_{k}": {"bias": np.zeros(n, np.float32), "kernel": _normal(rng, (m, n)) / np.float32(np.sqrt(m))}
            for k, (m, n) in enumerate(pairwise((dim, width, width, out)))
        }

    return {"discriminator": network(form.discriminator, 1), "generator": network(form.generator, dim)}


def train(
    params: Params,
    goals: FloatArray,
    labels: FloatArray,
    count: int,
    steps: int,
    rng: np.random.Generator,
    form: Form,
) -> Params:
    """Train both networks in turn.

    Args:
        params: Their parameters.
        goals: Goals (n, d) in [-1, 1]^d, padded to a fixed n so that nothing is compiled twice.
        labels: 1 for goals of intermediate difficulty, else 0 (n,).
        count: How many of the goals count, from the first on.
        steps: How many updates of each network.
        rng: Draws batches and noise.
        form: The networks.

    Returns:
        The new parameters.
    """
    with _on_host():
        key = jax.random.key(int(rng.integers(2**31)))
        arrays = np.asarray(form.reach * goals, np.float32), np.asarray(labels, np.float32)
        return dict(jax.device_get(_train(params, *arrays, np.int32(count), np.int32(steps), key, form)))


def sample(params: Params, n: int, dim: int, rng: np.random.Generator, form: Form) -> FloatArray:
    """Goals from the generator.

    Args:
        params: The parameters of both networks.
        n: How many goals.
        dim: Their dimension.
        rng: Draws the noise.
        form: The networks.

    Returns:
        Goals (n, d); those in [-1, 1]^d lie in the space.
    """
    with _on_host():
        return np.asarray(_generate(params, _normal(rng, (n, dim)), form), np.float64) / form.reach


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    return rng.standard_normal(shape, dtype=np.float32)
