"""Pages of the reference that are read off the code: the commands, and the options of all that has a name."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any

import geodesic as gd
from geodesic import cli, curricula, learners, metrics, tasks
from geodesic.curricula.gradient.paces import PACES
from geodesic.records.config import BACKENDS

STATED = {field.name for field in fields(gd.Problem)}  # by the task, not by a method's options
ARGUMENT = re.compile(r"^    (\w+): (.*(?:\n        .*)*)", re.MULTILINE)


@cache
def pages() -> dict[str, str]:
    """The pages by their place on the site."""
    return {"reference/cli.md": commands(), "reference/options.md": options()}


def commands() -> str:
    """Every command with its arguments, from the parsers."""
    root = cli.parser()
    (subs,) = (action for action in root._actions if isinstance(action, argparse._SubParsersAction))
    helps = {action.dest: action.help for action in subs._choices_actions}
    parts = [
        "# Command line",
        "`geodesic COMMAND` and `python -m geodesic COMMAND` are the same. `--help` prints these tables in a terminal. "
        "Commands exit with 0 on success, 1 if a run failed or was stopped, and 2 on bad usage.",
        table(("command", ""), [(f"[`{name}`](#{name})", sentence(helps[name])) for name in subs.choices]),
    ]
    for name, parser in subs.choices.items():
        places = [action.metavar or action.dest for action in parser._actions if not action.option_strings]
        usage = " ".join(["geodesic", name, *places, *["[options]"] * (len(parser._actions) > len(places) + 1)])
        rows = [
            (flags(action), markdown(action.help % vars(action) if action.help else ""))
            for action in parser._actions
            if action.dest != "help"
        ]
        parts += [f"## {name}", f"{sentence(helps[name])}", f"```text\n{usage}\n```"]
        parts += [table(("argument", "meaning"), rows)] if rows else []
    return "\n\n".join(parts)


def flags(action: argparse.Action) -> str:
    """How an argument is written."""
    value = "" if action.nargs == 0 else (action.metavar or "|".join(action.choices or []) or action.dest.upper())
    names = ", ".join(action.option_strings)
    return f"`{' '.join(part for part in (names, str(value)) if part)}`"


def options() -> str:
    """The options of everything that has a name, with their defaults."""
    parts = [
        "# Options and defaults",
        "A method, a pace, a learner or a metric is a name, followed by options: `gradient:step=0.05:window=10`, "
        "`sac:learning_rate=1e-3`. In Python the same options are keyword arguments. Built-in tasks set some of them, "
        "in [their files](tasks.md). Every method also takes `threshold`, `source`, `metric` and `score` if it uses "
        "them, which otherwise come from the task.",
        "## Methods",
    ]
    known = curricula.REGISTRY
    parts.append(
        table(("method", ""), [(f"[`{name}`](#{name})", sentence(known.known(name).description)) for name in known])
    )
    of_paces = {name for pace in PACES.values() for name in defaults(pace)} - {"threshold"}
    for name in known:
        cls: Any = known.known(name)
        own = [each for each in curricula.options_of(cls) if each not in STATED]
        staged = "pace" in own
        rows = option_rows(cls, [each for each in own if not (staged and each in of_paces)])
        parts += [f"### {name}", f"{sentence(cls.description)} API: [`{cls.__name__}`]({api(cls)})."]
        parts += ["It also takes the options of its [pace](#paces)."] if staged else []
        parts += [table(("option", "default", "meaning"), rows)] if rows else ["It has no options."]
    parts += ["## Paces", "Options of `gradient` and `linear`, beside `pace=`; the default is `pace=fixed`."]
    for name, pace in PACES.items():
        rows = option_rows(pace, [each for each in defaults(pace) if each != "threshold"])
        parts += [f"### pace={name}", sentence(summary(pace)), table(("option", "default", "meaning"), rows)]
    parts += ["## Learners", "The default learner is `ppo` with "]
    shown = ", ".join(f"`{key}={value}`" for key, value in learners.DEFAULT[1].items())
    parts[-1] += f"{shown}; built-in tasks name their own."
    for name, line in learners.names().items():
        cls = learners.REGISTRY.known(name)
        rows = option_rows(cls, list(defaults(cls)))
        parts += [f"### {name}", sentence(line[0].upper() + line[1:]), table(("option", "default", "meaning"), rows)]
    lists = {"metric": metrics.descriptions(), "backend": BACKENDS, "task": tasks.names()}
    for kind, lines in lists.items():
        rows = [(f"`{name}`", sentence(line)) for name, line in lines.items()]
        parts += [f"## {kind.capitalize()}s", table((kind, ""), rows)]
    return "\n\n".join(parts)


def option_rows(cls: type, names: Iterable[str]) -> list[tuple[str, str, str]]:
    """A row for each option: its name, its default and what its docstring says."""
    known, meanings = defaults(cls), documented(cls)
    return [(f"`{name}`", as_code(known.get(name, MISSING)), markdown(meanings.get(name, ""))) for name in names]


def defaults(cls: Any) -> dict[str, Any]:
    """The parameters of a class with their defaults."""
    if is_dataclass(cls):
        return {
            field.name: field.default if field.default_factory is MISSING else field.default_factory()
            for field in fields(cls)
            if field.init
        }
    empty = inspect.Parameter.empty
    found = inspect.signature(cls).parameters.values()
    return {each.name: MISSING if each.default is empty else each.default for each in found}


def documented(cls: type) -> dict[str, str]:
    """What the docstrings of a class and its bases say about its parameters."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found |= {name: " ".join(text.split()) for name, text in ARGUMENT.findall(inspect.cleandoc(base.__doc__ or ""))}
    return found


def api(cls: type) -> str:
    """The page and the anchor of a method's class, which is documented where users import it from."""
    return f"api/curricula.md#geodesic.{'' if cls.__name__ in gd.__all__ else 'curricula.'}{cls.__name__}"


def summary(cls: type) -> str:
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def as_code(value: Any) -> str:
    return "required" if value is MISSING else f"`{list(value) if isinstance(value, tuple) else value!r}`"


def sentence(text: str) -> str:
    text = markdown(text)
    return text[:1].upper() + text[1:].rstrip(".") + "."


def markdown(text: str) -> str:
    """A string in which a table's bars and tags are escaped, outside of code."""
    parts = text.split("`")
    parts[::2] = [part.replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[") for part in parts[::2]]
    return "`".join(parts).replace("|", "\\|")


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
