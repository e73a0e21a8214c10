"""A short film of a trained agent on the target, where its task can be rendered."""

from __future__ import annotations

import base64
import contextlib
import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from geodesic.errors import GeodesicError
from geodesic.records import checkpoint_path
from geodesic.records.files import inside, write_atomically
from geodesic.records.reader import RunResult
from geodesic.runs.run import load_policy
from geodesic.tasks.task import Task

FRAMES = 60  # at most
SIDE = 192  # pixels of the longer side
COLOURS = 32
FILE = "film.gif"


class Film(NamedTuple):
    """A film.

    Args:
        content: The GIF.
        caption: What it shows.
    """

    content: bytes
    caption: str

    @property
    def url(self) -> str:
        """The GIF within a URL."""
        return f"data:image/gif;base64,{base64.b64encode(self.content).decode()}"


def films(runs: list[RunResult], task: Task, folder: Path, trust: bool = False) -> tuple[dict[str, Film], str]:
    """Film the first run of each label that has a checkpoint.

    A task that cannot be rendered, or an agent that is not ours, must not prevent the page.

    Args:
        runs: The runs.
        task: Their task.
        folder: The folder of the run or the comparison.
        trust: Whether code that the runs name may be run although this user did not write them.

    Returns:
        A film for each label, and why some are missing, or an empty string.
    """
    found: dict[str, Film] = {}
    reason = ""
    try:
        env = task.make(render_mode="rgb_array")
    except Exception as error:
        return {}, f"{task.name} cannot be rendered: {error}"
    with contextlib.closing(env):
        for run in runs:
            if run.label in found or not checkpoint_path(run.folder).exists():
                continue
            try:
                found[run.label] = _film(run, task, env, trust)
                _keep(folder, run, found[run.label])
            except Exception as error:  # a simulator without a screen raises anything
                reason = f"no film of {run.label}: {error}"
                if not found:  # the next would fail in the same way
                    break
    return found, reason


def _film(run: RunResult, task: Task, env: Any, trust: bool) -> Film:
    """Film an episode of the run's last policy in a context of the target."""
    policy = load_policy(run.folder, task, run.config.eval_policy == "stochastic", trust=trust)
    obs, info = env.reset(seed=run.seed)
    frames, every, steps, total, ended = [_frame(env)], 1, 0, 0.0, False
    while not ended:
        obs, reward, terminated, truncated, info = env.step(policy(obs))
        steps, total, ended = steps + 1, total + float(reward), bool(terminated or truncated)
        if ended or steps % every == 0:
            frames.append(_frame(env))
        if len(frames) > FRAMES and not ended:  # the length of an episode is not known in advance
            frames, every = frames[::2], 2 * every
    success = {True: ", success", False: ", no success"}.get(info.get("is_success"), "")
    skipped = f", one step in {every} shown" if every > 1 else ""
    fps = int(env.metadata.get("render_fps") or 15)
    caption = f"seed {run.seed}: return {total:.4g} in {steps} steps{success}{skipped}"
    return Film(gif(frames, 1000 * every // fps), caption)


def _frame(env: Any) -> Image.Image:
    image = Image.fromarray(np.asarray(env.render(), np.uint8))
    image.thumbnail((SIDE, SIDE))
    return image


def _keep(folder: Path, run: RunResult, film: Film) -> None:
    """Write the film next to the figures, for slides; a folder that is not writable only goes without it."""
    with contextlib.suppress(GeodesicError):
        place = inside(folder, *run.folder.relative_to(folder).parts, "figures")
        write_atomically(place / FILE, lambda file: file.write(film.content))


def gif(frames: list[Image.Image], milliseconds: int, colours: int = COLOURS) -> bytes:
    """Encode frames as a GIF that loops.

    Args:
        frames: The frames, of one size.
        milliseconds: How long each is shown.
        colours: The size of the palette, which all frames share.

    Returns:
        The GIF.
    """
    strip = np.hstack([np.asarray(frame) for frame in frames[:: -(-len(frames) // 6)]])
    palette = Image.fromarray(strip).quantize(colours)
    out = io.BytesIO()
    first, *rest = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    first.save(out, "GIF", save_all=True, append_images=rest, duration=max(20, milliseconds), loop=0)
    return out.getvalue()
