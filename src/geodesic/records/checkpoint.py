"""Checkpoints: named arrays and JSON in one sealed file, written atomically, without pickle."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geodesic.contexts import Arrays
from geodesic.errors import CheckpointError
from geodesic.records.archive import Archive, Header, Headers, first_line, write_archive

Json = dict[str, Any]
Tree = Any  # of arrays: nested tuples, lists and dictionaries, as JAX knows them
Check = Callable[[Headers], None]  # refuses members that are not what is expected, before they are read

FORMAT = "geodesic-checkpoint-2"
_META = "__json__"
LONGEST_META = 2**20  # bytes
LARGEST_COUNT = 2**62


@dataclass(frozen=True)
class Checkpoint:
    """Arrays, and a JSON dictionary whose values are asked for by what they should be."""

    path: Path
    arrays: Arrays
    meta: Json

    def count(self, *place: str) -> int:
        """A whole number, not below zero."""
        value = self._at(place)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < LARGEST_COUNT:
            raise CheckpointError(f"{self.path} is damaged: expected {'/'.join(place)} as a count, got {value!r:.40}")
        return value

    def number(self, *place: str) -> float:
        """A number; NaN where there was none yet."""
        value = self._at(place)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise CheckpointError(f"{self.path} is damaged: expected {'/'.join(place)} as a number, got {value!r:.40}")
        return float(value)

    def text(self, *place: str) -> str:
        value = self._at(place)
        if not isinstance(value, str):
            raise CheckpointError(f"{self.path} is damaged: expected {'/'.join(place)} as text, got {value!r:.40}")
        return value

    def texts(self, *place: str) -> list[str]:
        value = self._at(place)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise CheckpointError(f"{self.path} is damaged: expected {'/'.join(place)} as words, got {value!r:.40}")
        return value

    def _at(self, place: tuple[str, ...]) -> Any:
        value: Any = self.meta
        for name in place:
            if not isinstance(value, dict) or name not in value:
                raise CheckpointError(f"{self.path} is of another version: it has no {name!r}")
            value = value[name]
        return value


def save(path: Path, arrays: Arrays, meta: Json, keep: Path | None = None) -> None:
    """Arrays and a JSON dictionary, in one file; the file that was there before is moved to `keep`."""
    text = np.frombuffer(json.dumps({"format": FORMAT, **meta}).encode(), dtype=np.uint8)
    write_archive(path, {**arrays, _META: text}, keep)


def load(path: Path, check: Check = lambda headers: None) -> Checkpoint:
    """What `save` wrote; a damaged or foreign file is an error of ours, and so is one that `check` refuses."""
    if not path.exists():
        raise CheckpointError(f"expected a checkpoint at {path}, found none")
    with Archive(path) as archive:
        headers = dict(archive.headers)
        text = headers.pop(_META, None)
        if text is None or text.dtype != np.uint8 or len(text.shape) != 1 or text.shape[0] > LONGEST_META:
            raise CheckpointError(f"foreign checkpoint {path}: expected format {FORMAT}")
        check(headers)
        arrays = archive.read()
    try:
        meta = json.loads(arrays.pop(_META).tobytes())
        form = meta.pop("format")
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(f"damaged or foreign checkpoint {path}: {first_line(error)}") from error
    if form != FORMAT:
        raise CheckpointError(f"foreign checkpoint {path}: expected format {FORMAT}, got {form!r:.40}")
    return Checkpoint(path, arrays, meta)


def flatten(prefix: str, tree: Tree) -> Arrays:
    """The leaves of a tree of arrays, named by their place."""
    return {name: np.asarray(leaf) for name, leaf in _leaves(prefix, tree).items()}


def shapes(prefix: str, tree: Tree) -> Headers:
    """The types and shapes of what `flatten` gives, also for a tree of shapes alone."""
    return {name: Header.of(leaf) for name, leaf in _leaves(prefix, tree).items()}


def unflatten(prefix: str, like: Tree, arrays: Arrays) -> Tree:
    """The tree of `like`'s structure whose leaves `flatten` named; shapes and types must fit."""
    import jax

    require(shapes(prefix, like), {name: Header.of(array) for name, array in arrays.items()})
    return jax.tree_util.tree_map_with_path(lambda place, _: arrays[prefix + jax.tree_util.keystr(place)], like)


def require(expected: Headers, found: Headers) -> None:
    """Refuse what is not of these types and shapes."""
    for name, header in expected.items():
        if name not in found or not found[name].fits(header):
            raise CheckpointError(
                f"the checkpoint is of another run: expected {name} as {header}, got {found.get(name, 'nothing')}"
            )


def _leaves(prefix: str, tree: Tree) -> dict[str, Any]:
    import jax

    return {prefix + jax.tree_util.keystr(place): leaf for place, leaf in jax.tree.leaves_with_path(tree)}
