"""Tests mirror the source: a test of `src/geodesic/curricula/spdl.py` is in `tests/curricula/test_spdl.py`.

A long one may be split by topic, as `test_currot.py` and `test_currot_support.py`; `test_learners.py` tests
`learners/__init__.py`. The names of all test files differ, since pytest imports them as modules without a package.
"""

import re
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
SOURCE = ROOT / "src" / "geodesic"
FOLDERS = {
    "contract": "what every curriculum, environment, metric and public call has in common",
    "probe": "learners on problems with a known answer",
    "theory": "the paper's claims, which several rooms state together",
}
TOPICS = {  # about several source files, or about other files
    "coupling/test_invariance.py": "plans and pairwise plans",
    "curricula/test_build.py": "curricula/__init__.py; contract/ has a test_curricula.py",
    "curricula/test_originals.py": "baselines against their authors' code",
    "integrations/test_refusals.py": "wrong arguments of all adapters",
    "report/test_names.py": "no environment's name in report/ and runs/",
    "runs/test_chaos.py": "benchmarks/reliability/chaos.py",
    "runs/test_currot_tasks.py": "whole runs of tasks",
    "runs/test_custom_tasks.py": "comparisons of a user's tasks",
    "runs/test_divergence.py": "diverging runs in a batch",
    "runs/test_forged_values.py": "benchmarks/reliability/forged.py",
    "runs/test_hostile_folders.py": "benchmarks/reliability/hostile.py",
    "runs/test_kills.py": "runs that are killed at a write",
    "runs/test_scores.py": "the kinds of score in whole runs",
    "runs/test_untrusted_files.py": "files of others in a run folder",
    "test_docs.py": "docs/",
    "test_docstrings.py": "docstrings of public names",
    "test_doctests.py": "examples in docstrings",
    "test_entry_points.py": "installed packages that announce parts",
    "test_examples.py": "examples/",
    "test_extension_points.py": "a user's own parts in every place that takes them",
    "test_import.py": "what `import geodesic` loads",
    "test_integration_examples.py": "examples/ of integrations",
    "test_layers.py": "imports between rooms",
    "test_layout.py": "this file",
    "test_leaderboard.py": "benchmarks/leaderboard/",
    "test_newcomers.py": "benchmarks/studies/newcomers/",
    "test_rooms.py": "benchmarks/studies/rooms.py",
    "test_readme.py": "README.md",
    "test_words.py": "benchmarks/reliability/words.py",
}
FILES = [path.relative_to(TESTS) for path in sorted(TESTS.rglob("test_*.py"))]


def mirrors(file):
    """Whether a test file is of a source file, of this folder itself or of one inside."""
    folder, tested = SOURCE / file.parent, file.stem.removeprefix("test_")
    stems = [folder.name, *(path.stem for path in folder.glob("*") if path.is_dir() or path.suffix == ".py")]
    return any(tested == stem or tested.startswith(f"{stem}_") for stem in stems)


def test_test_files_mirror_the_source():
    misplaced = [file for file in FILES if file.parts[0] not in FOLDERS and not mirrors(file)]
    assert {str(file) for file in misplaced} == set(TOPICS)


def test_names_of_test_files_differ():
    assert [name for name, times in Counter(file.name for file in FILES).items() if times > 1] == []


def test_test_files_that_are_named_elsewhere_exist():
    places = [ROOT / "Makefile", ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    text = "\n".join(place.read_text() for place in places)
    named = set(re.findall(r"\btest_\w+\.py", text)) - {"test_.py"}
    assert named - {file.name for file in FILES} == set()
