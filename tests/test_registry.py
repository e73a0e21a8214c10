"""Registries: registered names, names that packages announce, and references to modules and files."""

import sys
import textwrap

import pytest

from geodesic.errors import InvalidInput, UnknownName
from geodesic.registry import Registry, is_reference, lazy_attributes, load_object

SOURCE = """
import collections
spade = "a spade"
class Box:
    inner = "inside"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with modules and an installed package that announces tools."""
    (tmp_path / "shed.py").write_text(SOURCE)
    (tmp_path / "broken_shed.py").write_text("spade = 1 / 0\n")
    info = tmp_path / "sheds-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sheds\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        textwrap.dedent("""\
        [geodesic.tools]
        spade = shed:spade
        box = shed:Box.inner
        absent = shed:absent
        """)
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name in ("shed", "broken_shed") or "geodesic_file_" in name]:
        del sys.modules[name]


def tools(**values):
    return Registry("tool", "geodesic.tools", values)


def test_a_registered_value_is_found_by_its_name():
    registry, rake = tools(), object()
    assert registry.register("rake", rake) is rake
    assert registry.register("rake", rake) is rake  # a module that is imported twice
    assert registry.get("rake") is registry.known("rake") is rake
    assert "rake" in registry
    assert "hoe" not in registry
    assert list(registry) == registry.names() == ["rake"]


def test_a_built_in_string_is_imported_when_it_is_first_used():
    sys.modules.pop("this_is_no_module", None)
    registry = tools(square="math:sqrt", absent="this_is_no_module:nothing")
    assert registry.names() == ["square", "absent"]
    assert registry.get("square")(9.0) == 3.0
    assert registry.known("square")(4.0) == 2.0


@pytest.mark.parametrize("name", ["", "a:b", "a=b", "a,b"])
def test_a_name_with_a_separator_is_refused(name):
    with pytest.raises(InvalidInput, match="expected the name of a tool without ':', '=' and ','"):
        tools().register(name, 1)


def test_a_name_that_is_taken_or_no_string_is_refused():
    with pytest.raises(InvalidInput, match="expected a new name for a tool, got 'rake', which is taken"):
        tools(rake="math:pi").register("rake", 2)
    with pytest.raises(InvalidInput, match="expected the name of a tool to be a string, got 3"):
        tools().register(3, 1)


def test_an_unknown_name_is_refused_with_a_suggestion(folder):
    with pytest.raises(UnknownName) as caught:
        tools(rake="math:pi").get("spaed")
    assert str(caught.value) == (
        "expected tool to be one of rake, spade, box, absent; got 'spaed'; did you mean spade?"
    )
    with pytest.raises(UnknownName, match="got 3"):
        tools().get(3)


def test_names_that_packages_announce_follow_the_registered_ones(folder):
    registry = tools(rake="math:pi")
    assert registry.names() == ["rake", "spade", "box", "absent"]
    assert registry.announced()["spade"].value == "shed:spade"
    assert registry.get("spade") == "a spade"
    assert registry.get("box") == "inside"
    with pytest.raises(InvalidInput, match="cannot load tool absent from shed:absent: AttributeError"):
        registry.get("absent")
    registry.register("spade", 3)
    assert registry.get("spade") == 3  # registered names win
    assert registry.names() == ["rake", "spade", "box", "absent"]


def test_known_never_imports(folder):
    registry = tools()
    for name in ("spade", "shed:spade", "shed.py:spade", "nothing"):
        assert registry.known(name) is None
    assert "shed" not in sys.modules


def test_get_loads_references_to_modules_and_files(folder):
    for place in ("shed", "shed.py", str(folder / "shed.py")):
        assert tools().get(f"{place}:spade") == "a spade"
        assert tools().get(f"{place}:Box.inner") == "inside"


def test_load_object_gives_a_reference_that_is_valid_from_any_folder(folder):
    assert load_object("shed:Box.inner") == ("inside", "shed:Box.inner")
    assert load_object("shed.py:spade") == ("a spade", f"{folder / 'shed.py'}:spade")


def test_a_file_is_imported_once_and_apart_from_a_module_of_the_same_name(folder):
    first = load_object("shed.py:Box")[0]
    assert load_object(f"{folder / 'shed.py'}:Box")[0] is first
    assert load_object("shed:Box")[0] is not first
    assert sys.modules[first.__module__].Box is first  # so that its objects can be pickled


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("shed:rake", "expected shed to have 'rake', found none; it has Box"),
        ("shed.py:Box.outer", "expected shed.py to have 'Box.outer', found none; it has Box"),
        ("nowhere:x", "cannot import nowhere: ModuleNotFoundError: No module named 'nowhere'"),
        ("nowhere.py:x", "expected a Python file at nowhere.py, found none"),
        ("broken_shed:x", "cannot import broken_shed: ZeroDivisionError: division by zero"),
        ("broken_shed.py:x", "cannot import broken_shed.py: ZeroDivisionError: division by zero"),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused_in_one_line(folder, reference, message):
    with pytest.raises(InvalidInput) as caught:
        load_object(reference)
    assert str(caught.value) == message


def test_a_file_that_failed_is_read_again_when_it_is_repaired(folder):
    with pytest.raises(InvalidInput, match="ZeroDivisionError"):
        load_object("broken_shed.py:spade")
    (folder / "broken_shed.py").write_text(SOURCE)
    assert load_object("broken_shed.py:spade")[0] == "a spade"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("module:Name", True), ("a/file.py:Name", True), ("package.module:Name.inner", True), ("maze", False),
        (":Name", False), ("gradient:step=0.1", False), (3, False), (None, False),
    ],
)  # fmt: skip
def test_is_reference(text, answer):
    assert is_reference(text) is answer


def test_every_name_is_described_and_nothing_announced_is_imported(folder):
    class Rake:
        """A tool for leaves.

        It has teeth.
        """

    tools = Registry("tool", "geodesic.tools", {"rake": Rake, "hoe": "nowhere:hoe"})
    assert tools.descriptions({"hoe": "stated"}) == {
        "hoe": "stated",
        "rake": "A tool for leaves.",
        "spade": "from shed",
        "box": "from shed",
        "absent": "from shed",
    }
    assert "shed" not in sys.modules


def test_lazy_attributes_are_imported_when_they_are_used(folder):
    find = lazy_attributes("tools", {"spade": "shed", "shed": "shed", "decoder": "json.decoder"})
    assert "shed" not in sys.modules
    assert find("spade") == "a spade"
    assert find("decoder") is sys.modules["json.decoder"]
    with pytest.raises(AttributeError, match="module 'tools' has no attribute 'hoe'"):
        find("hoe")
