"""The network of the learned embedding, and its training as one compiled loop."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from geodesic.runtime import prepare

prepare()

Params = Any  # Flax's tree of parameters

WIDTH = 128
GROUP = 32  # contexts in a batch: its 496 pairs stand for the paper's batch of 512 pairs
RATE = 1e-3
STARTS = 4  # networks that begin a fit
TRIAL = 0.1  # share of the updates after which the best of them is kept


class Autoencoder(nn.Module):
    """Encoder and decoder, each an MLP with two hidden layers of 128 ReLU units."""

    dim: int
    latent: int

    def setup(self) -> None:
        self.encoder = _mlp(self.latent)
        self.decoder = _mlp(self.dim)

    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        z = self.encoder(x)
        return z, self.decoder(z)

    def encode(self, x: jax.Array) -> jax.Array:
        return jnp.asarray(self.encoder(x))

    def decode(self, z: jax.Array) -> jax.Array:
        return jnp.asarray(self.decoder(z))


@partial(jax.jit, static_argnums=0)
def encode(net: Autoencoder, params: Params, x: jax.Array) -> jax.Array:
    """Compiled once for all networks of a size: a curriculum fits many."""
    return jnp.asarray(net.apply(params, x, method=Autoencoder.encode))


@partial(jax.jit, static_argnums=0)
def decode(net: Autoencoder, params: Params, z: jax.Array) -> jax.Array:
    return jnp.asarray(net.apply(params, z, method=Autoencoder.decode))


def _mlp(out: int) -> nn.Sequential:
    dense = partial(nn.Dense, precision="highest")  # float32 on every device, as in learners/networks.py
    return nn.Sequential([dense(WIDTH), nn.relu, dense(WIDTH), nn.relu, dense(out)])


@partial(jax.jit, static_argnames=("updates", "latent", "squared", "plain"))
def train(
    contexts: jax.Array,
    distances: jax.Array,
    key: jax.Array,
    beta: float,
    updates: int,
    latent: int,
    squared: bool,
    plain: bool = False,
) -> tuple[Params, jax.Array]:
    """The parameters after `updates` batches, as one compiled loop, and their stress.

    STARTS networks begin, the first from `key` itself; the best after TRIAL of the updates is trained to the end. The
    plain form is one network at a constant rate.
    """
    net = Autoencoder(contexts.shape[1], latent)
    adam = optax.adam(RATE if plain else optax.cosine_decay_schedule(RATE, updates))
    trial = int(TRIAL * updates)

    def fitted(z: jax.Array) -> jax.Array:
        gaps = jnp.sum((z[:, None] - z[None]) ** 2, axis=2)
        return gaps if squared else jnp.sqrt(gaps + 1e-12)

    def loss(params: Params, x: jax.Array, d: jax.Array) -> jax.Array:
        z, decoded = net.apply(params, x)
        # Each pair has two reconstructions, each context is in every pair alike: twice the mean over contexts.
        return beta * jnp.mean((fitted(z) - d) ** 2) + 2 * jnp.mean((decoded - x) ** 2)

    def stress(params: Params) -> jax.Array:
        z, _ = net.apply(params, contexts)
        return jnp.sqrt(jnp.sum((fitted(z) - distances) ** 2) / jnp.maximum(jnp.sum(distances**2), 1e-12))

    def update(carry: Any, key: jax.Array) -> Any:
        params, moments = carry
        rows = jax.random.randint(key, (GROUP,), 0, len(contexts))
        grads = jax.grad(loss)(params, contexts[rows], distances[rows[:, None], rows])
        changes, moments = adam.update(grads, moments)
        return (optax.apply_updates(params, changes), moments), None

    def begin(key: jax.Array) -> Any:
        key, start = jax.random.split(key)
        params = net.init(start, contexts[:1])
        keys = jax.random.split(key, updates)
        carry, _ = jax.lax.scan(update, (params, adam.init(params)), keys[:trial])
        return carry, keys[trial:], stress(carry[0])

    starts = key[None] if plain else jnp.stack([key, *jax.random.split(key, STARTS - 1)])
    begun = jax.lax.map(begin, starts)  # one after another: batched products of this size are slower on a CPU
    carry, keys, _ = jax.tree.map(lambda leaf: leaf[jnp.argmin(begun[2])], begun)
    (params, _), _ = jax.lax.scan(update, carry, keys)
    return params, stress(params)
