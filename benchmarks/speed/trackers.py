"""Time the cost of trackers: the learner's metrics in the compiled segment, and the events of evaluations.

    python -m benchmarks.speed.trackers

Segments with and without the learner's metrics (whose programs then do not compute them) alternate and are timed by CPU
time. The fastest tenth of each kind counts, because other load on the machine makes segments slower, never faster. The
cost of an evaluation's events is spread over the segments between two evaluations.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from geodesic.runtime import configure_process

configure_process()

import jax  # noqa: E402
import numpy as np  # noqa: E402

from geodesic import learners  # noqa: E402
from geodesic.learners.ppo import PPO  # noqa: E402
from geodesic.learners.sac import SAC  # noqa: E402
from geodesic.records.trackers import TensorBoard  # noqa: E402
from geodesic.tasks import load  # noqa: E402
from geodesic.training.agents import stack  # noqa: E402
from geodesic.training.configure import configure  # noqa: E402
from geodesic.training.program import Program, as_sampler  # noqa: E402

SEGMENTS = {"maze": 150, "point-mass": 150}
EVENTS = 500
LIMIT = 0.03


class SilentPPO(PPO):
    """PPO without metrics."""

    def update(self, state: Any, transitions: Any, key: Any) -> Any:
        return super().update(state, transitions, key)[0], {}


class SilentSAC(SAC):
    """SAC without metrics."""

    def update(self, state: Any, transitions: Any, key: Any) -> Any:
        return super().update(state, transitions, key)[0], {}


SILENT = {"ppo": SilentPPO, "sac": SilentSAC}


def timed(name: str, segments: int) -> tuple[float, float, float]:
    """CPU seconds of a segment with and without metrics, and its share of an evaluation's events."""
    task, config = load(name), configure(name)
    made = learners.make(str(config.learner), config.learner_options)
    settings = {key: getattr(made, key) for key in made.__dataclass_fields__}
    kinds = (made, SILENT[str(config.learner)](**settings))
    samplers = stack([as_sampler(task.source_particles, 0)])
    keys = np.asarray(jax.random.PRNGKey(0))[None]
    programs = [
        Program(task.env, learner, config.segment, config.eval_episodes, config.eval_policy) for learner in kinds
    ]
    states = [program.init(keys, samplers) for program in programs]
    spent: list[list[float]] = [[], []]
    for number in range(segments + 2):
        for side in (0, 1) if number % 2 else (1, 0):
            began = time.process_time()
            states[side], log = programs[side].segment(states[side], samplers)
            jax.block_until_ready(log)
            if number > 1:  # the first ones compile
                spent[side].append(time.process_time() - began)
    with tempfile.TemporaryDirectory() as folder:
        tracker = TensorBoard(Path(folder), config)
        values = {f"tag/{k}": float(k) for k in range(14)}
        tracker.scalars(0, values)
        began = time.process_time()
        for step in range(EVENTS):
            tracker.scalars(step + 1, values)
        tracker.close()
        events = (time.process_time() - began) / EVENTS
    return fastest(spent[0]), fastest(spent[1]), events / config.eval_every


def fastest(seconds: list[float]) -> float:
    """The mean of the fastest tenth."""
    return statistics.mean(sorted(seconds)[: max(1, len(seconds) // 10)])


if __name__ == "__main__":
    for name, segments in SEGMENTS.items():
        tracked, silent, events = timed(name, segments)
        extra = (tracked - silent + events) / silent
        print(
            f"{name}: a segment takes {1e3 * silent:.2f} ms, with metrics {1e3 * tracked:.2f} ms, its share of events "
            f"{1e6 * events:.0f} us; {extra:+.1%} in total ({'within' if extra < LIMIT else 'beyond'} {LIMIT:.0%})"
        )
