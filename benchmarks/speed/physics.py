"""Time FetchPush: our environment and gymnasium-robotics', on one core, in alternation.

    python -m benchmarks.speed.physics

Both play the same random actions from the same states of the stock model, and their trajectories are equal bit by bit.
The next lines are the authors' model, which runs use, without and with the excluded contacts between bodies that cannot
touch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.environ.setdefault("MUJOCO_GL", "disabled")

import gymnasium as gym  # noqa: E402
import gymnasium_robotics  # noqa: E402
import numpy as np  # noqa: E402

from geodesic import ContextSpace  # noqa: E402
from geodesic.envs import fetch_push  # noqa: E402
from geodesic.envs.fetch_push import FetchPush  # noqa: E402
from geodesic.envs.snapshots import simulator_state  # noqa: E402

EPISODES, STEPS, ROUNDS = 10, 50, 7


class Stock(FetchPush):
    """FetchPush with gymnasium-robotics' geometry."""

    geometry = fetch_push.STOCK
    context_space = ContextSpace([0.8, 0.4], [2.0, 1.1])


def with_all_contacts() -> FetchPush:
    """FetchPush in which MuJoCo looks for contacts between all bodies."""
    env, excluded = FetchPush(), fetch_push.EXCLUDED_CONTACTS
    fetch_push.EXCLUDED_CONTACTS = ()
    try:
        env._world = fetch_push.build.__wrapped__(fetch_push.PAPER)
    finally:
        fetch_push.EXCLUDED_CONTACTS = excluded
    env._attach(env._world.mujoco.MjData(env._world.model))
    return env


def actions(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    drift = rng.uniform(-1, 1, 4)
    return (drift + rng.normal(0, 0.5, (STEPS, 4))).clip(-1, 1).astype(np.float32)


def seconds(begin: Callable[[int], object], step: Callable[[np.ndarray], object]) -> float:
    """CPU seconds of some episodes, without their resets."""
    spent = 0.0
    for seed in range(EPISODES):
        begin(seed)
        moves = actions(seed)
        start = time.process_time()
        for move in moves:
            step(move)
        spent += time.process_time() - start
    return spent


def overhead(env: FetchPush) -> float:
    """Seconds of a step in which MuJoCo's two calls do nothing."""
    mujoco = env._world.mujoco
    names = {name: getattr(mujoco, name) for name in ("mj_objectVelocity", "mjtObj")}
    idle = SimpleNamespace(mj_step=lambda *_, **__: None, mj_forward=lambda *_: None, **names)
    real, env._world = env._world, replace(env._world, mujoco=idle)
    try:
        return seconds(lambda seed: None, env.step) / (EPISODES * STEPS)
    finally:
        env._world = real


def main() -> None:
    gym.register_envs(gymnasium_robotics)
    theirs, same = gym.make("FetchPush-v4").unwrapped, Stock()
    ours, unfiltered = FetchPush(), with_all_contacts()

    def begin(seed: int) -> None:
        theirs.reset(seed=seed)
        same.reset(seed=seed)
        same.restore_state({**same.save_state(), "physics": simulator_state(same._world.model, theirs.data)})

    work = {
        "gymnasium-robotics, FetchPush-v4": lambda: seconds(begin, theirs.step),
        "geodesic, the same model": lambda: seconds(begin, same.step),
        "geodesic, the authors' model": lambda: seconds(lambda seed: ours.reset(seed=seed), ours.step),
        "  ... with all contacts": lambda: seconds(lambda seed: unfiltered.reset(seed=seed), unfiltered.step),
    }
    spent: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(ROUNDS):
        for name, run in work.items():
            spent[name].append(run())
    least = {name: min(values) for name, values in spent.items()}
    first = next(iter(least.values()))
    print(f"{'FetchPush, one core':34} {'env steps/s':>12} {'us/step':>10} {'ratio':>6}")
    for name, value in least.items():
        count = EPISODES * STEPS
        print(f"{name:34} {count / value:12,.0f} {1e6 * value / count:10.0f} {first / value:6.2f}")
    rest = min(overhead(ours) for _ in range(ROUNDS))
    print(f"without MuJoCo, a step of ours takes {1e6 * rest:.0f} us")


if __name__ == "__main__":
    main()
