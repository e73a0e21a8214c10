"""Every public name has a docstring in Google style.

Public are the names in `__all__` of the package and of the modules that `import geodesic as gd` offers, what
docs/reference/api/ adds from other modules, and the methods and properties of those classes. The rule:

- Everything has a docstring.
- `Args` lists exactly the parameters of a function, a method or a class (those of a dataclass are its fields).
- `Returns` is there if a function with parameters returns something; without parameters, the first line says what.
- Properties need no sections. Neither do methods that override a documented one of a base class, or are those of a
  protocol (`Learner`, `LearnedMetric`); if they have `Args`, it lists exactly the parameters.
"""

import dataclasses
import inspect
import re
from types import ModuleType

import pytest

import geodesic as gd
from geodesic import contexts, curricula, envs, errors, learners, metrics, tasks
from geodesic.records import RunResult, load_run
from geodesic.training.teacher import SampledContexts

PROTOCOLS = (learners.Learner, metrics.LearnedMetric)
MODULES = (gd, contexts, curricula, envs, errors, learners, metrics, tasks)
OTHERS = {"load_run": load_run, "RunResult": RunResult, "SampledContexts": SampledContexts}
NEED_EXTRAS = {"from_brax", "from_gymnax"}


def public_names():
    """The public classes and functions, each once: (name, object)."""
    found = {value: name for name, value in OTHERS.items()}
    for module in MODULES:
        for name in sorted(set(module.__all__) - NEED_EXTRAS):
            value = getattr(module, name)
            if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__.startswith("geodesic"):
                found.setdefault(value, f"{module.__name__.removeprefix('geodesic.')}.{name}")
    return {name: value for value, name in found.items()}


def members(cls):
    """The public methods and properties that a class defines itself: (name, member, whether it overrides)."""
    protocols = (each for each in PROTOCOLS if each is not cls and all(hasattr(cls, name) for name in required(each)))
    bases = [*cls.__mro__[1:], *protocols]
    for name, member in vars(cls).items():
        inside = isinstance(member, (classmethod, property)) or inspect.isfunction(member)
        if not name.startswith("_") and (inside or isinstance(member, staticmethod)):
            yield name, member, any(getattr(vars(base).get(name), "__doc__", None) for base in bases)


def required(protocol):
    """The methods that an object needs to meet a protocol."""
    return [name for name, member in vars(protocol).items() if inspect.isfunction(member) and not name.startswith("_")]


def parameters(of, bound):
    """The names of the parameters, as a docstring writes them; the first one of a bound function is the object."""
    if dataclasses.is_dataclass(of):
        return [field.name for field in dataclasses.fields(of) if field.init and not field.name.startswith("_")]
    if hasattr(of, "_fields") or getattr(of, "_is_protocol", False):
        return list(vars(of).get("__annotations__", {}))
    if inspect.isclass(of):
        return parameters(of.__init__, bound=True) if "__init__" in vars(of) else []
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    found = list(inspect.signature(of).parameters.values())
    return [stars.get(each.kind, "") + each.name for each in found[bound:]]


def section(doc, title):
    """The lines of a section without their common indentation, or None."""
    found = re.search(rf"^{title}:\n((?:(?:    .*)?\n?)*)", inspect.cleandoc(doc), re.MULTILINE)
    return found and found[1].splitlines()


def documented_parameters(doc):
    """The parameters that the section `Args` lists, or None."""
    lines = section(doc, "Args")
    return lines and re.findall(r"^    (\*{0,2}\w+)(?: \(.*\))?:", "\n".join(lines), re.MULTILINE)


def complaints(of, bound=False, overrides=False):
    """What the docstring of a class, a function, a method or a property lacks."""
    bound, of = bound and not isinstance(of, staticmethod), getattr(of, "__func__", of)
    doc = of.__doc__ or ""
    if not doc or (dataclasses.is_dataclass(of) and doc.startswith(f"{of.__name__}(")):
        return ["no docstring"]
    if isinstance(of, property):
        return []
    found, listed, expected = [], documented_parameters(doc), parameters(of, bound)
    if sorted(listed or []) != sorted(expected) and not (overrides and listed is None):
        found.append(f"expected Args {expected}, got {listed}")
    returns = inspect.isfunction(of) and inspect.get_annotations(of).get("return") not in (None, "None")
    if returns and expected and not overrides and not (section(doc, "Returns") or section(doc, "Yields")):
        found.append("no Returns")
    return found


@pytest.mark.parametrize("name", public_names())
def test_public_names_are_documented(name):
    value = public_names()[name]
    found = {name: complaints(value)}
    if inspect.isclass(value):
        found |= {f"{name}.{each}": complaints(member, True, overrides) for each, member, overrides in members(value)}
    assert {each: wrong for each, wrong in found.items() if wrong} == {}


def test_the_search_finds_the_public_names():
    found = public_names()
    assert {"geodesic.train", "geodesic.PPO", "curricula.CURROT", "errors.RunFailed", "learners.make"} <= set(found)
    assert not any(isinstance(value, ModuleType) for value in found.values())


def one_line(x: int) -> int:
    """Add."""


def whole(x: int, **options: int) -> int:
    """Add.

    Args:
        x: A number.
        **options: Others:
            many.

    Returns:
        The sum.
    """


def test_what_is_missing_is_found():
    assert complaints(one_line) == ["expected Args ['x'], got None", "no Returns"]
    assert complaints(one_line, overrides=True) == []
    assert complaints(whole) == []
