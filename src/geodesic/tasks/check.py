"""Checking a task: `geodesic.check_task(task)`, and the part of it that training does by itself."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from weakref import WeakSet

import gymnasium as gym
import numpy as np

from geodesic.contexts import FloatArray, Particles
from geodesic.curricula import Gradient
from geodesic.envs.gymnasium import Env, time_limit
from geodesic.errors import InvalidInput, RunWarning, some
from geodesic.errors import short_repr as short
from geodesic.metrics.base import LearnedMetric, Metric
from geodesic.registry import is_reference
from geodesic.tasks.functional import check_functions
from geodesic.tasks.methods import build, resolve
from geodesic.tasks.probe import Place, Probe, Trace, describe, guarded, unchanged_randomness
from geodesic.tasks.task import Task

ALPHAS = (0.25, 0.5, 0.75)  # of the path between source and target
LONGEST = 200  # steps of an episode in which contexts are compared
ENDLESS = 10_000  # steps after which an episode without a time limit counts as endless
AGAIN = 4  # contexts that are played twice
SEEDS = 4  # episodes in each context, if contexts are alike in the first one
SAMPLED, MOST_COMPARED = 32, 20_000  # contexts of source and of target that are tried then, and steps in them
SCORED, MOST_SCORED = 8, 2500  # episodes that tell what random actions earn, and their steps at most
DIMENSIONS = 32  # context values that are changed one by one, at most
QUICK_STEPS, QUICK_SECONDS = 1000, 0.5  # of the part that training does
UNUSED = "initial, transition, reward, terminal and success do not use it"

_TRIED: WeakSet[Task] = WeakSet()  # by `quick_check`


def check_task(task: Task) -> list[str]:
    """Try a task, and say what to change.

    Source, target and threshold have to fit; metrics have to give finite and symmetric distances, and the default
    methods must be possible. Then episodes are played with random actions in contexts of the source, the target and the
    path between them. The environment has to reset and step as Gymnasium expects, with the same spaces in all contexts,
    and to give the same episode again for the same context and seed. Episodes have to end, to tell whether they
    succeeded if the score is the success, and to earn what `worst_return` and `best_return` allow. Contexts have to
    change something: an observation (apart from the context that is appended to it), a reward, or the end.

    What may be intended is only a `RunWarning`: a context value that changes nothing by itself, and a threshold that
    random actions meet on the target or that no reward so far could meet.

    Args:
        task: The task.

    Returns:
        What was tried, in a few lines.

    Raises:
        InvalidInput: If something is wrong; the message says in one line what to change.
    """
    if not isinstance(task, Task):
        raise InvalidInput(f"expected a Task, got {type(task).__name__}")
    guarded(task.reachable, "best_return(contexts)")
    guarded(lambda: task.infeasible(task.target_particles), "is_feasible(contexts)")
    for name in task.metric_names:
        _check_metric(task, name)
    for method in task.training.compare:
        build(task, *resolve(task, method), threshold=task.threshold)
    if task.in_jax and not check_functions(task, task.target_particles.points[0]):
        raise InvalidInput(_without_effect(UNUSED))
    with unchanged_randomness():
        env: Env = guarded(task.make, "making the environment")
        try:
            played = _try_episodes(task, Probe(task, env))
        finally:
            env.close()  # type: ignore[no-untyped-call]
    named = f"metrics {', '.join(task.metric_names) or 'none'}; methods {', '.join(task.training.compare)}"
    return [named, *played]


def quick_check(task: Task) -> None:
    """The part of `check_task` that training does before it starts, once for each task in a process.

    It takes less than a second and compiles nothing: a few short episodes on the host, traced functions in JAX. No
    random number of a run depends on it. A context that seems to change nothing is only a warning, since it may act
    later in an episode.
    """
    if task in _TRIED or (task.reference is not None and not is_reference(task.reference)):  # names: tested tasks
        return
    _TRIED.add(task)
    if task.in_jax:
        if not check_functions(task, task.target_particles.points[0]):
            _warn(_without_effect(UNUSED))
        return
    with unchanged_randomness():
        env = task.make()
        try:
            _try_quickly(task, Probe(task, env, strict=False))
        finally:
            env.close()  # type: ignore[no-untyped-call]


def _try_quickly(task: Task, probe: Probe) -> None:
    """Short episodes in a few contexts far apart, until two of them differ."""
    places = _distinct([*_ends(task, "source", 1), *_ends(task, "target", 1)])
    seed, started = 0, time.monotonic()
    while probe.steps < QUICK_STEPS and (not seed or time.monotonic() - started < QUICK_SECONDS):
        traces = [probe.play(place, QUICK_STEPS // 10, seed) for place in places]
        for place, trace in zip(places, traces):
            _check_success(task, place, trace)
        if len(places) < 2 or _differ(traces):
            return
        seed += 1
    found = _without_effect(probe.effect())
    _warn(f"{found}, unless they only matter where random actions do not lead; check_task(task) tries more")


def _try_episodes(task: Task, probe: Probe) -> list[str]:
    """Play episodes on the whole path; what was tried, in words."""
    _check_spaces(probe.env)
    limit = int(task.env.max_steps) if task.in_jax else time_limit(probe.env)
    places = _places(task)
    traces = [probe.play(place, LONGEST) for place in places]
    for place, trace in [*zip(places, traces)][:AGAIN]:  # each after another context than before
        if probe.play(place, LONGEST).rows != trace.rows:
            raise InvalidInput(
                "expected the same seed and context to give the same episode, got another; try a reset that starts "
                f"from scratch, and self.np_random as the only generator ({describe(task.space, place)})"
            )
    pairs = [*zip(places, traces)]
    if not any(trace.ended for trace in traces):
        pairs.append((places[0], _play_to_end(task, probe, places[0], limit)))
    earned = {side: _play_scored(task, probe, side, limit) for side in ("source", "target")}
    for place, trace in [*pairs, *earned["source"], *earned["target"]]:
        _check_success(task, place, trace)
        _check_bounds(task, place, trace)
    names = _check_effect(task, probe, places, traces)
    scores = {side: np.array([trace.score(task.score) for _, trace in pairs]) for side, pairs in earned.items()}
    _check_threshold(task, scores["target"], [row[1] for trace in traces for row in trace.rows], limit)
    path = [f"alpha {alpha:g}" for alpha in ALPHAS if any(place.where == f"at alpha {alpha:g}" for place in places)]
    level = task.threshold if isinstance(task.threshold, str) else f"{task.threshold:g}"
    means = [f"{each.mean():.4g} on the {side}" for side, each in scores.items() if len(each)]
    score = task.score.replace("_", " ")
    return [
        f"{probe.episodes} episodes with random actions, {probe.steps} steps, in contexts of "
        + ", ".join(["source", *path, "target"]),
        f"context values that change an episode: {some(names) or 'not tried, since all contexts are equal'}",
        f"{score} of random actions: {', '.join(means) or 'no episode ended'}; threshold {level}",
    ]


def _ends(task: Task, side: str, dimensions: int) -> list[Place]:
    """Contexts of a distribution: the first one, and those with the extreme values along the first dimensions."""
    points = getattr(task, f"{side}_particles").points
    extreme = [
        index
        for k in range(min(dimensions, task.space.dim))
        for index in (points[:, k].argmin(), points[:, k].argmax())
    ]
    return [Place(points[index], f"of the {side}") for index in (0, *extreme)]


def _places(task: Task) -> list[Place]:
    """Contexts of source and target, where agents are evaluated, and on the path, each once."""
    found = [*_ends(task, "source", 2), *_ends(task, "target", 2), *_ends(task, "evaluation", 1)]
    for alpha, there in _path(task):
        found += [Place(point, f"at alpha {alpha:g}") for point in there.points[[0, len(there) // 2]]]
    return _distinct(found)


def _path(task: Task) -> list[tuple[float, Particles]]:
    """The geodesic's distributions between source and target; none if no distance between contexts is known yet."""
    names = task.metric_names
    metric = task.make_metric() if names else None
    if isinstance(metric, LearnedMetric):
        metric = task.make_metric("l2") if "l2" in names else None
    if metric is None and task.space.support is not None:
        return []
    gradient = Gradient(task.source_particles, task.target_particles, metric=metric, space=task.space)
    return [(alpha, gradient.path(alpha)) for alpha in ALPHAS]


