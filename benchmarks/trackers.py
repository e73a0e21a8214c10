"""What a run pays for its trackers: measures in the compiled segment, and events at every evaluation.

    python -m benchmarks.trackers

Segments with the learner's measures beside segments without them (whose programs then hold nothing of them), in turn,
by processor time. Of each kind the fastest tenth counts: other work on the machine takes the caches away and makes
segments slower, never faster. Then the cost of an evaluation's events, shared out over the segments between two of
them.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from geodesic.runtime import ours_alone

ours_alone()

import jax  # noqa: E402
import numpy as np  # noqa: E402

from geodesic import learners  # noqa: E402
from geodesic.learners.ppo import PPO  # noqa: E402
from geodesic.learners.sac import SAC  # noqa: E402
from geodesic.records.trackers import TensorBoard  # noqa: E402
from geodesic.runs.config import configure  # noqa: E402
from geodesic.tasks import load  # noqa: E402
from geodesic.training.program import Program, as_sampler, stack  # noqa: E402

SEGMENTS = {"maze": 150, "point-mass": 150}
EVENTS = 500
ALLOWED = 0.03


class SilentPPO(PPO):
    def learn_measured(self, state: Any, transitions: Any, key: Any) -> Any:
        return super().learn_measured(state, transitions, key)[0], {}


class SilentSAC(SAC):
    def learn_measured(self, state: Any, transitions: Any, key: Any) -> Any:
        return super().learn_measured(state, transitions, key)[0], {}


SILENT = {"ppo": SilentPPO, "sac": SilentSAC}


def timed(name: str, segments: int) -> tuple[float, float, float]:
    """Processor seconds of a segment with measures and without, and of its share of an evaluation's events."""
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
    for turn in range(segments + 2):
        for side in (0, 1) if turn % 2 else (1, 0):
            began = time.process_time()
            states[side], log = programs[side].segment(states[side], samplers)
            jax.block_until_ready(log)
            if turn > 1:  # the first ones compile
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
    return undisturbed(spent[0]), undisturbed(spent[1]), events / config.eval_every


def undisturbed(seconds: list[float]) -> float:
    """The mean of the fastest tenth."""
    return statistics.mean(sorted(seconds)[: max(1, len(seconds) // 10)])


if __name__ == "__main__":
    for name, segments in SEGMENTS.items():
        told, silent, events = timed(name, segments)
        extra = (told - silent + events) / silent
        print(
            f"{name}: a segment takes {1e3 * silent:.2f} ms, with measures {1e3 * told:.2f} ms, its share of events "
            f"{1e6 * events:.0f} us; {extra:+.1%} in all ({'within' if extra < ALLOWED else 'beyond'} {ALLOWED:.0%})"
        )
