"""A console whose terminal cannot be controlled by what it shows: names may come from anyone's folder."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from geodesic.errors import printable


class SafeConsole(Console):
    """A console that escapes control characters in text; colours and cursor movements are its own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Turn anything that can be shown into segments of printable text.

        Args:
            renderable: What to show.
            options: Options of the console (default: its own).

        Yields:
            The segments.
        """
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text, keep="\n"), segment.style)
