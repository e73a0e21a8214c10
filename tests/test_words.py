"""No page, docstring, comment, message or command uses a word that the house style has replaced."""

import pytest
from benchmarks.reliability import words


def test_no_retired_words():
    found = words.find()
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("class Lesson: pass", ["Lesson"]),
        ("def hear(self): pass", ["hear"]),
        ("def train(task, measure): pass", ["measure"]),
        ("measure = 3", []),  # a local variable
        ("task = Task(env, offers=())", ["offers"]),
        ("class Kernel:\n    width: float = 0.1", ["width"]),
        ("def standing(): pass", ["standing"]),
        ("print(beside)", ["beside"]),
        ("segment = path.segment", []),
        ("POLL_SHARE = 0.2", ["POLL_SHARE"]),
        ("def curriculum_share(): pass", ["curriculum_share"]),
        ("for arm, share in shares: pass", []),
    ],
)
def test_names_in_code(code, found):
    assert [name for _, _, name, _ in words.code("src/geodesic/page.py", code)] == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The run goes on.", ["goes on"]),
        ("It ends. Of these, two remain.", [". Of"]),
        ("Of course it does.", []),
        ("expected a text, got 3", ["a text"]),
        ("expected a string, got 3", []),
        ("`gradient:gate=true`", ["gate="]),
        ("The agent succeeds now and then.", []),
    ],
)
def test_phrases_in_prose(text, found):
    assert [phrase for _, _, phrase, _ in words.prose("docs/page.md", 1, text)] == found


def test_research_notes_may_tell_history():
    assert not list(words.prose("docs/results/notes.md", 1, "The same seeds, trained again."))
    assert list(words.prose("docs/concepts/paper.md", 1, "The same seeds, trained again."))


def test_only_names_are_searched_in_tests_and_benchmarks(tmp_path, monkeypatch):
    monkeypatch.setattr(words, "ROOT", tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_page.py").write_text('"""It goes on."""\n\n\ndef hear():\n    """A text."""\n')
    (tmp_path / "tests" / "notes.md").write_text("It goes on.\n")
    found = [words.findings(tmp_path / "tests" / name) for name in ("test_page.py", "notes.md")]
    assert [[what for _, _, what, _ in each] for each in found] == [["hear"], []]


def test_lines_are_those_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(words, "ROOT", tmp_path)
    (tmp_path / "module.py").write_text('"""One.\n\nIt goes on.\n"""\n\nx = 1  # one\n# told\n# from others\n')
    assert [(line, what) for _, line, what, _ in words.findings(tmp_path / "module.py")] == [
        (3, "goes on"),
        (7, "told from"),
    ]
