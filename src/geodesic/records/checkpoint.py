"""Checkpoints: named arrays and JSON in one file with a checksum, written atomically, without pickle."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geodesic.checks import LARGEST, MOST
from geodesic.contexts import Arrays
from geodesic.errors import CheckpointError, format_error
from geodesic.records.archive import Check, Header, Headers, read_archive, write_archive
from geodesic.records.files import parse_json
from geodesic.records.schema import generations

Json = dict[str, Any]
Tree = Any  # of arrays: nested tuples, lists and dictionaries, as JAX knows them

FORMAT = "geodesic-checkpoint-2"
_META = "__json__"
LONGEST_META = 2**20  # bytes
LARGEST_FILE = 2**62  # bytes


@dataclass(frozen=True)
class Checkpoint:
    """Arrays, and a JSON dictionary whose values are read with the type that they should have."""

    path: Path
    arrays: Arrays
    meta: Json

    def count(self, *place: str, most: int = MOST) -> int:
        """A non-negative integer."""
        return int(self._at(place, "a count", lambda value: type(value) is int and 0 <= value <= most))

    def number(self, *place: str) -> float:
        """A number; NaN if there was none yet."""
        return float(self._at(place, "a number", _is_number))

    def numbers(self, *place: str) -> list[float]:
        """A list of numbers, as `number` takes them."""
        fits = lambda value: isinstance(value, list) and all(map(_is_number, value))  # noqa: E731
        return [float(value) for value in self._at(place, "numbers", fits)]

    def string(self, *place: str) -> str:
        """A string."""
        return str(self._at(place, "a string", lambda value: isinstance(value, str)))

    def strings(self, *place: str) -> list[str]:
        """A list of strings."""
        return list(self._at(place, "strings", _are_strings))

    def _at(self, place: tuple[str, ...], kind: str, fits: Callable[[Any], bool]) -> Any:
        value: Any = self.meta
        for name in place:
            if not isinstance(value, dict) or name not in value:
                raise CheckpointError(f"{self.path} is of another version: it has no {name!r}")
            value = value[name]
        if not fits(value):
            raise CheckpointError(f"{self.path} is damaged: expected {'/'.join(place)} as {kind}, got {value!r:.40}")
        return value


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and not abs(value) > LARGEST


def _are_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def save(path: Path, arrays: Arrays, meta: Json, keep: Path | None = None) -> None:
    """Write arrays and a JSON dictionary to one file; an existing file is moved to `keep`."""
    text = np.frombuffer(json.dumps({"format": FORMAT, **meta}).encode(), dtype=np.uint8)
    write_archive(path, {**arrays, _META: text}, keep)


def load(path: Path, check: Check = lambda headers: None, only: Collection[str] | None = None) -> Checkpoint:
    """Read what `save` wrote; a file that is damaged, foreign or refused by `check` raises `CheckpointError`.

    only: the names of the arrays to read, if not all are needed.
    """
    if not path.exists():
        raise CheckpointError(f"expected a checkpoint at {path}, found none")

    def check_all(headers: Headers) -> None:
        text = headers.get(_META)
        if text is None or text.dtype != np.uint8 or len(text.shape) != 1 or text.shape[0] > LONGEST_META:
            raise CheckpointError(f"foreign checkpoint {path}: expected format {FORMAT}")
        check({name: header for name, header in headers.items() if name != _META})

    arrays = read_archive(path, check_all, only=None if only is None else {*only, _META})
    try:
        meta = parse_json(arrays.pop(_META).tobytes())
        form = meta.pop("format")
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(f"damaged or foreign checkpoint {path}: {format_error(error)}") from error
    if form != FORMAT:
        raise CheckpointError(f"foreign checkpoint {path}: expected format {FORMAT}, got {form!r:.40}")
    return Checkpoint(path, arrays, meta)


def load_newest(folder: Path, check: Check = lambda headers: None, only: Collection[str] | None = None) -> Checkpoint:
    """The newest complete checkpoint of a run folder, which another process may be writing."""
    latest, previous = generations(folder)
    try:
        return load(latest, check, only)
    except CheckpointError:
        if not previous.exists():
            raise
        return load(previous, check, only)


def flatten(prefix: str, tree: Tree) -> Arrays:
    """The leaves of a tree of arrays, named by their place in it."""
    return {name: np.asarray(leaf) for name, leaf in _leaves(prefix, tree).items()}


def shapes(prefix: str, tree: Tree) -> Headers:
    """The types and shapes of what `flatten` gives, also for a tree of shapes only."""
    return {name: Header.of(leaf) for name, leaf in _leaves(prefix, tree).items()}


def unflatten(prefix: str, like: Tree, arrays: Arrays) -> Tree:
    """The tree of `like`'s structure whose leaves `flatten` named; shapes and types must fit."""
    import jax

    require(shapes(prefix, like), {name: Header.of(array) for name, array in arrays.items()})
    return jax.tree_util.tree_map_with_path(lambda place, _: arrays[prefix + jax.tree_util.keystr(place)], like)


def require(expected: Headers, found: Headers) -> None:
    """Refuse members that are missing or have another type or shape."""
    for name, header in expected.items():
        if name not in found or not found[name].fits(header):
            raise CheckpointError(
                f"the checkpoint belongs to another run: expected {name} as {header}, got {found.get(name, 'nothing')}"
            )


def _leaves(prefix: str, tree: Tree) -> dict[str, Any]:
    import jax

    return {prefix + jax.tree_util.keystr(place): leaf for place, leaf in jax.tree.leaves_with_path(tree)}
