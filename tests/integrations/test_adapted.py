"""What environments of other JAX libraries have in common: contexts with integers and categories."""

from typing import NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from geodesic.contexts import ContextSpace
from geodesic.integrations.adapted import Adapted, Step

CONTEXTS = {"gravity": (5.0, 15.0), "wind": ["none", "steady", "gusts"], "delay": range(1, 4)}


class Physics(NamedTuple):
    gravity: jax.Array = jnp.float32(9.8)
    wind: jax.Array = jnp.int32(0)
    delay: jax.Array = jnp.int32(0)


class Library(Adapted):
    """A library's environment that returns its physics as the observation."""

    action_space = gym.spaces.Discrete(2)
    max_steps = 5

    def __init__(self, **options):
        super().__init__(Physics(), CONTEXTS, lambda physics, **context: physics._replace(**context), **options)
        self.trace()

    def reset_env(self, rng, physics):
        seen = jnp.stack([part.astype(jnp.float32) for part in physics])
        return Step(physics, seen, jnp.float32(0), jnp.bool_(False))


def test_integers_and_categories_are_integers_for_the_library():
    library, context = Library(observe_context=False), np.array([7.0, 2.0, 3.0], np.float32)
    state = jax.jit(library.initial)(jax.random.key(0), context)
    assert [part.dtype.kind for part in state.inner] == ["f", "i", "i"]
    assert library.observation(state, None, context).tolist() == [7, 2, 3]


def test_the_agent_observes_what_it_observes_elsewhere():
    library, space = Library(observe_context=True), ContextSpace.of(CONTEXTS)
    assert library.observation_space.shape == (3 + 5,)
    for context in space.draw(20, np.random.default_rng(0)).astype(np.float32):
        state = library.initial(jax.random.key(0), context)
        seen = jax.jit(library.observation)(state, jax.random.key(0), context)
        np.testing.assert_allclose(seen[3:], space.observe(context[None])[0], atol=1e-6)
