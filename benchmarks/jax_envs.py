"""What a context for each episode costs in other people's environments in JAX: ours beside the library's own stepping.

    python -m benchmarks.jax_envs      # needs the extras gymnax and brax

Both sides are one compiled loop over 64 environments with random actions, episodes begun anew where they end. Theirs is
the library's vectorised step with its automatic reset and one physics for all. Ours goes through the adapter: the
physics is that of the episode's context, which is drawn anew with each episode. They take turns, in one thread, timed
by its processor's clock, so that whatever else the machine does slows both: the ratio is the median over the turns,
beside it the range of its middle half. The last columns are environment steps per second of ours, alone and with our
PPO around it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from geodesic.runtime import ours_alone

ours_alone()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import geodesic as gd  # noqa: E402
from geodesic.envs.cmdp import ContextualMDP  # noqa: E402
from geodesic.training.program import Program, as_sampler, stack  # noqa: E402

ENVS, TURNS, SEGMENTS = 64, 15, 3
LEARNER = gd.PPO(n_envs=ENVS, rollout=64, epochs=4, batch_size=1024)
Loop = Callable[[jax.Array], Any]  # a key -> the states after some steps in all environments, and what they earned


def of_gymnax(name: str, context: str, steps: int = 2000) -> tuple[ContextualMDP, Loop, int]:
    import gymnax

    env, params = gymnax.make(name)

    def theirs(key: jax.Array) -> Any:
        def step(states: Any, keys: jax.Array) -> tuple[Any, jax.Array]:
            actions = jax.vmap(env.action_space(params).sample)(keys)
            _, states, rewards, *_ = jax.vmap(env.step, in_axes=(0, 0, 0, None))(keys, states, actions, params)
            return states, rewards.sum()

        first, later = jax.random.split(key)
        _, states = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(first, ENVS), params)
        return jax.lax.scan(step, states, jax.random.split(later, (steps, ENVS)))

    return gd.envs.from_gymnax(name, contexts={context: (5.0, 20.0)}), theirs, steps


def of_brax(name: str, steps: int = 40) -> tuple[ContextualMDP, Loop, int]:
    from brax import envs

    env = envs.create(name, batch_size=ENVS)

    def put(sys: Any, gravity: jax.Array) -> Any:
        return sys.replace(gravity=jnp.stack([0.0, 0.0, -gravity]))

    def theirs(key: jax.Array) -> Any:
        def step(state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            state = env.step(state, jax.random.uniform(key, (ENVS, env.action_size), minval=-1.0, maxval=1.0))
            return state, state.reward.sum()

        first, later = jax.random.split(key)
        return jax.lax.scan(step, env.reset(first), jax.random.split(later, steps))

    return gd.envs.from_brax(name, contexts={"gravity": (5.0, 20.0)}, apply=put), theirs, steps


def ours(mdp: ContextualMDP, steps: int) -> Loop:
    """The same through the adapter, with a context for each episode."""
    space: Any = mdp.context_space  # type: ignore[attr-defined]
    low, sides = (np.asarray(x, np.float32) for x in (space.low, space.sides))

    def action(key: jax.Array) -> jax.Array:
        box: Any = mdp.action_space
        if hasattr(box, "n"):
            return jax.random.randint(key, (), 0, box.n)
        return jax.random.uniform(key, box.shape, minval=box.low, maxval=box.high)

    def begin(key: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
        draw, start = jax.random.split(key)
        context = low + sides * jax.random.uniform(draw, low.shape)
        return mdp.initial(start, context), context, jnp.int32(0)

    def one(held: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        act, move, anew = jax.random.split(key, 3)
        state, context, length = held
        after = mdp.transition(state, action(act), move, context)
        reward = mdp.reward(state, act, after, move, context)
        over = mdp.terminal(after, move, context) | (length + 1 >= mdp.max_steps)
        return jax.tree.map(
            lambda new, old: jnp.where(over, new, old), begin(anew), (after, context, length + 1)
        ), reward

    def loop(key: jax.Array) -> Any:
        first, later = jax.random.split(key)
        held = jax.vmap(begin)(jax.random.split(first, ENVS))
        return jax.lax.scan(jax.vmap(one), held, jax.random.split(later, (steps, ENVS)))

    return loop


def beside(mdp: ContextualMDP, theirs: Loop, steps: int) -> tuple[list[float], float]:
    """How fast ours is in units of theirs, turn by turn; and our steps per second."""
    sides = [jax.jit(ours(mdp, steps)), jax.jit(theirs)]
    times = [[seconds(side, turn) for side in sides] for turn in range(TURNS + 1)][1:]  # the first compiles
    return [their / our for our, their in times], ENVS * steps / statistics.median(our for our, _ in times)


def seconds(side: Loop, turn: int) -> float:
    key = jax.random.PRNGKey(turn)
    began = time.process_time()
    jax.block_until_ready(side(key))
    return time.process_time() - began


def training(mdp: ContextualMDP) -> float:
    """Steps per second of a run, without compilation."""
    program = Program(mdp, LEARNER, 2, 4, "deterministic")
    contexts = mdp.context_space.uniform(200, np.random.default_rng(0))  # type: ignore[attr-defined]
    samplers = stack([as_sampler(contexts, 0)])
    state = program.init(np.stack([np.asarray(jax.random.PRNGKey(0))]), samplers)
    times = []
    for _ in range(SEGMENTS + 1):
        began = time.process_time()
        state, log = program.segment(state, samplers)
        jax.block_until_ready((state, log))
        times.append(time.process_time() - began)
    return program.segment_steps / statistics.median(times[1:])


if __name__ == "__main__":
    print(f"{'environment':<24}{'ours / theirs':>15}{'range':>14}{'steps/s':>12}{'training':>12}")
    for name, make in {
        "gymnax CartPole-v1": lambda: of_gymnax("CartPole-v1", "gravity"),
        "gymnax Pendulum-v1": lambda: of_gymnax("Pendulum-v1", "g"),
        "brax inverted_pendulum": lambda: of_brax("inverted_pendulum"),
    }.items():
        mdp, theirs, steps = make()
        ratios, rate = beside(mdp, theirs, steps)
        low, _, high = statistics.quantiles(ratios, n=4)
        spread = f"{low:.2f} ... {high:.2f}"
        print(
            f"{name:<24}{statistics.median(ratios):>15.2f}{spread:>14}{rate:>12,.0f}{training(mdp):>12,.0f}", flush=True
        )
