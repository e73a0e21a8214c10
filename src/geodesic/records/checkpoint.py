"""Checkpoints: named arrays and JSON in one file, written atomically, without pickle."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from geodesic.contexts import Array, Arrays
from geodesic.errors import CheckpointError
from geodesic.records.files import write_atomically

Json = dict[str, Any]
Tree = Any  # of arrays: nested tuples, lists and dictionaries, as JAX knows them

FORMAT = "geodesic-checkpoint-1"
_META = "__json__"


def save(path: Path, arrays: Arrays, meta: Json) -> None:
    """Arrays and a JSON dictionary, in one file."""
    text = json.dumps({"format": FORMAT, **meta}).encode()
    members: Arrays = {**arrays, _META: np.frombuffer(text, dtype=np.uint8)}
    write_atomically(path, lambda file: np.savez(file, **members))  # type: ignore[arg-type]


def load(path: Path) -> tuple[Arrays, Json]:
    """What `save` wrote; a damaged or foreign file is an error of ours."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        meta = json.loads(arrays.pop(_META).tobytes())
    except FileNotFoundError:
        raise CheckpointError(f"expected a checkpoint at {path}, found none") from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise CheckpointError(f"damaged or foreign checkpoint {path}: {error}") from error
    if not isinstance(meta, dict) or meta.pop("format", None) != FORMAT:
        raise CheckpointError(f"foreign checkpoint {path}: expected format {FORMAT}")
    return arrays, meta


def flatten(prefix: str, tree: Tree) -> Arrays:
    """The leaves of a tree of arrays, named by their place."""
    import jax

    leaves = jax.tree.leaves_with_path(tree)
    return {prefix + jax.tree_util.keystr(place): np.asarray(leaf) for place, leaf in leaves}


def unflatten(prefix: str, like: Tree, arrays: Arrays) -> Tree:
    """The tree of `like`'s structure whose leaves `flatten` named; shapes and types must fit."""
    import jax

    def leaf(place: Tree, expected: Tree) -> Array:
        name = prefix + jax.tree_util.keystr(place)
        found = arrays.get(name)
        if found is None or found.shape != expected.shape or found.dtype != expected.dtype:
            seen = "nothing" if found is None else f"{found.dtype}{found.shape}"
            raise CheckpointError(
                f"the checkpoint is of another run: expected {name} as {expected.dtype}{expected.shape}, got {seen}"
            )
        return found

    return jax.tree_util.tree_map_with_path(leaf, like)
