"""The names that drawn calls use: small valid objects of every kind, and ways to damage them."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax.numpy as jnp
import numpy as np

import geodesic as gd
from geodesic import curricula, envs, learners, metrics, tasks  # noqa: F401
from geodesic.analysis import curves, intervals, paths, statistics, theory  # noqa: F401
from geodesic.coupling import multiscale, plans  # noqa: F401
from geodesic.records import load_comparison, load_run
from geodesic.report import tables, text
from geodesic.report.figures import write_comparison_figures, write_run_figures
from geodesic.runs import executors  # noqa: F401
from geodesic.runs.config import read_file  # noqa: F401
from geodesic.runs.plan import plan  # noqa: F401
from geodesic.tasks import methods  # noqa: F401
from geodesic.training.configure import configure  # noqa: F401

SCRATCH = Path(tempfile.mkdtemp(prefix="geodesic-fuzz-"))
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)
FILE = SCRATCH / "file.txt"
FILE.write_text("not a folder")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


class Broken:
    """An object whose repr fails."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def ppo_config() -> Any:
    """RLlib's configuration of PPO; RLlib is imported here, because it is slow."""
    gd.rllib  # noqa: B018  raises an error that says what to install
    from ray.rllib.algorithms.ppo import PPOConfig

    return PPOConfig()


