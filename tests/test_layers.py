"""The house's rules, read off its source: imports point one way, and what is private stays at home."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "geodesic"
ROOMS = (
    "errors", "checks", "runtime", "contexts", "coupling", "metrics", "transport", "curricula", "envs", "tasks",
    "learners", "records", "training", "integrations", "runs", "analysis", "report", "api", "", "cli", "__main__",
)  # fmt: skip
# "" is the package itself, which the command line may ask for its version
FILES = {
    ".".join(["geodesic", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
}


def room_of(module):
    """The room of a module of the package: 'geodesic.runs.executors.local' -> 'runs'."""
    return module.split(".")[1] if "." in module else ""


def imports(tree, module):
    """Every (module, name or None) that a tree imports, wherever it does; relative imports made whole."""
    home = module.split(".") if FILES[module].name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            above = home[: len(home) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((origin, alias.name) for alias in node.names)


def against_the_order(tree, module):
    """What is imported from a room further on. `from geodesic import learners` means geodesic.learners."""
    inside = [(origin, f"{origin}.{name}") for origin, name in imports(tree, module) if ours(origin)]
    origins = [deeper if deeper in FILES else origin for origin, deeper in inside]
    return [origin for origin in origins if ROOMS.index(room_of(origin)) > ROOMS.index(room_of(module))]


def ours(origin):
    return origin.split(".")[0] == "geodesic"


def private(name):
    return name.startswith("_") and not name.endswith("__")


def private_names(tree, module):
    """Names with a leading underscore that come from another module of the package, by import or through a module."""
    found = [f"{origin}.{name}" for origin, name in imports(tree, module) if name and ours(origin) and private(name)]
    modules = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and ours(node.module)
        for alias in node.names
        if f"{node.module}.{alias.name}" in FILES
    }
    return found + [
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.value.id in modules and private(node.attr)
    ]


def transport_solvers(tree, module):
    """Where a transport solver is called from."""
    names = [name for name in imports(tree, module) if name[0].split(".")[0] == "ot" or name[1] == SOLVER]
    return names + [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == SOLVER]


SOLVER = "linear_sum_assignment"


def asserts_and_prints(tree):
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print")
    ]


def tree_of(module):
    return ast.parse(FILES[module].read_text(), filename=str(FILES[module]))


def test_every_room_is_in_the_order():
    assert {room_of(module) for module in FILES} == set(ROOMS)
    assert len(FILES) > 60


@pytest.mark.parametrize("module", [module for module in FILES if module != "geodesic"])
def test_imports_point_one_way(module):
    assert not against_the_order(tree_of(module), module)


@pytest.mark.parametrize("module", FILES)
def test_private_names_stay_in_their_module(module):
    assert not private_names(tree_of(module), module)


@pytest.mark.parametrize("module", [module for module in FILES if room_of(module) != "coupling"])
def test_only_coupling_calls_a_transport_solver(module):
    assert not transport_solvers(tree_of(module), module)


@pytest.mark.parametrize("module", FILES)
def test_nothing_is_asserted_or_printed(module):
    assert not asserts_and_prints(tree_of(module))


# --- each rule can fail --------------------------------------------------------------------------------------------


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
        ("geodesic.transport.geodesic", "from geodesic.metrics.base import Metric", []),
        ("geodesic.metrics.graph", "from geodesic.metrics.base import Metric\nimport numpy\nfrom . import base", []),
        ("geodesic.cli.options", "from geodesic import __version__", []),
    ],
)
def test_an_import_against_the_order_is_seen(module, text, wrong):
    assert against_the_order(ast.parse(text), module) == wrong


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("from geodesic.tasks.catalogue import _module", ["geodesic.tasks.catalogue._module"]),
        ("from .ordering import _sorted", ["geodesic.training.ordering._sorted"]),
        ("from geodesic.records import checkpoint\ncheckpoint._META", ["checkpoint._META"]),
        ("from geodesic.records import checkpoint as kept\nkept._META", ["kept._META"]),
        ("from jax import _src\nfrom geodesic import __version__\nself._own\nnumpy._core", []),
    ],
)
def test_a_private_name_from_elsewhere_is_seen(text, wrong):
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
def test_a_transport_solver_elsewhere_is_seen(text):
    assert transport_solvers(ast.parse(text), "geodesic.metrics.base")
    assert not transport_solvers(ast.parse("import optax\nfrom scipy import optimize"), "geodesic.metrics.base")


@pytest.mark.parametrize("text", ["assert 1", "def f():\n    print(3)"])
def test_an_assertion_and_a_print_are_seen(text):
    assert asserts_and_prints(ast.parse(text))
    assert not asserts_and_prints(ast.parse("console.print(3)\nprinted = 'assert'"))
