"""Measure the effect of the values in which a baseline differs from its original, on the same episodes.

    python -m benchmarks.studies.fidelity [spdl currot alp_gmm goal_gan embedding] [--seeds 8]

- SPDL: one update from several states; the distance of its result to the one with the authors' values, relative to the
  step.
- CURROT: the distance of the particles to the target after 10, 20 and 30 updates, in diagonals of the space, with an
  agent that masters ever harder contexts.
- ALP-GMM: mixtures that end at our tolerance and at scikit-learn's.
- Goal-GAN: the distance W2 of its first goals to the source, and of later ones to those of intermediate success, in
  diagonals.
- Return model and embedding: U-Maze with an agent that knows paths up to some length and 200 episodes on uniform goals;
  the model's error, and feasible goals on the embedding's path.

All values are means over seeds.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import geodesic as gd
from geodesic.curricula import CURROT, SPDL, GoalGAN
from geodesic.curricula.alp_gmm import COMPONENTS, fit_mixtures
from geodesic.curricula.gaussians import Gaussian
from geodesic.envs.u_maze import UMaze, nearest_free, path_length
from geodesic.metrics.embedding import Embedding
from geodesic.metrics.returns import ReturnModel, return_differences
from geodesic.transport.geodesic import Geodesic, wasserstein

BOX = gd.ContextSpace([-4.0, 0.5], [4.0, 8.0])  # PointMass
DIAGONAL = float(np.linalg.norm(BOX.sides))
TARGET, TARGET_STD = np.array([2.5, 0.5]), np.array([4e-3, 3.75e-3])
STATES = (
    ((0.0, 4.25), (2.0, 1.875), 0),
    ((0.0, 4.25), (2.0, 1.875), 9),
    ((1.5, 2.0), (0.8, 0.6), 0),
    ((2.3, 0.7), (0.2, 0.1875), 0),
)
MAZE = UMaze()


def spdl(seeds: int) -> None:
    """Compare SPDL's updates."""
    original = {"bound": "old-new", "baseline": False}
    variants: dict[str, dict[str, Any]] = {
        "spdl": {},
        "spdl:bound=old-new": {"bound": "old-new"},
        "spdl:baseline=false": {"baseline": False},
    }
    for name, options in variants.items():
        fractions = [
            _relative(spdl_update, state, seed, options, original) for state in STATES for seed in range(seeds)
        ]
        reference = ":".join(["spdl", *_option_texts(original)])
        print(f"{name:45s} differs by {np.mean(fractions):6.1%} of the step from {reference}")


def _option_texts(options: dict[str, Any]) -> list[str]:
    return [f"{key}={str(value).lower()}" for key, value in options.items()]


def _relative(update: Any, state: Any, seed: int, options: dict[str, Any], original: dict[str, Any]) -> float:
    unit = np.full(2, DIAGONAL)
    theirs = update(state, seed, original)
    before = Gaussian(np.array(state[0]), np.diag(state[1]))
    return update(state, seed, options).wasserstein(theirs, unit) / before.wasserstein(theirs, unit)


def spdl_update(state: Any, seed: int, options: dict[str, Any]) -> Gaussian:
    mean, std, offset = state
    points = gd.Particles.uniform(BOX.low, BOX.high, 10, np.random.default_rng(0))
    moments = (np.array(mean), np.diag(np.square(std))), (TARGET, np.diag(TARGET_STD**2))
    bounds = {"kl_threshold": 8000.0, "std_lower_bound": (0.2, 0.1875)}
    curriculum = SPDL(points, points, BOX, 0.0, *moments, offset, 1.1, steps_per_iteration=10, **bounds, **options)
    rng = np.random.default_rng(seed)
    contexts = np.array(mean) + rng.standard_normal((60, 2)) * np.array(std)
    returns = 60 * np.exp(-(((contexts[:, 0] - 1) / 3) ** 2)) * np.clip(contexts[:, 1] / 4, 0, 1) + 5 * rng.random(60)
    episodes = gd.EpisodeBatch(contexts, returns, np.full(60, 5), np.zeros(60, int))
    return curriculum.update(curriculum.init(rng), episodes, rng).gaussian


