"""Finding things by name: registered ones, those that installed packages announce, and a user's own by reference.

A reference is `package.module:Name` or `path/file.py:Name`. It executes the module, so only references that the user of
this process wrote may be resolved.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType, ModuleType
from typing import Any, Generic, TypeVar, cast

from geodesic.checks import as_string
from geodesic.errors import InvalidInput, UnknownName, format_error

T = TypeVar("T")


class Registry(Generic[T]):
    """Values by name.

    Args:
        kind: What the values are, for messages ("method").
        group: The entry-point group in which installed packages announce more of them.
        values: The built-in ones; a string is a reference that is resolved when it is first asked for.
    """

    def __init__(self, kind: str, group: str, values: dict[str, T | str] | None = None) -> None:
        self.kind = kind
        self.group = group
        self._values: dict[str, T | str] = dict(values or {})
        self._built_in = frozenset(self._values)

    def register(self, name: str, value: T) -> T:
        """Make a value available by name in this process and in the workers of its comparisons.

        Args:
            name: The name; it must not contain ":", "=" or ",", which separate options and lists.
            value: The value.

        Returns:
            The value, so that this can be the last step of a class's definition.

        Raises:
            InvalidInput: If the name is empty, taken, or contains a separator.
        """
        if not as_string(name, f"the name of a {self.kind}") or any(mark in name for mark in ":=,"):
            raise InvalidInput(f"expected the name of a {self.kind} without ':', '=' and ',', got {name!r}")
        if name in self._values and self._values[name] is not value:
            raise InvalidInput(f"expected a new name for a {self.kind}, got {name!r}, which is taken")
        self._values[name] = value
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    @property
    def added(self) -> dict[str, T]:
        """What `register` has made available in this process, by name."""
        return {name: self._resolved(name) for name in self if name not in self._built_in}

    def announced(self) -> dict[str, EntryPoint]:
        """The entry points of installed packages, by name."""
        return {point.name: point for point in entry_points(group=self.group)}

    def names(self) -> list[str]:
        """Every name: registered ones first, then those that installed packages announce."""
        return list(dict.fromkeys([*self._values, *self.announced()]))

    def descriptions(self, stated: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
        """Describe every name in one line: as stated, or by its docstring; announced values are not imported.

        Args:
            stated: Lines about some names, which come first.

        Returns:
            A line for each name.
        """
        unstated = (name for name in self if name not in stated)
        lines = {**stated, **{name: (inspect.getdoc(self.known(name)) or "").partition("\n")[0] for name in unstated}}
        announced = {name: f"from {point.value.partition(':')[0]}" for name, point in self.announced().items()}
        return {**lines, **{name: line for name, line in announced.items() if name not in lines}}

    def known(self, name: str) -> T | None:
        """The registered value of this name or None; a name from a file can be looked up safely with it."""
        return self._resolved(name) if name in self._values else None

    def get(self, name: str) -> T:
        """The value of a name or a reference.

        Args:
            name: A registered name, one that an installed package announces, `package.module:Name` or
                `path/file.py:Name`.

        Returns:
            The value.

        Raises:
            UnknownName: If there is no such name.
            InvalidInput: If a reference cannot be loaded.
        """
        if name in self._values:
            return self._resolved(name)
        if is_reference(name):
            return cast(T, load_object(name)[0])
        point = self.announced().get(name)
        if point is None:
            raise UnknownName(self.kind, name, self.names())
        try:
            return cast(T, point.load())
        except Exception as error:
            raise InvalidInput(f"cannot load {self.kind} {name} from {point.value}: {format_error(error)}") from error

    def _resolved(self, name: str) -> T:
        value = self._values[name]
        if isinstance(value, str):
            value = self._values[name] = cast(T, resolve_name(value))
        return value


def lazy_attributes(module: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Make a module's `__getattr__`, which imports attributes when they are first used.

    Args:
        module: The name of the module.
        places: By the name of each attribute, the module that it is in; or that it is, if both have the same name.

    Returns:
        The function.
    """

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = importlib.import_module(places[name])
        return found if places[name].endswith(f".{name}") else getattr(found, name)

    return find


def is_reference(text: object) -> bool:
    """Whether a string refers to an object in a module or a file, rather than naming a registered one."""
    place, _, attribute = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    return bool(place) and "=" not in attribute


def load_object(reference: str) -> tuple[Any, str]:
    """Import the object that a reference names.

    Args:
        reference: `package.module:Name` or `path/file.py:Name`; `Name` may have dots.

    Returns:
        The object, and the reference with the whole path of a file, which is valid from any folder.

    Raises:
        InvalidInput: If the module or file cannot be imported or has no such object.
    """
    place, _, attribute = reference.rpartition(":")
    module, source = (_import_file if place.endswith(".py") else _import_module)(place)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [name for name, value in vars(module).items() if _is_own(value, module)]
            hint = f"; it has {', '.join(names)}" if names else ""
            raise InvalidInput(f"expected {place} to have {attribute!r}, found none{hint}")
        found = getattr(found, part)
    return found, f"{source}:{attribute}"


def _is_own(value: object, module: ModuleType) -> bool:
    """Whether a module defines this object, rather than importing it."""
    return getattr(value, "__module__", None) == module.__name__ or type(value).__module__.startswith("geodesic.")


def _import_module(name: str) -> tuple[ModuleType, str]:
    """A module by its name; the current folder counts as importable, as it does for `python -m`."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name), name
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"cannot import {name}: {format_error(error)}") from error


def _import_file(path: str) -> tuple[ModuleType, str]:
    """A module by its file, imported once per process; registered under its name so that its objects can be pickled."""
    file = Path(path).resolve()
    if not file.is_file():
        raise InvalidInput(f"expected a Python file at {path}, found none")
    name = f"geodesic_file_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise InvalidInput(f"cannot import {path}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise InvalidInput(f"cannot import {path}: {format_error(error)}") from error
    return sys.modules[name], str(file)
