"""Find out why PPO learns U-Maze's target without a curriculum, although an untrained policy hardly ever reaches it.

    python -m benchmarks.studies.exploration [--seeds 8] [--steps 200000] [--only "unchanged,raw advantages"]

The first table is the fraction of 20,000 episodes that reach the target with actions (forward, turn) ~ N(mean, 1) that
ignore the observation. The second is about runs on the target alone, unchanged and with one part removed: in how many
the target is reached in half of the last episodes, and what the policy does early on, namely its mean forward action
and its furthest progress along the corridor (the target is at about 21).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from geodesic.envs.u_maze import UMaze, UMazeState
from geodesic.learners.networks import Params
from geodesic.learners.ppo import PPO, PPOState, Samples
from geodesic.tasks import load
from geodesic.training.agents import stack
from geodesic.training.program import Program, as_sampler

TASK = load("u-maze")
TURN = 6.4  # where the corridor bends, on either axis; its centre line is (TURN + 14.4) long up to the target


class Tracked(UMaze):
    """U-Maze whose `success` is the furthest progress along the corridor, plus 100 if the goal was reached."""

    def __init__(self, step: float = -0.01, goal: float = 1.0, sees_goal: bool = True) -> None:
        super().__init__()
        self.step, self.prize, self.sees_goal = step, goal, sees_goal

    def initial(self, rng: jax.Array, params: Any = None) -> Any:
        return super().initial(rng, params), jnp.float32(0)

    def transition(self, state: Any, action: jax.Array, rng: jax.Array, params: Any = None) -> Any:
        moved = super().transition(state[0], action, rng, params)
        straight = jnp.where(moved.y < 4, moved.x, 2 * TURN + 8 - moved.x)
        progress = jnp.where(moved.x >= TURN, TURN + jnp.clip(moved.y, 0, 8), straight)
        return moved, jnp.maximum(state[1], progress)

    def observation(self, state: Any, rng: jax.Array, params: Any = None) -> jax.Array:
        seen = super().observation(state[0], rng, params)
        return seen if self.sees_goal else seen.at[7:].set(0)

    def reward(self, state: Any, action: jax.Array, next_state: Any, rng: jax.Array, params: Any = None) -> jax.Array:
        return jnp.where(self.reached(next_state[0], params), self.prize, self.step)

    def terminal(self, state: Any, rng: jax.Array, params: Any = None) -> jax.Array:
        return self.reached(state[0], params)

    def reached(self, state: UMazeState, params: Any) -> jax.Array:
        return super().success(state, jnp.asarray(params))

    def success(self, state: Any, context: jax.Array) -> jax.Array:
        return state[1] + 100.0 * self.reached(state[0], context)


@dataclass(frozen=True)
class Lowered(PPO):
    """PPO whose critic starts at -1, the return of a policy that never reaches the goal: no state looks promising."""

    def init(self, key: jax.Array, observation_space: Any, action_space: Any) -> PPOState:
        params = dict(super().init(key, observation_space, action_space).params)
        *hidden, last = params["critic"]
        params["critic"] = [*hidden, {**last, "bias": last["bias"] - 1.0}]
        return PPOState(params, self.optimiser.init(params), ())


@dataclass(frozen=True)
class Raw(PPO):
    """PPO without the normalisation of advantages."""

    def loss(self, params: Params, batch: Samples) -> tuple[jax.Array, dict[str, jax.Array]]:
        log_prob, entropy = self._log_prob(params, batch.obs, batch.action)
        ratio = jnp.exp(log_prob - batch.log_prob)
        clipped = jnp.clip(ratio, 1 - self.clip, 1 + self.clip)
        gain = jnp.minimum(batch.advantage * ratio, batch.advantage * clipped).mean()
        error = jnp.square(batch.returns - self._value(params, batch.obs)).mean()
        return -gain - self.entropy_coef * entropy.mean() + self.value_coef * error, {}


@dataclass(frozen=True)
class RawLowered(Raw, Lowered):
    """Raw advantages and a critic that starts at -1."""


@dataclass(frozen=True)
class Slow(PPO):
    """PPO whose policy cannot drive straight: its mean forward action stays within 0.1 of 0."""

    def _actor(self, params: Any, obs: jax.Array) -> jax.Array:
        output = super()._actor(params, obs)
        return output.at[..., 0].set(0.1 * jnp.tanh(output[..., 0]))


def settings(**changes: Any) -> dict[str, Any]:
    """The task's settings of PPO, some of them changed."""
    algorithm, options = TASK.training.learner
    assert algorithm == "ppo"
    return {**options, "net": tuple(options["net"]), **changes}


