"""A learned embedding of contexts in which a given distance becomes Euclidean (Algorithm 5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jax import Array
from numpy.typing import ArrayLike

from geodesic.checks import Boolean, Count, FloatArray, Positive, Size, as_points, as_rng
from geodesic.contexts import EpisodeBatch
from geodesic.errors import InvalidInput
from geodesic.metrics.base import Metric, check_endpoints
from geodesic.metrics.returns import ReturnMetric, Returns, return_differences
from geodesic.runtime import set_xla_flags

set_xla_flags()

Params = Any  # Flax's tree of parameters

WIDTH = 128  # units of each hidden layer
GROUP = 32  # contexts in a batch: its 496 pairs replace the paper's batch of 512 pairs
RATE = 1e-3
STARTS = 4  # networks that start a fit
TRIAL = 0.1  # fraction of the updates after which only the best of them continues


@dataclass(frozen=True)
class Embedding(ReturnMetric):
    """Learned: a latent space in which |J(c) - J(c')| is Euclidean, J the model of recent scores.

    Args:
        space: The bounded context space.
        worst_return: The lowest score an episode can have.
        contexts: The number of contexts, uniform over the space, that are embedded.
        epochs: How often each pair of contexts is seen in training, on average.
        latent: Dimensions of the latent space.
        beta: The weight of the distances against the reconstruction.
        squared: Whether to fit the squared norm, as in the paper.
        raw: Whether to fit contexts and distances in their own units, as in the authors' code.
        memory: The number of most recent episodes that a fit uses.
        score: The score that J models: "return", "discounted_return" or "success".

    Raises:
        InvalidInput: If the space is unbounded, or an option is invalid.
    """

    contexts: Size = 500
    epochs: Count = 100
    latent: Count = 2
    beta: Positive = 10.0
    squared: Boolean = False
    raw: Boolean = False

    def fit(self, episodes: EpisodeBatch, rng: np.random.Generator, anchors: ArrayLike | None = None) -> Latent:
        """Fit the model to episodes and embed its differences; see `LearnedMetric.fit`. Anchors are not used."""
        returns = self.model(episodes, rng)
        contexts = self.space.uniform(self.contexts, rng).points
        return self.embed(contexts, return_differences(returns, contexts), rng, returns)

    def embed(
        self, contexts: ArrayLike, distances: ArrayLike, rng: np.random.Generator, returns: Returns | None = None
    ) -> Latent:
        """Train an encoder and a decoder.

        A batch is all pairs among 32 contexts: about as many pairs as the paper's batches of 512, at a thirtieth of
        the network evaluations. The 32 pairs of a context with itself are among them, so that the distances of the
        others weigh 31/32 as much as beta says (9.69). The learning rate falls from 1e-3 to 0, so that the small
        batches converge.

        Args:
            contexts: Contexts (n, d).
            distances: The distances (n, n) between them.
            rng: The source of randomness.
            returns: The model of scores that the distances come from.

        Returns:
            The latent space.

        Raises:
            InvalidInput: If shapes do not match.
        """
        points = as_points(contexts, "contexts", self.space.dim)
        n = len(points)
        target = as_points(distances, "distances", n)
        if target.shape != (n, n) or (target < 0).any():
            raise InvalidInput(f"expected distances >= 0 of shape ({n}, {n}), got shape {target.shape}")
        unit = 1.0 if self.raw else float(target.max()) or 1.0
        updates = self.epochs * max(1, round(n * (n - 1) / (GROUP * (GROUP - 1))))
        with jax.default_device(jax.local_devices(backend="cpu")[0]):  # many tiny steps in sequence are slower on a GPU
            key, data = jax.random.key(int(as_rng(rng).integers(2**31))), self.as_inputs(points)
            scaled = jnp.asarray(target / unit, jnp.float32)
            params, stress = train(self.net, data, scaled, key, self.beta, updates, self.squared, self.raw)
        unit = np.sqrt(unit) if self.squared else unit
        return Latent(self, jax.device_get(params), unit, returns, float(stress))

    @property
    def net(self) -> Autoencoder:
        """The network."""
        return Autoencoder(self.space.relaxed.dim, self.latent)

    def as_inputs(self, x: FloatArray) -> Array:
        """Scale contexts as the network takes them, categories one-hot.

        Args:
            x: Contexts (n, d).

        Returns:
            The inputs (n, m) of the network.
        """
        return jnp.asarray(self.space.relax(x) if self.raw else 2 * self.space.to_unit(x) - 1, jnp.float32)


@dataclass(eq=False)
class Latent(Metric):
    """d(x, y) = |e(x) - e(y)| with an encoder e fitted to given distances; paths are straight in its latent space.

        minimise  beta (|e(c1) - e(c2)| - d(c1, c2))^2 + |g(e(c1)) - c1|^2 + |g(e(c2)) - c2|^2,   g the decoder

    Contexts are fitted in units of their space (-1 ... 1) and distances in units of the largest, so that the same beta
    serves every problem. The quality of a fit is its stress, about .002 for straight-line distances in a square and .17
    where a square is folded:

        stress = sqrt(sum (|e(c1) - e(c2)| - d)^2 / sum d^2)

    Differs from the paper, which fits the squared norm to d. That makes the latent metric sqrt(d), which has no
    geodesics; the authors' code fits the norm, as this does. `squared=True` is the paper's form. The paper also trains
    one network, which can fold the space: contexts far apart end up in the same place, and no later update separates
    them. So several networks start, and the one of least stress after a tenth of the updates continues. `raw=True` is
    the form of the authors' code: contexts and distances in their own units, which then weigh the two losses; one start
    at a constant learning rate.

    Args:
        metric: The metric that was fitted, with the space of the contexts.
        params: The parameters of its network.
        unit: The distance that has length 1 in the latent space.
        model: The model of scores that the distances come from, if any.
        stress: The stress of the fit.
    """

    metric: Embedding
    params: Params
    unit: float
    model: Returns | None
    stress: float

    def returns(self, contexts: FloatArray) -> FloatArray:
        """Predict the scores (n,) in contexts (n, d)."""
        if self.model is None:
            raise InvalidInput("expected a latent space that was fitted to returns, got one fitted to distances")
        return self.model(contexts)

    def encode(self, x: FloatArray) -> FloatArray:
        """Map contexts (n, d) to latent points (n, latent), in units of the distance."""
        latent = apply(self.metric.net, "encoder", self.params, self.metric.as_inputs(x))
        return self.unit * np.asarray(latent, np.float64)

    def decode(self, z: FloatArray) -> FloatArray:
        """Map latent points (n, latent) to contexts (n, d), the nearest in their space."""
        decoded = apply(self.metric.net, "decoder", self.params, jnp.asarray(z / self.unit, jnp.float32))
        x, space = np.asarray(decoded, np.float64), self.metric.space
        return space.round(x if self.metric.raw else space.relaxed.low + (x + 1) / 2 * space.relaxed.sides)

    def pairwise(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Compute the distances (n, m) between contexts x (n, d) and y (m, d)."""
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(self.encode(x), self.encode(y)))

    def interpolate(self, x: FloatArray, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
        """Decode the points (n, 1, d) at t on straight lines in the latent space; all mass (n, 1) is at them."""
        x, y, t = check_endpoints(x, y, t)
        decoded = self.decode((1 - t) * self.encode(x) + t * self.encode(y))
        return decoded[:, None, :], np.ones((len(x), 1))


class Autoencoder(nn.Module):
    """An encoder and a decoder, each an MLP with two hidden layers of 128 ReLU units.

    Args:
        dim: Dimensions of the contexts, categories one-hot.
        latent: Dimensions of the latent space.
    """

    dim: int
    latent: int

    def setup(self) -> None:
        """Create the two networks."""
        self.encoder = _mlp(self.latent)
        self.decoder = _mlp(self.dim)

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Return the latent points and their reconstruction."""
        z = self.encoder(x)
        return z, self.decoder(z)


@partial(jax.jit, static_argnums=(0, 1))
def apply(net: Autoencoder, part: str, params: Params, x: Array) -> Array:
    """Apply the encoder or the decoder; compiled once for all networks of a size, since a curriculum fits many."""
    return jnp.asarray(net.apply(params, method=lambda net: getattr(net, part)(x)))


def _mlp(out: int) -> nn.Sequential:
    dense = partial(nn.Dense, precision="highest")  # float32 on every device
    return nn.Sequential([dense(WIDTH), nn.relu, dense(WIDTH), nn.relu, dense(out)])


@partial(jax.jit, static_argnames=("net", "updates", "squared", "raw"))
def train(
    net: Autoencoder, contexts: Array, distances: Array, key: Array, beta: float, updates: int, squared: bool, raw: bool
) -> tuple[Params, Array]:
    """Train for `updates` batches in one compiled loop; return the parameters and their stress.

    STARTS networks start, the first from `key` itself; the best after a fraction TRIAL of the updates continues. The
    raw form is one network at a constant rate.
    """
    adam = optax.adam(RATE if raw else optax.cosine_decay_schedule(RATE, updates))
    trial = int(TRIAL * updates)

    def fitted(z: Array) -> Array:
        gaps = jnp.sum((z[:, None] - z[None]) ** 2, axis=2)
        return gaps if squared else jnp.sqrt(gaps + 1e-12)

    def loss(params: Params, x: Array, d: Array) -> Array:
        z, decoded = net.apply(params, x)
        # Each pair has two reconstructions, and contexts are in equally many pairs: twice the mean over contexts.
        return beta * jnp.mean((fitted(z) - d) ** 2) + 2 * jnp.mean((decoded - x) ** 2)

    def stress(params: Params) -> Array:
        z, _ = net.apply(params, contexts)
        return jnp.sqrt(jnp.sum((fitted(z) - distances) ** 2) / jnp.maximum(jnp.sum(distances**2), 1e-12))

    def update(carry: Any, key: Array) -> Any:
        params, moments = carry
        rows = jax.random.randint(key, (GROUP,), 0, len(contexts))
        grads = jax.grad(loss)(params, contexts[rows], distances[rows[:, None], rows])
        changes, moments = adam.update(grads, moments)
        return (optax.apply_updates(params, changes), moments), None

    def start_network(key: Array) -> Any:
        key, first = jax.random.split(key)
        params = net.init(first, contexts[:1])
        keys = jax.random.split(key, updates)
        carry, _ = jax.lax.scan(update, (params, adam.init(params)), keys[:trial])
        return carry, keys[trial:], stress(carry[0])

    starts = key[None] if raw else jnp.stack([key, *jax.random.split(key, STARTS - 1)])
    started = jax.lax.map(start_network, starts)  # in sequence: batched products of this size are slower on a CPU
    carry, keys, _ = jax.tree.map(lambda leaf: leaf[jnp.argmin(started[2])], started)
    (params, _), _ = jax.lax.scan(update, carry, keys)
    return params, stress(params)