def _distinct(places: Sequence[Place]) -> list[Place]:
    """Each context once."""
    first: dict[bytes, Place] = {}
    for place in places:
        first.setdefault(place.context.tobytes(), place)
    return list(first.values())


def _differ(traces: Sequence[Trace]) -> bool:
    return any(trace.rows != traces[0].rows for trace in traces)


def _check_effect(task: Task, probe: Probe, places: Sequence[Place], traces: Sequence[Trace]) -> list[str]:
    """Check that contexts change something; the names of those values that do so by themselves."""
    if len(places) < 2:
        return []
    if not _differ(traces) and not _differ_somewhere(task, probe):
        raise InvalidInput(_without_effect(probe.effect()))
    if task.space.dim == 1 or task.in_jax:
        return list(task.space.names)
    names = []
    for k, name in list(enumerate(task.space.names))[:DIMENSIONS]:
        if _changes(task, probe, places, k):
            names.append(name)
            continue
        text = f"context value {name} changes nothing by itself; {probe.effect()}"
        if probe.created:
            raise InvalidInput(f"expected every context value to change an episode, got that {text}")
        _warn(f"{text}, unless {name} only matters where random actions do not lead")
    return names


def _differ_somewhere(task: Task, probe: Probe) -> bool:
    """Whether episodes differ in any of many contexts, such as those where random actions find a goal."""
    rng, sides = np.random.default_rng(0), ("source", "target")
    points = np.concatenate([getattr(task, f"{side}_particles").sample(rng, SAMPLED) for side in sides])
    before = probe.steps
    for seed in range(1, SEEDS):
        first = probe.play(Place(points[0], "of the source"), LONGEST, seed)
        for point in points[1:]:
            if probe.steps - before < MOST_COMPARED and _differ(
                [first, probe.play(Place(point, "of source or target"), LONGEST, seed)]
            ):
                return True
    return False


