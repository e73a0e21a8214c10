"""Environment options that may name a file: the file is read once, and the run keeps its text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from geodesic.checks import read_text
from geodesic.errors import InvalidInput, short_repr

FILES = {"layout": 4096}  # options that may name a file, and the most characters it may have


def option_text(key: str, value: Any) -> Any:
    """The value of an option, with a file replaced by its text, so that a run keeps what it was trained on.

    Args:
        key: The name of the option.
        value: Its value. For an option in `FILES`, a string without a line break is the path of a file.

    Returns:
        The text of the file, or the value itself.

    Raises:
        InvalidInput: If the text is too long, or cannot be read from a regular file.
    """
    if key not in FILES or not isinstance(value, str):
        return value
    if "\n" not in value:
        try:
            text = read_text(Path(value), FILES[key]).strip()
            if "\n" not in text:  # it would be taken for a path, and messages would show it
                raise InvalidInput("expected several lines, got one")
            return text
        except InvalidInput as error:
            raise InvalidInput(
                f"expected a {key} as a string, or a file that holds one, got {short_repr(value)}: {error}"
            ) from error
    if len(value) > FILES[key]:
        raise InvalidInput(f"expected a {key} of at most {FILES[key]} characters, got {len(value)}")
    return value
