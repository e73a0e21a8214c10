"""A short film of a trained agent on the target, where its task can be rendered."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from geodesic.errors import GeodesicError
from geodesic.records import checkpoint_path
from geodesic.records.files import write_atomically
from geodesic.records.reader import RunResult
from geodesic.runs.run import load_policy
from geodesic.tasks.task import Task

FRAMES = 60  # at most
SIDE = 192  # pixels of the longer side
COLOURS = 32
FILE = "film.gif"


@dataclass(frozen=True)
class Film:
    """Frames as a GIF, and what is seen in it."""

    content: bytes
    caption: str


class Camera:
    """Films agents of one task; the environment is made, and compiled, once."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.env = task.make(render_mode="rgb_array")

    def film(self, run: RunResult) -> Film:
        """An episode of the run's last policy, in a context of the target."""
        stochastic = run.config.get("eval_policy") == "stochastic"
        policy = load_policy(run.folder, self.task, stochastic)
        obs, info = self.env.reset(seed=run.seed)
        frames, every, steps, total, ended = [self._frame()], 1, 0, 0.0, False
        while not ended:
            obs, reward, terminated, truncated, info = self.env.step(policy(obs))
            steps, total, ended = steps + 1, total + float(reward), bool(terminated or truncated)
            if ended or steps % every == 0:
                frames.append(self._frame())
            if len(frames) > FRAMES and not ended:  # nobody knows beforehand how long an episode is
                frames, every = frames[::2], 2 * every
        success = {True: ", success", False: ", no success"}.get(info.get("is_success"), "")  # type: ignore[arg-type]
        some = f", one step in {every} shown" if every > 1 else ""
        fps = int(self.env.metadata.get("render_fps") or 15)
        caption = f"seed {run.seed}: return {total:.4g} in {steps} steps{success}{some}"
        return Film(gif(frames, 1000 * every // fps), caption)

    def close(self) -> None:
        self.env.close()  # type: ignore[no-untyped-call]

    def _frame(self) -> Image.Image:
        picture: Any = self.env.render()
        image = Image.fromarray(np.asarray(picture, np.uint8))
        image.thumbnail((SIDE, SIDE))
        return image


def films(runs: list[RunResult], task: Task) -> tuple[dict[str, Film], str]:
    """By label, a film of the first run that has a checkpoint; and why there is none, where there is none.

    A task that cannot be rendered, or an agent that is not ours, is no reason to go without a page.
    """
    found: dict[str, Film] = {}
    why = ""
    try:
        camera = Camera(task)
    except Exception as error:
        return {}, f"{task.name} gives no pictures: {error}"
    for run in runs:
        if run.label in found or not checkpoint_path(run.folder).exists():
            continue
        try:
            found[run.label] = camera.film(run)
            _keep(run.folder / "figures" / FILE, found[run.label])
        except Exception as error:  # whatever a simulator without a screen makes of it
            why = f"no film of {run.label}: {error}"
            if not found:  # the next would end in the same way
                break
    camera.close()
    return found, why


def _keep(path: Path, film: Film) -> None:
    """Beside the figures, for slides; a folder that cannot be written still has its page."""
    try:
        write_atomically(path, lambda file: file.write(film.content))
    except GeodesicError:
        return


def gif(frames: list[Image.Image], milliseconds: int, colours: int = COLOURS) -> bytes:
    """A film that loops; one palette for all frames, taken from some of them side by side."""
    some = frames[:: -(-len(frames) // 6)]
    width, height = (max(sizes) for sizes in zip(*(frame.size for frame in some)))
    strip = Image.new("RGB", (len(some) * width, height))
    for place, frame in enumerate(some):
        strip.paste(frame, (place * width, 0))
    palette = strip.quantize(colours)
    out = io.BytesIO()
    first, *rest = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    first.save(out, "GIF", save_all=True, append_images=rest, duration=max(20, milliseconds), loop=0)
    return out.getvalue()