def currot(seeds: int) -> None:
    """Compare CURROT's particles."""
    variants: dict[str, dict[str, Any]] = {
        "currot": {},
        "currot:bandwidth=0.3": {"bandwidth": 0.3},
        "currot:episodes_per_update=20": {"episodes_per_update": 20},
        "currot:epsilon=0.064": {"epsilon": 0.7 / DIAGONAL},
        "all three (the authors')": {"bandwidth": 0.3, "episodes_per_update": 20, "epsilon": 0.7 / DIAGONAL},
    }
    for name, options in variants.items():
        distances = np.array([currot_distances(seed, options) for seed in range(seeds)])
        cells = ", ".join(f"{mean:.3f} ± {std:.3f}" for mean, std in zip(distances.mean(axis=0), distances.std(axis=0)))
        print(f"{name:45s} from the target after 10, 20, 30 updates of 20 episodes: {cells}")


def currot_distances(seed: int, options: dict[str, Any]) -> list[float]:
    rng = np.random.default_rng(seed)
    source = gd.Particles.gaussian([0, 4.25], [2, 1.875], 500, rng, BOX.low, BOX.high)
    target = gd.Particles.gaussian(TARGET, TARGET_STD, 500, rng, BOX.low, BOX.high)
    curriculum = CURROT(source, target, BOX, 40.0, **options)
    state = curriculum.init(rng)
    distances = []
    for update in range(30):
        contexts = state.distribution.sample(rng, 20)
        far = np.linalg.norm(contexts - TARGET, axis=1) / DIAGONAL
        returns = 80 / (1 + np.exp((0.55 - 0.02 * update - far) / 0.03))
        state = curriculum.update(state, gd.EpisodeBatch(contexts, returns, np.ones(20), np.full(20, state.stage)), rng)
        distances.append(float(np.sqrt((((state.distribution.points - TARGET) / DIAGONAL) ** 2).sum(axis=1).mean())))
    return [distances[9], distances[19], distances[29]]


def alp_gmm(seeds: int) -> None:
    """Compare the mixture of lowest AIC at two tolerances of expectation maximisation, from the same seeds."""
    gained, changed = [], []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        contexts = rng.random((200, 2))
        progress = np.exp(-20 * ((contexts - 0.3) ** 2).sum(axis=1)) * rng.random(200)
        pairs = np.column_stack([contexts, progress])
        fits = [fit_mixtures(pairs, COMPONENTS, np.random.default_rng(seed), tol) for tol in (3e-3, 1e-3)]
        ours, theirs = (min(fit, key=lambda mixture: mixture.aic) for fit in fits)
        gained.append(ours.aic - theirs.aic)
        changed.append(len(ours.weights) != len(theirs.weights))
    shift = (
        f"AIC {np.mean(gained):+.2f} ± {np.std(gained):.2f}, another number of components in {sum(changed)} of {seeds}"
    )
    print(f"alp-gmm, tolerance 3e-3 against 1e-3: {shift}")


TRIES = {"particles": 25, "neighbours": 2, "fit_rate": 50, "memory": 50}  # about two tries of each of 25 new goals


def goal_gan(seeds: int) -> None:
    """Compare Goal-GAN's goals."""
    for form in ("original", "small"):
        near = [goal_gan_start(seed, form) for seed in range(seeds)]
        print(
            f"{'goal-gan:form=' + form:75s} {np.mean(near):.3f} ± {np.std(near):.3f} from the source after pretraining"
        )
    near = [goal_gan_start(seed, None) for seed in range(seeds)]
    print(f"{'the source with the same noise':75s} {np.mean(near):.3f} ± {np.std(near):.3f} from the source")
    for form in ("original", "small"):
        for more in ({}, TRIES):
            options: dict[str, Any] = {"form": form, **more}
            distances = [goal_gan_fit(seed, options) for seed in range(seeds)]
            name = ":".join(["goal-gan", *_option_texts(options)])
            print(
                f"{name:75s} {np.mean(distances):.3f} ± {np.std(distances):.3f} from the goals of intermediate success"
            )


def _source(rng: np.random.Generator) -> gd.Particles:
    return gd.Particles.gaussian([0, 4.25], [2, 1.875], 500, rng, BOX.low, BOX.high)


def goal_gan_start(seed: int, form: Any) -> float:
    """The distance of the first goals, or of as many samples of the source with the same noise, to the source."""
    rng = np.random.default_rng(seed)
    source, other = _source(rng), _source(rng)
    curriculum = GoalGAN(source, BOX, threshold=0.5, form=form or "original")
    if form is None:
        noise = curriculum.noise * BOX.sides * rng.standard_normal(other.points.shape)
        return wasserstein(BOX.inside(other.points + noise), source) / DIAGONAL
    return wasserstein(curriculum.init(rng).distribution, source) / DIAGONAL


