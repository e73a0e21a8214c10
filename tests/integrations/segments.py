"""Two segments of the compiled program, for tests of environments that are not ours."""

import jax
import numpy as np

from geodesic.contexts import Particles
from geodesic.training.agents import stack
from geodesic.training.program import Program, as_sampler


def two_segments(mdp, learner):
    """How many programs two segments needed, and the state after them."""
    program = Program(mdp, learner, 2, 4, "deterministic")
    samplers = stack([as_sampler(Particles(np.array([mdp.context_space.low])), 0)])
    state = program.init(np.stack([np.asarray(jax.random.PRNGKey(0))]), samplers)
    for _ in range(2):
        state, log = program.segment(state, samplers)
    return program.segment._cache_size(), state, log
