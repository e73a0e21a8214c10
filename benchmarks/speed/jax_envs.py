"""Time the adapters of other libraries' JAX environments, where every episode has its own context.

    python -m benchmarks.speed.jax_envs      # needs the extras gymnax and brax

Both sides are one compiled loop over 64 environments with random actions and automatic resets. Theirs is the library's
vectorised step, with the same physics for all. Ours goes through the adapter: the physics follows the episode's
context, which is drawn at each reset. The two alternate in one thread and are timed by CPU time, so that other load on
the machine slows both. The ratio is the median over the rounds, next to the range of its middle half. The last columns
are environment steps per second of ours, alone and with our PPO.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from geodesic.runtime import configure_process

configure_process()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import geodesic as gd  # noqa: E402
from geodesic.envs.cmdp import ContextualMDP  # noqa: E402
from geodesic.training.agents import stack  # noqa: E402
from geodesic.training.program import Program, as_sampler  # noqa: E402

ENVS, ROUNDS, SEGMENTS = 64, 15, 3
LEARNER = gd.PPO(n_envs=ENVS, rollout=64, epochs=4, batch_size=1024)
Loop = Callable[[jax.Array], Any]  # key -> states after some steps in all environments, and their rewards


def gymnax_env(name: str, context: str, steps: int = 2000) -> tuple[ContextualMDP, Loop, int]:
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


def brax_env(name: str, steps: int = 40) -> tuple[ContextualMDP, Loop, int]:
    from brax import envs

    env = envs.create(name, batch_size=ENVS)

    def set_context(sys: Any, gravity: jax.Array) -> Any:
        return sys.replace(gravity=jnp.stack([0.0, 0.0, -gravity]))

    def theirs(key: jax.Array) -> Any:
        def step(state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            state = env.step(state, jax.random.uniform(key, (ENVS, env.action_size), minval=-1.0, maxval=1.0))
            return state, state.reward.sum()

        first, later = jax.random.split(key)
        return jax.lax.scan(step, env.reset(first), jax.random.split(later, steps))

    return gd.envs.from_brax(name, contexts={"gravity": (5.0, 20.0)}, set_context=set_context), theirs, steps


def ours(mdp: ContextualMDP, steps: int) -> Loop:
    """Step through the adapter, with a new context for each episode."""
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

    def step(slot: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        act, move, new = jax.random.split(key, 3)
        state, context, length = slot
        after = mdp.transition(state, action(act), move, context)
        reward = mdp.reward(state, act, after, move, context)
        over = mdp.terminal(after, move, context) | (length + 1 >= mdp.max_steps)
        return jax.tree.map(
            lambda fresh, old: jnp.where(over, fresh, old), begin(new), (after, context, length + 1)
        ), reward

    def loop(key: jax.Array) -> Any:
        first, later = jax.random.split(key)
        slots = jax.vmap(begin)(jax.random.split(first, ENVS))
        return jax.lax.scan(jax.vmap(step), slots, jax.random.split(later, (steps, ENVS)))

    return loop


def compare(mdp: ContextualMDP, theirs: Loop, steps: int) -> tuple[list[float], float]:
    """Our speed relative to theirs in each round, and our steps per second."""
    sides = [jax.jit(ours(mdp, steps)), jax.jit(theirs)]
    times = [[seconds(side, number) for side in sides] for number in range(ROUNDS + 1)][1:]  # the first compiles
    return [their / our for our, their in times], ENVS * steps / statistics.median(our for our, _ in times)


def seconds(side: Loop, number: int) -> float:
    key = jax.random.PRNGKey(number)
    began = time.process_time()
    jax.block_until_ready(side(key))
    return time.process_time() - began


def training(mdp: ContextualMDP) -> float:
    """Environment steps per second of a run with PPO, without compilation."""
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
        "gymnax CartPole-v1": lambda: gymnax_env("CartPole-v1", "gravity"),
        "gymnax Pendulum-v1": lambda: gymnax_env("Pendulum-v1", "g"),
        "brax inverted_pendulum": lambda: brax_env("inverted_pendulum"),
    }.items():
        mdp, theirs, steps = make()
        ratios, rate = compare(mdp, theirs, steps)
        low, _, high = statistics.quantiles(ratios, n=4)
        spread = f"{low:.2f} ... {high:.2f}"
        print(
            f"{name:<24}{statistics.median(ratios):>15.2f}{spread:>14}{rate:>12,.0f}{training(mdp):>12,.0f}", flush=True
        )
