"""Docstrings as pages show them: what our lines "name: meaning" say of arguments becomes a list."""

from __future__ import annotations

import re
from typing import Any

from griffe import Docstring, Extension, Object

ARGUMENT = re.compile(r"\n+(?=[a-z_]\w*(?:, [a-z_]\w*)*: )")


class Arguments(Extension):
    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            head, *listed = ARGUMENT.split(obj.docstring.value)
            text = "".join([head, "\n", *(f"\n- {line}" for line in listed)]) if listed else head
            obj.docstring = Docstring(text, parent=obj)
