"""A learned embedding of contexts in which a given distance becomes Euclidean (Algorithm 5)."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from geodesic.checks import FloatArray, as_count, as_flag, as_number, as_points, as_positive, as_rng, as_size, check
from geodesic.contexts import ContextSpace, Episodes, as_bounded
from geodesic.errors import InvalidInput
from geodesic.metrics.autoencoder import GROUP, Autoencoder, Params, decode, encode, train
from geodesic.metrics.base import as_ways, latest
from geodesic.metrics.returns import MEMORY, ReturnDifference, ReturnModel, Returns


@dataclass(frozen=True)
class Embedding:
    """Recipe: the latent space in which |J(c) - J(c')| is Euclidean, J the return model of the latest episodes.

    `contexts` of them, uniform over the space, are embedded; the rest are `Latent.fit`'s.
    """

    space: ContextSpace
    worst_return: float
    contexts: int = 500
    epochs: int = 100
    latent: int = 2
    beta: float = 10.0
    squared: bool = False
    raw: bool = False
    memory: int = MEMORY

    def __post_init__(self) -> None:
        check(self, space=as_bounded, worst_return=as_number, contexts=as_size, epochs=as_count, latent=as_count)
        check(self, beta=as_positive, squared=as_flag, raw=as_flag, memory=as_count)

    def fit(self, episodes: Episodes, rng: np.random.Generator, anchors: ArrayLike | None = None) -> Latent:
        seen = latest(episodes, self.space, self.memory, rng)
        returns = ReturnModel(seen.contexts, seen.returns, self.space, self.worst_return)
        contexts = self.space.uniform(self.contexts, rng).points
        distances = ReturnDifference(returns).pairwise(contexts, contexts)
        options = (self.epochs, self.latent, self.beta, self.squared)
        return Latent.fit(contexts, distances, self.space, rng, *options, returns=returns, raw=self.raw)


class Latent:
    """d(x, y) = |e(x) - e(y)| with an encoder e fitted to given distances; the way is straight in the latent space.

        minimise  beta (|e(c1) - e(c2)| - d(c1, c2))^2 + |g(e(c1)) - c1|^2 + |g(e(c2)) - c2|^2,   g the decoder

    The paper fits the squared norm to d, which makes the latent metric sqrt(d): a metric without geodesics. The
    authors' code fits the norm, as is done here; `squared=True` is the paper's form. Contexts are fitted in units of
    their space (-1 ... 1) and distances in units of the largest, so that one beta serves every problem.

    A start can fold the space: contexts far apart on top of each other, which no later update undoes. So several
    networks begin, and after a tenth of the updates the one of least stress goes on, where the paper trains one.

        stress = sqrt(sum (|e(c1) - e(c2)| - d)^2 / sum d^2),   NaN where it is not known

    tells how well it was fitted in the end: about .002 for straight distances in a square, .17 where one is folded.

    `raw=True` is the form of the authors' code: contexts and distances in their own units, so that these weigh the two
    losses; one start, at a constant rate.
    """

    def __init__(
        self,
        params: Params,
        space: ContextSpace,
        latent: int,
        unit: float,
        returns: Returns | None = None,
        stress: float = float("nan"),
        raw: bool = False,
    ) -> None:
        self.params, self.space, self.unit, self.stress, self.raw = params, space, unit, stress, raw
        self._returns = returns
        self.net = Autoencoder(space.dim, latent)

    @classmethod
    def fit(
        cls,
        contexts: ArrayLike,
        distances: ArrayLike,
        space: ContextSpace,
        rng: np.random.Generator,
        epochs: int = 100,
        latent: int = 2,
        beta: float = 10.0,
        squared: bool = False,
        returns: Returns | None = None,
        raw: bool = False,
    ) -> Latent:
        """Train on contexts (n, d) and the distances (n, n) between them.

        An epoch shows as many pairs as there are. A batch is all pairs among 32 contexts: as many pairs as the
        paper's batches of 512, at a thirtieth of the network evaluations. The learning rate falls from 1e-3 to 0, so
        that the small batches settle.
        """
        points = as_points(contexts, "contexts", as_bounded(space, "space").dim)
        n = len(points)
        target = as_points(distances, "distances", n)
        if target.shape != (n, n) or (target < 0).any():
            raise InvalidInput(f"expected distances >= 0 of shape ({n}, {n}), got shape {target.shape}")
        unit = 1.0 if raw else float(target.max()) or 1.0
        batches = max(1, round(n * (n - 1) / (GROUP * (GROUP - 1))))
        with jax.default_device(jax.local_devices(backend="cpu")[0]):  # many tiny steps in a row: no work for a GPU
            params, stress = train(
                jnp.asarray(points if raw else _to_unit(points, space), jnp.float32),
                jnp.asarray(target / unit, jnp.float32),
                jax.random.key(int(as_rng(rng).integers(2**31))),
                as_positive(beta, "beta"),
                as_count(epochs, "epochs") * batches,
                as_count(latent, "latent"),
                as_flag(squared, "squared"),
                as_flag(raw, "raw"),
            )
        unit = np.sqrt(unit) if squared else unit
        return cls(jax.device_get(params), space, latent, unit, returns, float(stress), raw)

    def returns(self, contexts: FloatArray) -> FloatArray:
        if self._returns is None:
            raise InvalidInput("expected a latent space that was fitted to returns, got one fitted to distances")
        return self._returns(contexts)

    def encode(self, x: FloatArray) -> FloatArray:
        """Latent points (n, latent), in units of the distance."""
        scaled = jnp.asarray(x if self.raw else _to_unit(x, self.space), jnp.float32)
        return self.unit * np.asarray(encode(self.net, self.params, scaled), np.float64)

    def decode(self, z: FloatArray) -> FloatArray:
        """Contexts (n, d), clipped to their space."""
        decoded = np.asarray(decode(self.net, self.params, jnp.asarray(z / self.unit, jnp.float32)), np.float64)
        return self.space.clip(decoded if self.raw else _from_unit(decoded, self.space))

    def pairwise(self, x: FloatArray, y: FloatArray) -> FloatArray:
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(self.encode(x), self.encode(y)))

    def plan_cost(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(self.pairwise(x, y) ** 2)

    def interpolate(self, x: FloatArray, y: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
        x, y, t = as_ways(x, y, t)
        decoded = self.decode((1 - t) * self.encode(x) + t * self.encode(y))
        return decoded[:, None, :], np.ones((len(x), 1))

    def length(self, distances: FloatArray, mass: FloatArray) -> float:
        return float(np.sqrt(mass @ distances**2))


def _to_unit(x: FloatArray, space: ContextSpace) -> FloatArray:
    return np.asarray(2 * (x - space.low) / space.sides - 1)


def _from_unit(x: FloatArray, space: ContextSpace) -> FloatArray:
    return np.asarray(space.low + (x + 1) / 2 * space.sides)
