"""Whether a configuration was written by this user on this machine, which decides whether code it names may run.

A configuration may name code: a task, a method, a metric, a pace or a learner as `file.py:object` or `module:object`.
What this package writes is signed with a key that only this user can read. Code that any other configuration
names is loaded only if the caller trusts it. The signature only has to protect names: nothing else in a run folder is
executed.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from geodesic.errors import InvalidInput, short_repr
from geodesic.records.config import RunConfig
from geodesic.records.files import NO_LINK, opened, read_json
from geodesic.registry import is_reference

SIGNATURE = "signature"  # in config.json, beside the fields
KEY_BYTES = 32
NAMING = ("task", "method", "metric", "learner", "options", "learner_options")  # fields that can name code


def sign(config: RunConfig) -> str:
    """The signature of a configuration; empty if this user has no place for a key."""
    key = _key(create=True)
    return _mac(key, config) if key else ""


def check_origin(
    path: Path, config: RunConfig, trust: bool = False, task: object = None, fields: Sequence[str] = NAMING
) -> None:
    """Refuse a configuration that names code, unless it is this user's own or the caller trusts it.

    Args:
        path: The file that the configuration was read from.
        config: The configuration.
        trust: Whether its code may be run wherever it comes from.
        task: The task, if the caller already has it and does not load it by name.
        fields: The fields that the caller uses.

    Raises:
        InvalidInput: If using the configuration would run code that it names.
    """
    used = [field for field in fields if task is None or field != "task"]
    named = dict.fromkeys(name for field in used for name in _references(getattr(config, field)))
    if named and not trust and not _is_own(path, config):
        raise InvalidInput(
            f"{path} was not written by you on this machine and names code: {', '.join(map(short_repr, named))}; "
            "if you trust it, try --trust (in Python trust=True)"
        )


def _references(value: Any) -> Iterator[str]:
    """The strings in a JSON value that refer to code."""
    if isinstance(value, str) and is_reference(value):
        yield value
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    for part in parts:
        yield from _references(part)


def _is_own(path: Path, config: RunConfig) -> bool:
    key, found = _key(), read_json(path).get(SIGNATURE)
    return bool(key) and isinstance(found, str) and hmac.compare_digest(found.encode(), _mac(key, config).encode())


def _mac(key: bytes, config: RunConfig) -> str:
    content = json.dumps(config.to_json(), sort_keys=True).encode()
    return hmac.digest(key, content, hashlib.sha256).hex()


def _key(create: bool = False) -> bytes:
    """This user's key, from the first folder that can hold one; empty if there is none."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    for folder in (Path(state) / "geodesic", Path(tempfile.gettempdir()) / f"geodesic-{_user()}"):
        with contextlib.suppress(OSError):
            if create and folder.is_absolute():
                _create(folder)
            with opened(folder, os.O_RDONLY) as place, opened(folder / "key", os.O_RDONLY) as descriptor:
                key = os.read(descriptor, KEY_BYTES)
                if len(key) == KEY_BYTES and _is_private(place) and _is_private(descriptor):
                    return key
    return b""


def _create(folder: Path) -> None:
    """Make a key if there is none; if two processes do so at once, one wins."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (folder / "key").exists():
        return
    temporary = folder / f"key-{secrets.token_hex(8)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, 0o600)
    os.write(descriptor, secrets.token_bytes(KEY_BYTES))
    os.close(descriptor)
    try:
        os.link(temporary, folder / "key")
    except FileExistsError:
        pass
    finally:
        temporary.unlink()


def _is_private(descriptor: int) -> bool:
    """Whether only this user can read a file or folder."""
    known = os.fstat(descriptor)
    return known.st_uid == _user() and not known.st_mode & 0o077


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0