VARIANTS: dict[str, Callable[[], tuple[Tracked, PPO]]] = {
    "unchanged": lambda: (Tracked(), PPO(**settings())),
    "no reward at all": lambda: (Tracked(step=0.0, goal=0.0), PPO(**settings())),
    "no step cost": lambda: (Tracked(step=0.0), PPO(**settings())),
    "critic starts at -1": lambda: (Tracked(), Lowered(**settings())),
    "no entropy bonus": lambda: (Tracked(), PPO(**settings(entropy_coef=0.0))),
    "goal not seen": lambda: (Tracked(sees_goal=False), PPO(**settings())),
    "raw advantages": lambda: (Tracked(), Raw(**settings())),
    "raw and no step cost": lambda: (Tracked(step=0.0), Raw(**settings())),
    "raw and critic at -1": lambda: (Tracked(), RawLowered(**settings())),
    "forward within 0.1": lambda: (Tracked(), Slow(**settings())),
}


def blind(mean: jax.Array, key: jax.Array) -> jax.Array:
    """Whether an episode with actions ~ N(mean, 1) reaches its goal, which is drawn from the target."""
    env, goals = UMaze(), jnp.asarray(TASK.target_particles.points, jnp.float32)
    space = env.action_space
    pick, start, noise = jax.random.split(key, 3)
    goal = goals[jax.random.randint(pick, (), 0, len(goals))]

    def step(carry: tuple[UMazeState, jax.Array], z: jax.Array) -> tuple[tuple[UMazeState, jax.Array], None]:
        state = env.transition(carry[0], jnp.clip(mean + z, space.low, space.high), start, goal)
        return (state, carry[1] | env.success(state, goal)), None

    first = env.initial(start, goal), jnp.bool_(False)
    (_, reached), _ = jax.lax.scan(step, first, jax.random.normal(noise, (env.max_steps, 2)))
    return reached


def print_blind(episodes: int = 20_000) -> None:
    """Print how often policies reach the target that ignore the observation."""
    fraction = jax.jit(lambda mean, keys: jax.vmap(lambda key: blind(mean, key))(keys).mean())
    turns = (0.0, 0.1, 0.25)
    print("mean forward | " + " | ".join(f"mean turn {turn:4.2f}" for turn in turns))
    for forward in (0.0, 0.1, 0.25, 0.5, 1.0):
        keys = jax.random.split(jax.random.key(0), episodes)
        cells = [f"{float(fraction(jnp.array([forward, turn]), keys)):13.3%} " for turn in turns]
        print(f"{forward:12.2f} | " + "| ".join(cells), flush=True)


def run(name: str, seeds: int, steps: int) -> None:
    """Train on the target alone, and print the early behaviour and in how many runs the target is learned."""
    env, learner = VARIANTS[name]()
    started = time.perf_counter()
    program = Program(env, learner, 10, 1, "deterministic")
    samplers = stack([as_sampler(TASK.target_particles, 0)] * seeds)
    state = program.init(np.array([(7, seed) for seed in range(seeds)], np.uint32), samplers)
    early: list[str] = []
    reached = np.zeros(seeds)
    forward_action = jax.jit(jax.vmap(lambda params, obs: learner._actor(params, obs)[..., 0].mean()))
    for segment in range(max(1, steps // program.segment_steps)):
        state, log = program.segment(state, samplers)
        ended, furthest = (np.asarray(x).reshape(seeds, -1) for x in (log.ended, log.success))
        progress = [np.asarray(own[end]) for own, end in zip(furthest, ended)]
        reached = np.array([float((own >= 100).mean()) for own in progress])
        if segment in (0, 2, 5):
            forward = np.abs(np.asarray(forward_action(state.learner.params, state.slots.obs))).mean()
            far = np.mean([float((own % 100).max()) for own in progress])
            early.append(f"{forward:5.2f} {far:5.1f} {int((reached > 0).sum()):3d}")
    learned = int((reached >= 0.5).sum())
    print(
        f"{name:20s} | {learned:2d} of {seeds:2d} | " + " | ".join(early), f"| {time.perf_counter() - started:4.0f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--only", default=",".join(VARIANTS))
    arguments = parser.parse_args()
    print_blind()
    print("\nafter 10k, 30k and 60k steps: mean |forward|, mean furthest progress, seeds that reached the goal")
    for name in arguments.only.split(","):
        run(name, arguments.seeds, arguments.steps)


if __name__ == "__main__":
    main()
