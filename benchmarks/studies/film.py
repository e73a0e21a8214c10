"""Make the README's film: what a run trains on, and how its agent does on it.

    python -m benchmarks.studies.film point-mass --seed 8

This writes docs/film.gif, in a minute. The run is trained in pieces. After the first, the last, and each that ends in a
new stage, four contexts are drawn from the current distribution and the agent plays them: they are the numbers on the
left, among all contexts trained on, and the pictures on the right. The task's contexts must lie in a plane, and its
environment must render.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

import geodesic as gd
from geodesic.contexts import FloatArray
from geodesic.records import StageDistribution, load_run
from geodesic.report.page.film import gif
from geodesic.report.panels import panels_of
from geodesic.report.scene import Scene
from geodesic.report.style import INK, colour_of, short_steps, small_panel, styled
from geodesic.runs.run import extend, load_policy, start
from geodesic.training.configure import configure
from geodesic.training.trainer import Policy

Picture = NDArray[np.uint8]  # (height, width, 3)
AGENTS = 4  # filmed at once, two by two
WIDTH, HEIGHT = 820, 430  # pixels
MILLISECONDS = 70  # of a frame
PAUSE = 6  # frames at the end of an episode
DOTS = 150  # contexts, so that each can be seen
TRAIL = 0.4  # how dark the trail is


@dataclass(frozen=True, eq=False)
class Moment:
    """A run after so many steps: the current stage, and an episode in each of some of its contexts."""

    step: int
    stage: StageDistribution
    kind: str  # of the score
    score: float  # of the last evaluation on the target
    solved: float  # the score above which the target is solved
    contexts: FloatArray  # (AGENTS, d)
    episodes: list[list[Picture]]


def moments(task: gd.Task, method: str, seed: int, ends: Sequence[int], folder: Path, every: int) -> Iterator[Moment]:
    """Train a run in pieces that end at these steps; those moments at which a new stage has begun."""
    config = configure(task, method, seed, ends[0])
    env = task.make(render_mode="rgb_array")
    seen = -1
    for end in ends:
        batch = start([config], [folder], task) if end == ends[0] else extend(folder, end, task)
        batch.train()
        run = load_run(folder)
        stage = run.curriculum[-1]
        if stage.stage > seen or end == ends[-1]:
            seen = stage.stage
            contexts = stage.particles.sample(np.random.default_rng([seed, end]), AGENTS)
            policy = load_policy(folder, task, config.eval_policy == "stochastic")
            played = [episode(env, policy, context, every) for context in contexts]
            yield Moment(end, stage, run.score, float(run.evaluations.scores[-1]), run.solved, contexts, played)


def episode(env: Any, policy: Policy, context: FloatArray, every: int) -> list[Picture]:
    """A picture every so many steps, and the last one; dark pixels leave a trail."""
    obs, _ = env.reset(seed=0, options={"context": context})
    pictures, steps, ended = [env.render()], 0, False
    while not ended:
        obs, _, terminated, truncated, _ = env.step(policy(obs))
        steps, ended = steps + 1, terminated or truncated
        if ended or steps % every == 0:
            pictures.append(env.render())
    trails = 255 - TRAIL * (255.0 - np.minimum.accumulate(np.stack(pictures)))
    return [np.minimum(picture, trail).astype(np.uint8) for picture, trail in zip(pictures, trails)]


def frames(moment: Moment, scene: Scene, method: str, most: int) -> Iterator[Image.Image]:
    """The episodes of a moment, with at most so many pictures, then their last pictures for a while."""
    figure = draw(moment, scene, method)
    images = [axes.images[0] for axes in figure.axes[1:]]
    last = min(most, max(map(len, moment.episodes))) - 1
    for k in [*range(last + 1), *[last] * PAUSE]:
        for image, pictures in zip(images, moment.episodes):
            image.set_data(pictures[min(k, len(pictures) - 1)])
        figure.canvas.draw()
        yield Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[..., :3])


@styled
def draw(moment: Moment, scene: Scene, method: str) -> Figure:
    """The first frame of a moment."""
    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100)
    FigureCanvasAgg(figure)
    left = figure.add_axes((0.075, 0.155, 0.43, 0.71))
    (panel,) = panels_of(scene)
    panel.draw(left, moment.stage.particles.thinned(DOTS, np.random.default_rng(0)), colour_of(method))
    left.set_xlabel(panel.labels[0])
    left.set_ylabel(panel.labels[1])
    small_panel(left)
    ring = {"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": INK, "linewidth": 0.8}
    for name, (x, y) in labels(moment.contexts[:, list(scene.planes[0])], scene):
        left.text(x, y, name, ha="center", va="center", fontsize=8, fontweight="bold", bbox=ring, zorder=6)
    for place, pictures in enumerate(moment.episodes):
        row, column = divmod(place, 2)
        axes = figure.add_axes((0.545 + 0.23 * column, 0.455 - 0.415 * row, 0.2, 0.4))
        axes.imshow(pictures[0])
        axes.set(xticks=[], yticks=[])
        small_panel(axes)
        axes.text(0.03, 0.97, str(place + 1), transform=axes.transAxes, va="top", fontsize=9, fontweight="bold")
    heading = {"y": 0.92, "fontsize": 11, "fontweight": "bold"}
    figure.text(0.075, s=f"trained on: stage {moment.stage.stage}, α = {moment.stage.alpha:.2g}", **heading)
    score = f"{moment.kind.replace('_', ' ')} {moment.score:.2g} (solved: {moment.solved:g})"
    figure.text(0.545, s=f"after {short_steps(moment.step)} steps: {score}", **heading)
    figure.text(0.075, 0.015, "; ".join(panel.key), fontsize=8)
    return figure


def labels(places: FloatArray, scene: Scene) -> list[tuple[str, FloatArray]]:
    """A number for each place, or one label for all if they coincide."""
    side = (scene.high - scene.low)[list(scene.planes[0])]
    if (np.ptp(places, axis=0) < 0.02 * side).all():
        return [(f"1-{len(places)}", places.mean(axis=0))]
    return [(str(number), place) for number, place in enumerate(places, 1)]


def film(task: gd.Task, method: str, seed: int, steps: int, pieces: int, every: int, most: int) -> bytes:
    """The film as a GIF."""
    ends = [steps * (k + 1) // pieces for k in range(pieces)]
    with tempfile.TemporaryDirectory() as folder:
        seen = []
        for moment in moments(task, method, seed, ends, Path(folder) / "run", every):
            print(f"step {moment.step}: alpha {moment.stage.alpha:.2f}, on the target {moment.score:.3g}")
            seen.append(moment)
    scene = Scene.of_task(task, [moment.stage.particles for moment in seen])
    pictures = [frame for moment in seen for frame in frames(moment, scene, method.split(":")[0], most)]
    return gif(pictures, MILLISECONDS, colours=64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--method", default="gradient")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=240_000)
    parser.add_argument("--pieces", type=int, default=30, help="of the run (default: %(default)s)")
    parser.add_argument("--every", type=int, default=2, help="steps of an episode between two pictures (default: 2)")
    parser.add_argument("--most", type=int, default=15, help="pictures of an episode (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("docs/film.gif"))
    options = parser.parse_args()
    made = film(
        gd.tasks.load(options.task),
        options.method,
        options.seed,
        options.steps,
        options.pieces,
        options.every,
        options.most,
    )
    options.out.write_bytes(made)
    print(f"wrote {options.out}: {len(made) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