def _changes(task: Task, probe: Probe, places: Sequence[Place], k: int) -> bool:
    """Whether another value of one dimension changes an episode; also true where none could be tried."""
    tried = False
    for place in (_ends(task, "target", 0)[0], places[0]):
        values = np.array([other.context[k] for other in places])
        other = place.context.copy()
        other[k] = values[np.abs(values - place.context[k]).argmax()]
        if other[k] == place.context[k] or not task.space.contains(other[None])[0]:
            continue
        tried = True
        pair = place, Place(other, f"{place.where}, with another {task.space.names[k]}")
        if any(_differ([probe.play(each, LONGEST, seed) for each in pair]) for seed in range(SEEDS)):
            return True
    return not tried


def _play_to_end(task: Task, probe: Probe, place: Place, limit: int | None) -> Trace:
    """An episode to its end."""
    most = min(limit or ENDLESS, ENDLESS)
    trace = probe.play(place, most)
    if not trace.ended and limit is None:
        raise InvalidInput(
            f"expected episodes to end, got one of {most} steps with random actions; try an environment in "
            f"gymnasium.wrappers.TimeLimit(env, max_episode_steps=...) ({describe(task.space, place)})"
        )
    return trace


def _play_scored(task: Task, probe: Probe, side: str, limit: int | None) -> list[tuple[Place, Trace]]:
    """Episodes that ended, in contexts drawn from a distribution."""
    contexts = getattr(task, f"{side}_particles").sample(np.random.default_rng(0), SCORED)
    found, before = [], probe.steps
    for seed, context in enumerate(contexts):
        left = MOST_SCORED - (probe.steps - before)
        if left > 0:
            place = Place(context, f"of the {side}")
            found.append((place, probe.play(place, min(left, limit or left), seed)))
    return [(place, trace) for place, trace in found if trace.ended]


