"""Rules of the source tree: one-way imports, private names, solvers in one place, no assertions or prints."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "geodesic"
ROOMS = (  # a room imports from itself and from rooms before it
    "errors", "numpy_policy", "checks", "registry", "runtime", "contexts", "coupling", "metrics", "transport",
    "curricula", "envs", "tasks", "learners", "records", "training", "integrations", "runs", "analysis", "report",
    "api", "", "cli", "__main__",
)  # fmt: skip
# "" is the package itself, whose version the command line prints
SOLVER = "linear_sum_assignment"
FILES = {
    ".".join(["geodesic", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
}
TREES = {module: ast.parse(path.read_text(), filename=str(path)) for module, path in FILES.items()}


def room_of(module):
    """The room of a module of the package: 'geodesic.runs.executors.local' -> 'runs'."""
    return module.split(".")[1] if "." in module else ""


def is_ours(origin):
    return origin.split(".")[0] == "geodesic"


def is_private(name):
    return name.startswith("_") and not name.endswith("__")


def imports(tree, module):
    """Every (module, name or None) that a tree imports, anywhere in it; relative imports made absolute."""
    home = module.split(".") if FILES[module].name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            above = home[: len(home) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((origin, alias.name) for alias in node.names)


def backward_imports(tree, module):
    """Imports from a later room. `from geodesic import learners` means geodesic.learners."""
    inside = [(origin, f"{origin}.{name}") for origin, name in imports(tree, module) if is_ours(origin)]
    origins = [deeper if deeper in FILES else origin for origin, deeper in inside]
    return [origin for origin in origins if ROOMS.index(room_of(origin)) > ROOMS.index(room_of(module))]


def private_names(tree, module):
    """Names with a leading underscore from another module of the package, by import or through a module."""
    found = [
        f"{origin}.{name}" for origin, name in imports(tree, module) if name and is_ours(origin) and is_private(name)
    ]
    modules = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and is_ours(node.module)
        for alias in node.names
        if f"{node.module}.{alias.name}" in FILES
    }
    return found + [
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.value.id in modules and is_private(node.attr)
    ]


def solver_calls(tree, module):
    """Uses of a transport solver."""
    names = [name for name in imports(tree, module) if name[0].split(".")[0] == "ot" or name[1] == SOLVER]
    return names + [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == SOLVER]


def asserts_and_prints(tree, module):
    """The lines of assertions and of calls of print."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print")
    ]


def violations(rule, modules):
    """What a rule finds, by module."""
    return {module: found for module in modules if (found := rule(TREES[module], module))}


def test_every_room_is_in_the_order():
    assert {room_of(module) for module in FILES} == set(ROOMS)
    assert len(FILES) > 60


def test_imports_point_one_way():
    assert violations(backward_imports, [module for module in FILES if module != "geodesic"]) == {}


def test_private_names_stay_in_their_module():
    assert violations(private_names, FILES) == {}


def test_only_the_coupling_room_calls_a_transport_solver():
    assert violations(solver_calls, [module for module in FILES if room_of(module) != "coupling"]) == {}


def test_the_source_has_no_assertions_and_no_prints():
    assert violations(asserts_and_prints, FILES) == {}


@pytest.mark.parametrize(
    ("module", "text", "wrong"),
    [
        ("geodesic.metrics.base", "from geodesic.transport.geodesic import Geodesic", ["geodesic.transport.geodesic"]),
        ("geodesic.metrics.base", "from geodesic import transport", ["geodesic.transport"]),
        ("geodesic.metrics.base", "import geodesic.transport.geodesic as g", ["geodesic.transport.geodesic"]),
        ("geodesic.metrics.base", "def late():\n    from geodesic.tasks import load", ["geodesic.tasks"]),
        (
            "geodesic.records.config",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from geodesic.runs.run import Batch",
            ["geodesic.runs.run"],
        ),
        ("geodesic.metrics.base", "from ..transport import geodesic", ["geodesic.transport.geodesic"]),
        ("geodesic.metrics", "from ..transport import geodesic", ["geodesic.transport.geodesic"]),
        ("geodesic.metrics.base", "from geodesic import Task", ["geodesic"]),
        ("geodesic.runs.executors.local", "from geodesic.api import train", ["geodesic.api"]),
        ("geodesic.contexts.plot", "from geodesic.tasks.task import Task", ["geodesic.tasks.task"]),
        ("geodesic.checks", "from geodesic.registry import Registry", ["geodesic.registry"]),
        ("geodesic.transport.geodesic", "from geodesic.metrics.base import Metric", []),
        ("geodesic.metrics.graph", "from geodesic.metrics.base import Metric\nimport numpy\nfrom . import base", []),
        ("geodesic.cli", "from geodesic import __version__", []),
    ],
)
def test_backward_imports_are_found(module, text, wrong):
    assert backward_imports(ast.parse(text), module) == wrong


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("from geodesic.tasks.catalogue import _module", ["geodesic.tasks.catalogue._module"]),
        ("from .reorder import _sorted", ["geodesic.training.reorder._sorted"]),
        ("from geodesic.records import checkpoint\ncheckpoint._META", ["checkpoint._META"]),
        ("from geodesic.records import checkpoint as kept\nkept._META", ["kept._META"]),
        ("from jax import _src\nfrom geodesic import __version__\nself._own\nnumpy._core", []),
    ],
)
def test_private_names_of_other_modules_are_found(text, wrong):
    assert private_names(ast.parse(text), "geodesic.training.compiled") == wrong


@pytest.mark.parametrize(
    "text",
    [
        "import ot",
        "import ot.lp as lp",
        "from ot import emd",
        "def late():\n    from scipy.optimize import linear_sum_assignment",
        "from scipy import optimize\noptimize.linear_sum_assignment(cost)",
    ],
)
def test_solver_calls_are_found(text):
    assert solver_calls(ast.parse(text), "geodesic.metrics.base")
    assert not solver_calls(ast.parse("import optax\nfrom scipy import optimize"), "geodesic.metrics.base")


def test_assertions_and_prints_are_found():
    tree = ast.parse("assert 1\nconsole.print(3)\nprinted = 'assert'\ndef f():\n    print(3)")
    assert asserts_and_prints(tree, "geodesic") == [1, 5]