class Walk(gd.ContextualMDP):
    """A walk on a line to the place in the context."""

    observation_space = gym.spaces.Box(-10.0, 10.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    max_steps = 20

    def initial(self, rng: Any, context: Any) -> Any:
        return jnp.float32(0)

    def transition(self, state: Any, action: Any, rng: Any, context: Any) -> Any:
        return jnp.clip(state + 2.0 * action - 1.0, -9.0, 9.0)

    def observation(self, state: Any, rng: Any, context: Any) -> Any:
        return jnp.stack([state, context[0]])

    def reward(self, state: Any, action: Any, next_state: Any, rng: Any, context: Any) -> Any:
        return -jnp.abs(next_state - context[0])

    def terminal(self, state: Any, rng: Any, context: Any) -> Any:
        return jnp.abs(state - context[0]) < 1.0


WALK = {
    "env": Walk(),
    "contexts": {"place": (-8.0, 8.0)},
    "source": {"place": (-2.0, 2.0)},
    "target": {"place": (6.0, 8.0)},
    "threshold": -40.0,
    "worst_return": -400.0,
    "training": gd.TrainingSettings(
        gd.PPO(n_envs=2, rollout=16, batch_size=16, epochs=1, net=(8,)), steps=64, segment=1
    ),
    "evaluation": gd.EvaluationSettings(episodes=2),
}
walk = gd.Task(**WALK, name="walk", reference=f"{__name__}:walk")  # type: ignore[arg-type]


def set_length(env: Any, length: float) -> None:
    env.length = length


pole = gd.Task(
    "CartPole-v1", {"length": (0.05, 1.0)}, {"length": 0.5}, {"length": 0.05}, threshold=20.0, set_context=set_length
)

# --- contexts, distributions, episodes ------------------------------------------------------------------------------

line = gd.ContextSpace([0.0], [10.0])
space = gd.ContextSpace([0.0, -1.0], [4.0, 3.0], names=("x", "y"), units=("m", ""))
cells = gd.ContextSpace.discrete(np.argwhere(np.ones((4, 3))))
blend = gd.ContextSpace.of({"x": (0.0, 4.0), "kind": ["a", "b", "c"], "n": range(5)})
levels = gd.tasks.load("levels").space
endless = gd.ContextSpace([0.0, 0.0], [np.inf, 1.0])
a = gd.Particles.uniform([0.0, -1.0], [1.0, 0.0], 20, rng(1))
b = gd.Particles.uniform([3.0, 2.0], [4.0, 3.0], 25, rng(2))
thin = gd.Particles([[0.5]])
a_cells = gd.Particles.categorical([1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], cells.support)
b_cells = gd.Particles.categorical([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1], cells.support)
graph = metrics.Graph.knn(cells.support, 4)
matrix = metrics.Matrix(graph.distances, cells.support)
product = metrics.Product(blend, {"x": 2.0, "kind": [[0, 1, 2], [1, 0, 1], [2, 1, 0]]})
lift = metrics.ReturnLift(space, 0.0, 5.0)
embedding = metrics.Embedding(space, 0.0, contexts=8, epochs=1, latent=2)
problem = gd.Problem(a, b, space, 5.0)
discrete = gd.Problem(a_cells, b_cells, cells, 5.0, matrix)
chain = metrics.TabularCMDP(-np.ones((5, 1)), np.maximum(np.arange(5) - 1, 0)[:, None], np.arange(5))


def batch(n: int = 30, d: int = 2, size: float = 1.0, stage: int = 0, seed: int = 0) -> gd.EpisodeBatch:
    """Episodes of an agent that masters most contexts."""
    draws = rng(seed)
    points = draws.uniform(0, 3, (n, d))
    returns = size * np.where(draws.random(n) < 0.8, 10.0, 0.0) + draws.normal(size=n)
    lengths, losses = draws.integers(1, 90, n), draws.exponential(size=n)
    return gd.EpisodeBatch(points, returns, lengths, np.full(n, stage), value_l1=losses, positive_value_loss=losses / 2)


FAST: dict[str, dict[str, Any]] = {
    "alp-gmm": {"fit_rate": 30, "particles": 100},
    "goal-gan": {"pretrain_steps": 10, "fit_steps": 3, "particles": 50},
    "spdl": {"steps_per_iteration": 200, "particles": 50},
    "spgl": {"steps_per_iteration": 200, "particles": 50},
    "plr": {"buffer": 20, "particles": 50},
    "wb-spdl": {"episodes_per_update": 20, "n_particles": 30},
    "currot": {"episodes_per_update": 20, "n_particles": 30},
}


def lived(method: Any, given: Any, options: Any, episodes: Any) -> Any:
    """The state of a curriculum after these episodes, each batch from the stage that it is in."""
    curriculum = curricula.build(method, given, **{**FAST.get(str(method), {}), **options})
    state = curriculum.init(rng())
    for count, each in enumerate(episodes):
        if isinstance(each, gd.EpisodeBatch):
            each = each.with_stages(np.full(len(each), state.stage))
        state = curriculum.update(state, each, rng(count))
    return curriculum.load(curriculum.save(state))


def started(method: str) -> tuple[Any, Any]:
    """A curriculum and its first state."""
    made = curricula.build(method, problem, **FAST.get(method, {}))
    return made, made.init(rng())


STARTED = {name: started(name) for name in curricula.REGISTRY}


def taught(n: Any, returns: Any, lengths: Any, successes: Any, discounted: Any, agent: Any, **given: Any) -> Any:
    """The state of a teacher after two reports."""
    teacher = gd.Teacher(**given)
    for _ in range(2):
        teacher.report(teacher.sample(n), returns, lengths, successes, discounted)
    teacher.evaluation(returns, successes, discounted)
    teacher.save(agent)
    teacher.finish()
    return teacher.state


taught.passes_to = gd.Teacher  # type: ignore[attr-defined]  # the fuzzer draws its parameters too


def check_theory(rng: Any) -> Any:
    """The paper's claims on one small random CMDP."""
    return theory.check(rng, cmdps=1, states=6)


def wrapped(env: Any, contexts: Any, set_context: Any, observe_context: Any, seed: Any, options: Any) -> Any:
    """The first observation and step of a wrapped environment."""
    made = gd.ContextWrapper(env, contexts, set_context, observe_context)
    first, _ = made.reset(seed=seed, options=options)
    return first, made.step(1)[0]


def stepped(seed: Any, options: Any, action: Any, distribution: Any, stage: Any) -> Any:
    """The first observation and step of an environment in JAX."""
    env = MADE
    env.set_distribution(distribution, stage)
    first, _ = env.reset(seed=seed, options=options)
    return first, env.step(action)[:2]


MADE = walk.make()


def recorded(path: Path) -> Path:
    """The folder of a finished run."""
    teacher = gd.Teacher(walk, "gradient:step=0.5:window=3", out=path)
    for k in range(12):
        contexts = teacher.sample(4)
        teacher.report(contexts, np.full(4, -10.0 - k), np.full(4, 5), np.ones(4))
        teacher.evaluation([-30.0 + k, -20.0])
    teacher.finish()
    return path


RUN = recorded(SCRATCH / "runs" / "runs" / "gradient" / "seed-0")
COMPARISON = SCRATCH / "runs"
RUNS = load_comparison(COMPARISON)
ROWS = statistics.summarise(RUNS, -30.0)
DAMAGES = ("gone", "empty", "half", "noise", "folder", "list", "null", "word", "minus", "nan", "deep")


def damaged(file: str, how: str, seed: int = 0) -> Path:
    """A copy of the run's folder with one damaged file."""
    made = Path(tempfile.mkdtemp(dir=SCRATCH)) / "runs" / "gradient" / "seed-0"
    shutil.copytree(RUN, made)
    path = made / file
    whole = path.read_bytes() if path.is_file() else b""
    path.parent.mkdir(exist_ok=True)
    if how in ("gone", "folder"):
        path.unlink(missing_ok=True)
    if how == "folder":
        path.mkdir()
    texts: dict[str, bytes] = {
        "empty": b"",
        "half": whole[: len(whole) // 2],
        "noise": rng(seed).bytes(200),
        "list": b"[1, 2]",
        "null": b"null",
        "word": whole.replace(b"0", b"zero"),
        "minus": whole.replace(b"1", b"-1"),
        "nan": whole.replace(b"1", b"NaN"),
        "deep": b"[" * 100_000,
    }
    if how in texts:
        path.write_bytes(texts[how])
    return made


def read_all(folder: Any) -> Any:
    """Read the run in a folder, and summarise it."""
    run = load_run(folder)
    rows = statistics.summarise([run], run.solved)
    curves.mean_curve([run])
    return tables.format_table(rows), text.sparklines([run]), paths.stage_path(run).alphas


def draw_all(folder: Any) -> Any:
    """Draw all figures of a run and of its comparison."""
    return write_run_figures(folder), write_comparison_figures(Path(folder).parents[2])


def changed(values: Any, how: str) -> Any:
    """An array with one fault."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        return np.array([values, None], dtype=object)
    changes = {
        "nan": lambda: np.where(np.arange(array.size).reshape(array.shape) == 0, np.nan, array),
        "inf": lambda: np.where(np.arange(array.size).reshape(array.shape) == 0, np.inf, array),
        "minus": lambda: -array - 1,
        "huge": lambda: np.full_like(array, 1e308),
        "large": lambda: array * 1e149,
        "tiny": lambda: array * 1e-300,
        "equal": lambda: np.zeros_like(array),
        "words": lambda: array.astype(str),
        "objects": lambda: np.full(array.shape, None, object),
        "whole": lambda: array.astype(np.int8),
        "complex": lambda: array + 1j,
        "half": lambda: array.astype(np.float16),
        "first": lambda: array[:1],
        "none": lambda: array[:0],
        "twice": lambda: np.concatenate([array, array]),
        "turned": lambda: array.T,
        "deeper": lambda: array[None],
        "flat": lambda: array.ravel(),
        "list": lambda: array.tolist(),
        "fractions": lambda: [Fraction(float(v)).limit_denominator(9) for v in array.ravel()],
        "still": lambda: np.broadcast_to(array, array.shape),
    }
    return changes[how]()


CHANGES = (
    "nan", "inf",
    "minus", "huge", "large", "tiny", "equal", "words", "objects", "whole", "complex", "half", "first", "none",
    "twice", "turned", "deeper", "flat", "list", "fractions", "still",
)  # fmt: skip