def _check_success(task: Task, place: Place, trace: Trace) -> None:
    if task.score == "success" and trace.ended and np.isnan(trace.success):
        raise InvalidInput(
            "expected info['is_success'] or info['success'] in the last step of an episode, since the task's score is "
            f"'success'; got neither ({describe(task.space, place)})"
        )


def _check_bounds(task: Task, place: Place, trace: Trace) -> None:
    """Check a finished episode against what the task says is possible."""
    if not trace.ended:
        return
    score, here = trace.score(task.score), describe(task.space, place)
    least, most = task.least, task.reachable(Particles(place.context[None]))
    if least is not None and score < least - 1e-4 * max(1.0, abs(least)):
        raise InvalidInput(
            f"expected scores of at least worst_return={least:g}, got {score:.4g}; try a lower worst_return ({here})"
        )
    if score > most + 1e-4 * max(1.0, abs(most)):
        raise InvalidInput(
            f"expected returns of at most best_return={most:g}, got {score:.4g}; try a higher bound ({here})"
        )


def _check_threshold(task: Task, scores: FloatArray, rewards: Sequence[float], limit: int | None) -> None:
    """Warn of a threshold that tells nothing about the agent."""
    level = task.threshold
    if isinstance(level, str):
        return
    if len(scores) >= SCORED // 2 and scores.mean() > level:
        _warn(
            f"random actions earn {scores.mean():.4g} on the target, which is above the threshold {level:g}: there is "
            "nothing to learn before the last stage; try a higher threshold, or a harder target"
        )
    if task.score == "return" and limit and len(set(rewards)) == 1 and 0 < rewards[0] <= level / limit:
        _warn(
            f"every step earned {rewards[0]:.4g}, and {limit} steps earn {rewards[0] * limit:.4g}, which is not above "
            f"the threshold {level:g}; try a lower one, unless a trained agent earns more in a step"
        )


def _check_metric(task: Task, name: str) -> None:
    metric = guarded(lambda: task.make_metric(name), f"making metric {name!r}")
    if isinstance(metric, LearnedMetric):
        return
    if not isinstance(metric, Metric):
        raise InvalidInput(f"expected metric {name!r} to be a Metric or a LearnedMetric, got {short(metric)}")
    points = np.concatenate([task.source_particles.points[:5], task.target_particles.points[:5]])
    distances = np.asarray(guarded(lambda: metric.pairwise(points, points), f"metric {name!r} on source and target"))
    if distances.shape != (len(points), len(points)) or not np.isfinite(distances).all():
        raise InvalidInput(f"expected metric {name!r} to give finite distances (n, n), got shape {distances.shape}")
    if (distances < 0).any() or not np.allclose(distances, distances.T, atol=1e-6 * max(1.0, distances.max())):
        raise InvalidInput(f"expected metric {name!r} to be symmetric and non-negative, got other distances")


def _check_spaces(env: Env) -> None:
    if not isinstance(env.action_space, (gym.spaces.Box, gym.spaces.Discrete)):
        raise InvalidInput(f"expected a Box or Discrete action space, got {env.action_space}")
    if not isinstance(env.observation_space, (gym.spaces.Box, gym.spaces.Dict, gym.spaces.Discrete)):
        raise InvalidInput(f"expected a Box, Dict or Discrete observation space, got {env.observation_space}")


def _without_effect(guess: str) -> str:
    """What is wrong where no context changes anything."""
    return (
        f"expected contexts to change an observation, a reward or the end of an episode, got the same in all; {guess}"
    )


def _warn(text: str) -> None:
    warnings.warn(text, RunWarning, stacklevel=4)