def goal_gan_fit(seed: int, options: dict[str, Any]) -> float:
    """Twelve fits with an agent that reaches goals on a ring in half of its episodes."""
    rng = np.random.default_rng(seed)
    curriculum = GoalGAN(_source(rng), BOX, threshold=0.5, **options)
    state = curriculum.init(rng)
    for _ in range(12):
        contexts = state.distribution.sample(rng, 50)
        wins = _ring(contexts, rng)
        state = curriculum.update(
            state, gd.EpisodeBatch(contexts, wins, np.ones(50), np.full(50, state.stage), successes=wins), rng
        )
    goals = BOX.uniform(20_000, rng).points
    angle = np.hypot(*((goals - TARGET) / DIAGONAL).T)
    between = goals[(angle > 0.25) & (angle < 0.35)][:500]
    return wasserstein(state.distribution.positive(), gd.Particles(between)) / DIAGONAL


def _ring(contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Successes: never nearer to the target than 0.25 diagonals, always beyond 0.35, half of the time in between."""
    far = np.linalg.norm(contexts - TARGET, axis=1) / DIAGONAL
    chance = np.where(far < 0.25, 0.0, np.where(far > 0.35, 1.0, 0.5))
    return (rng.random(len(contexts)) < chance).astype(np.float64)


def embedding(seeds: int) -> None:
    """Compare return models and embeddings."""
    variants: dict[str, tuple[str, dict[str, Any]]] = {
        "embedding": ("matern", {}),
        "embedding, the authors' kernel": ("rbf", {}),
        "embedding:squared": ("matern", {"squared": True}),
        "embedding-raw": ("matern", {"raw": True}),
        "embedding-raw, the authors' kernel": ("rbf", {"raw": True}),
    }
    for name, (kernel, options) in variants.items():
        found = np.array(
            [embedding_fit(kernel, reach, s, options) for reach in (8.0, 14.0, 22.0) for s in range(seeds)]
        )
        error, *feasible = found.mean(axis=0)
        cells = ", ".join(f"{fraction:.0%}" for fraction in feasible)
        print(f"{name:45s} return error {error:.2f} (rms); feasible goals at alpha .25, .5, .75: {cells}")


def embedding_fit(kernel: str, reach: float, seed: int, options: dict[str, Any]) -> list[float]:
    rng, space = np.random.default_rng(seed), MAZE.context_space
    seen = space.uniform(200, rng).points
    model = ReturnModel(seen, earned(seen, reach), space, -1.0) if kernel == "matern" else smooth(seen, reach)
    grid = space.uniform(1000, rng).points
    error = float(np.sqrt(np.mean((model(grid) - earned(grid, reach)) ** 2)))
    contexts = space.uniform(500, rng).points
    metric = Embedding(space, -1.0, **options).embed(contexts, return_differences(model, contexts), rng, model)
    path = Geodesic(MAZE.source(rng), MAZE.target(rng), metric)
    return [error, *(float(path(t).weights @ MAZE.is_feasible(path(t).points)) for t in (0.25, 0.5, 0.75))]


def earned(goals: np.ndarray, reach: float) -> np.ndarray:
    """The returns (n,) of an agent that knows the paths to goals at most `reach` away."""
    feasible = MAZE.is_feasible(goals)
    lengths = path_length(np.zeros_like(goals), nearest_free(goals))
    known = feasible & (np.where(feasible, lengths, np.inf) <= reach)
    return np.where(known, 1 - 0.01 * np.ceil(np.where(known, lengths, 0.0)), -1.0)


def smooth(seen: np.ndarray, reach: float) -> Any:
    """The authors' return model: a squared-exponential kernel on raw contexts, with the worst return as its mean."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel(0.7) * RBF(0.7, (0.05, 50)) + WhiteKernel(0.7, (1e-4, 10))
    process = GaussianProcessRegressor(kernel).fit(seen, earned(seen, reach) + 1)
    return lambda goals: process.predict(goals) - 1


PARTS = {part.__name__: part for part in (spdl, currot, alp_gmm, goal_gan, embedding)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    for name in options.parts or PARTS:
        PARTS[name](options.seeds)
        print(flush=True)


if __name__ == "__main__":
    main()
