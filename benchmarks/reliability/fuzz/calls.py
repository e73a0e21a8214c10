"""The public calls, found by their signatures, with valid arguments of which one is replaced by a wrong one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

from benchmarks.reliability.fuzz import world
from benchmarks.reliability.fuzz.examples import EXCEPTIONS, NAMES, TYPES, batches
from benchmarks.reliability.fuzz.values import Texts, generator, mutated
from geodesic import curricula
from geodesic.errors import GeodesicError, MissingExtra

Arguments = dict[str, Texts]

MODULES = ("gd", "metrics", "curricula", "envs", "tasks", "learners")  # by their names in `world`
EXTRAS = ("gd.sb3.CurriculumCallback", "gd.rllib.with_curriculum", "envs.from_gymnax", "envs.from_brax")
OBJECTS = (  # whose methods are called
    "a", "space", "cells", "blend", "batch()", "metrics.Euclidean([1.0, 2.0])", "graph", "matrix", "product", "lift",
    "embedding",
    "gd.Geodesic(a, b)", "walk", "gd.Result(walk, RUN, {('auto', 0): RUN})",
)  # fmt: skip
MORE = (  # public, but not in the modules above
    "gd.Geodesic(a, b)", "pole.make", "methods.parse", "methods.resolve", "configure", "read_file", "plan",
    "load_run", "load_comparison", "plans.exact_plan", "plans.shortest_hops", "plans.sorted_plan",
    "multiscale.partitioned_plan", "plans.assignment", "statistics.rolling_mean", "statistics.time_to_solved",
    "statistics.asymptotic", "statistics.summarise", "intervals.interquartile_mean", "intervals.deviation",
    "intervals.median_interval", "intervals.iqm_interval", "intervals.iqm_of", "intervals.probability_of_improvement",
    "intervals.probability_interval", "curves.mean_curve", "curves.iqm_curve", "paths.stage_path", "check_theory",
    "tables.format_table", "tables.infeasible_table", "text.sparklines", "executors.LocalProcesses",
    "executors.RayTasks", "taught", "wrapped", "stepped",
)  # fmt: skip
SKIPPED = {  # callables whose text ends like this, and why
    "gd.ContextualMDP": "is subclassed",
    "envs.EnvSpec": "describes a class of this package",
    "gd.Result": "is made by train, compare and load",
    "gd.BenchmarkResult": "is made by benchmark and load_benchmark",
    "gd.benchmark": "trains for minutes; tests/runs/test_benchmark.py has wrong arguments of it",
    "learners.Transitions": "is made by the trainers",
    "metrics.make": "tasks call it with themselves",
    ".length": "solvers call it with distances and masses that they have computed",
}
FILES = ("config.json", "episodes.csv", "evaluations.csv", "stages.csv", "curriculum.npz", "summary.json")


def _in_modules() -> Iterator[str]:
    """Functions, classes and other constructors of the modules, each under its first name."""
    found: list[Any] = []
    for prefix in MODULES:
        module = getattr(world, prefix)
        for name in getattr(module, "__all__", [*vars(module)]):
            try:
                value = getattr(module, name)
            except MissingExtra:  # an adapter of a library that is not installed
                continue
            home = getattr(value, "__module__", "")
            own = home.startswith("geodesic.") if hasattr(module, "__all__") else home == module.__name__
            if name.startswith("_") or not own or not callable(value) or any(value is one for one in found):
                continue
            found.append(value)
            if not inspect.isclass(value):
                yield f"{prefix}.{name}"
            elif not inspect.isabstract(value) and not getattr(value, "_is_protocol", False):
                yield f"{prefix}.{name}"
                own_methods = (name for name, part in vars(value).items() if isinstance(part, classmethod))
                yield from (f"{prefix}.{name}.{method}" for method in own_methods if is_public(value, method))


def is_public(value: Any, name: str) -> bool:
    """Whether a constructor is for users: `from_...` and `option_...` are called by `curricula.build`."""
    return not name.startswith(("_", "from_", "option_"))


def _of_objects() -> Iterator[str]:
    for text in OBJECTS:
        kind = type(eval(text, vars(world)))
        for name in dir(kind):
            part = inspect.getattr_static(kind, name)
            if not name.startswith("_") and inspect.isfunction(part):
                yield f"{text}.{name}"


@cache
def calls() -> tuple[str, ...]:
    """The source of every public callable that has parameters."""
    names = dict.fromkeys((*_in_modules(), *_of_objects(), *MORE))
    return (*(name for name in names if not name.endswith(tuple(SKIPPED)) and arguments(name)), *EXTRAS)


@cache
def arguments(name: str) -> Arguments:
    """Examples for each parameter of a callable; none if it belongs to an extra that is not installed."""
    try:
        function = eval(name, vars(world))
        signature = inspect.signature(function)
    except (GeodesicError, ValueError):  # a missing extra, or an exception
        return {}
    rests = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    rest = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
    more = inspect.signature(function.passes_to).parameters if rest and hasattr(function, "passes_to") else {}
    given = [each for each in (*signature.parameters.values(), *more.values()) if each.kind not in rests]
    return {each.name: example(name, each) for each in given if not each.name.startswith("_")}


def example(name: str, parameter: inspect.Parameter) -> Texts:
    """Valid arguments for a parameter: an exception for this callable, by its name, or by its type."""
    for prefix, own in EXCEPTIONS.items():
        if name.startswith(prefix) and parameter.name in own:
            return own[parameter.name]
    found = NAMES.get(parameter.name, TYPES.get(str(parameter.annotation)))
    if found is None:
        raise LookupError(
            f"no example for the parameter {parameter.name!r} ({parameter.annotation}) of {name}: "
            f"add one to NAMES, or to EXCEPTIONS, in {__package__}/examples.py"
        )
    return found


def call(name: str, given: dict[str, str]) -> str:
    """The source of a call."""
    return f"{name}({', '.join(f'{key}={value}' for key, value in given.items())})"


@st.composite
def with_faults(draw: st.DrawFn, examples: Arguments) -> dict[str, str]:
    """Valid arguments, usually with one of them mutated, sometimes with two or none."""
    chosen = {name: draw(texts) for name, texts in examples.items()}
    count = draw(st.sampled_from((0, 0, 1, 1, 1, 1, 1, 2))) if examples else 0
    for name in draw(st.lists(st.sampled_from(list(examples)), min_size=count, max_size=count)) if count else []:
        chosen[name] = draw(mutated(examples[name]))
    return chosen


@st.composite
def public_call(draw: st.DrawFn, names: Sequence[str] = ()) -> str:
    """A call of a public function, or of one of these."""
    name = draw(st.sampled_from(names or calls()))
    text = call(name, draw(with_faults(arguments(name))))
    return f"{text}(0.5)" if name == "gd.Geodesic" else text


@st.composite
def curriculum(draw: st.DrawFn) -> str:
    """A curriculum with a fault in its options, or in the episodes that it is updated with."""
    method = draw(st.sampled_from(list(curricula.REGISTRY)))
    if draw(st.booleans()):
        made = f"STARTED[{method!r}]"
        given: Arguments = {"state": st.just(f"{made}[1]"), "episodes": batches, "rng": generator}
        return call(f"{made}[0].update", draw(with_faults(given)))
    options = arguments_of_method(method)
    some = draw(st.lists(st.sampled_from(list(options)), min_size=1, max_size=2, unique=True))
    chosen = draw(with_faults({name: options[name] for name in some}))
    words = ", ".join(f"{name!r}: {value}" for name, value in chosen.items())
    several = draw(st.lists(batches, min_size=1, max_size=5))
    return f"lived({method!r}, problem, {{{words}}}, [{', '.join(several)}])"


@cache
def arguments_of_method(method: str) -> Arguments:
    """Examples for each option of a method: those of its class, and of the paces that it takes."""
    classes: list[Callable[..., Any]] = [curricula.REGISTRY.get(method)]
    if "pace" in curricula.options_of(method):
        classes += [curricula.FixedStep, curricula.AdaptivePace, curricula.PerParticlePace]
    parameters = {each.name: each for made in classes for each in inspect.signature(made).parameters.values()}
    return {name: example("lived", parameters[name]) for name in curricula.options_of(method) if name in parameters}


@st.composite
def folder(draw: st.DrawFn) -> str:
    """A run's folder with a damaged file, read."""
    file, how = draw(st.sampled_from(FILES)), draw(st.sampled_from(world.DAMAGES))
    reader = draw(st.sampled_from(("read_all", "read_all", "read_all", "read_all", "draw_all")))
    return f"{reader}(damaged({file!r}, {how!r}, {draw(st.integers(0, 99))}))"


any_call: Texts = st.one_of(public_call(), public_call(), public_call(), curriculum(), folder())
