"""Find words that the house style replaces: retired names in code, retired phrases in prose.

    python -m benchmarks.reliability.words            # every file, and the output of the command line
    python -m benchmarks.reliability.words src docs   # these files and folders only

Names are searched in Python code, that of tests and benchmarks included; phrases in Markdown pages, docstrings,
comments, messages and the command line's help. Prints a line for each finding; exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "examples", "src", "tests", "benchmarks")
NAMES_ONLY = ("tests", "benchmarks")  # no user reads their prose, and some of them quote retired phrases

# Retired wherever they occur as a name.
NAMES = {
    "Lesson": "CurriculumSession",
    "Report": "EpisodeBatch",
    "Heard": "EpisodeCollector",
    "Ear": "EpisodeCollector",
    "Examiner": "Evaluator",
    "Waiting": "ReorderBuffer",
    "Outstanding": "PendingContexts",
    "Slot": "EnvRunner",
    "Tally": "TrainingStats",
    "take_up": "resume",
    "begun": "exists",
    "seat": "slot",
    "beside": "batch_members",
    "learn_measured": "update",
    "Ways": "Trajectories",
    "rungs": "knots",
    "leg": "segment",
    "Onward": "RemainingPath",
    "worn": "stale",
    "Gate": "PerParticlePace",
    "Auto": "AdaptivePace",
    "Recipe": "LearnedMetric",
    "offers": "available_metrics",
    "drawing": "plot",
    "say": "progress",
    "ledger": "job_queue",
    "seal": "checksum",
    "as_a": "check_instance",
    "as_whole": "check_integers",
    "told": "format_error",
    "first_line": "format_error",
    "tracks": "distances, paths",
    "mortal": "killable",
    "versus": "compare",
}
# Retired as the name of a parameter, a field, a function, a class or a module; local variables may have them.
FIELDS = {
    "lost": "diverged",
    "measures": "metrics",
    "measure": "score",
    "come": "progress",
    "width": "bandwidth",
    "apply": "set_context",
    "put": "set_context",
}
# Retired as the name of a function, a class or a module.
FUNCTIONS = {
    "look": "select_actions",
    "move": "step_envs",
    "hear": "update",
    "take": "observe",
    "learn": "update",
    "standing": "status",
    "tail": "cvar",
    "earlier": "legacy",
    "around": "obstacles",
    "worlds": "theory",
    "expected": "validate_checkpoint",
    "shown": "short_repr",
    "why": "format_error",
}
# Retired as the last word of such a name, or of a constant: POLL_SHARE.
LAST_WORDS = {"share": "fraction", "shares": "fractions"}
# Options and arguments in running text and in commands.
OPTIONS = {
    r"gate=": "pace=particles",
    r"step=auto": "pace=adaptive",
    r"(?<![\w_])measure=": "score=",
    r"(?<![\w_])apply=": "set_context=",
    r"(?<![\w_])observe=": "observe_context=",
    r"(?<![\w_])offers=": "available_metrics=",
    r"(?<![\w_])drawing=": "plot=",
    r"(?<![\w_])say=": "progress=",
    r"(?<![\w_])put\(env": "set_context(env",
}
PHRASES = {
    r"\b(go|goes|going|gone|went) on\b": "resume, continue",
    r"\btold from\b": "do not differ significantly",
    r"\basks for\b": "needs, requires",
    r"\banew\b": "again",
    r"\bof its own\b": "its own",
    r"\bnobody\b": "no one, or name what is missing",
    r"\bhears?\b": "receives",
    r"\bstands\b": "is",
    r"(?:^|[.!?] |[.!?]\n)Of (?!course)": "do not begin a sentence with Of",
    r"\bnow\b(?! and then)": "no history outside the research notes",
    r"\bbefore its repair\b": "no history outside the research notes",
    r"\btrained again\b": "no history outside the research notes",
    r"\ba text\b": "a string",
    r"\btruth values?\b": "a boolean",
    r"\bletters\b": "characters",
    r"\bwhole numbers?\b": "integers",
    r"\bkeeps? the contract\b": "is valid",
    r"\bversion and leave\b": "and exit",
    r"\brecipes?\b": "learned metric",
    r"\brungs?\b": "knots",
    r"\bseats?\b": "slot",
    r"\bledger\b": "job queue",
    r"\bsays everything\b": "describes",
    r"\b(taken|takes? it) as it is\b": "reloads",
    r"\bthe command that goes\b": "the resume command",
    r"\bstrangers?\b": "untrusted",
    r"\blooked at before\b": "validated before",
    r"\bthe beginning of names\b": "prefix",
    r"\bby halves\b": "bisection",
    r"\bof one's own\b": "your own",
}
NOTES = (
    "docs/results/notes.md",
    "docs/results/tables.md",
    "docs/results/paces.md",
)  # research notes, which may tell history
HISTORY = "no history outside the research notes"

# Ordinary English or other libraries' names: (word, place, why).
EXCEPTIONS = (
    ("apply", "src/geodesic/metrics/embedding.py", "as Flax's apply"),
    ("move", "src/geodesic/envs", "of an agent in a maze"),
    ("take", "src/geodesic/metrics/bisimulation.py", "as numpy.take"),
    ("shares", "src/geodesic/curricula/hedged.py", "what each arm gets of the steps, as in ordinary English"),
    ("width", "src/geodesic/report", "of a figure or a terminal"),
    ("width", "tests/report", "of a terminal"),
    ("width", "tests/envs/test_point_mass.py", "of the gate, which is a context value"),
    ("width", "src/geodesic/curricula/gan.py", "of a network's layer"),
    ("width", "src/geodesic/training/agents.py", "of a row of numbers"),
)

Finding = tuple[str, int, str, str]  # file, line, what, what instead


def names_in(tree: ast.AST) -> Iterator[tuple[int, str, dict[str, str]]]:
    """Every name in a module: its line, and the names that are retired in its role besides `NAMES`."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield line, node.name, {**FIELDS, **FUNCTIONS}
        elif isinstance(node, ast.arg):
            yield line, node.arg, FIELDS
        elif isinstance(node, ast.keyword) and node.arg:
            yield line, node.arg, {}
        elif isinstance(node, ast.Name):
            yield line, node.id, {}
        elif isinstance(node, ast.Attribute):
            yield line, node.attr, {}
        if isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    yield field.lineno, field.target.id, FIELDS


def code(path: str, text: str) -> Iterator[Finding]:
    """Retired names in Python code."""
    retired = {**NAMES, **FIELDS, **FUNCTIONS}
    if Path(path).stem in retired:
        yield path, 1, f"module {Path(path).stem}", retired[Path(path).stem]
    for line, name, others in names_in(ast.parse(text)):
        last = name.lower().rpartition("_")[2]
        instead = NAMES.get(name) or others.get(name) or (LAST_WORDS.get(last) if others or name.isupper() else None)
        if instead and not any(word in (name, last) and path.startswith(place) for word, place, _ in EXCEPTIONS):
            yield path, line, name, instead


def prose(path: str, line: int, text: str) -> Iterator[Finding]:
    """Retired phrases in a passage that begins on this line."""
    for pattern, instead in {**PHRASES, **OPTIONS}.items():
        if instead == HISTORY and path.endswith((*NOTES, ".html", ".js")):  # "now" is a name on the page
            continue
        opens = pattern.startswith("(?:^")  # the capital matters
        pattern = pattern if opens else pattern.replace(" ", r"\s+")
        for found in re.finditer(pattern, text, re.MULTILINE if opens else re.IGNORECASE):
            yield path, line + text.count("\n", 0, found.start()), " ".join(found[0].split()), instead


def passages(text: str) -> Iterator[tuple[int, str]]:
    """The comments and strings of Python code, with their lines; comments on successive lines are one passage."""
    block: list[str] = []
    begin = last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if block and token.start[0] != last + 1:
                yield begin, "\n".join(block)
                block = []
            begin, last = (begin if block else token.start[0]), token.start[0]
            block.append(token.string.lstrip("# "))
        elif token.type in (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)) and token.string:
            quoted = token.string.lstrip("rRbBuU")
            if quoted[0] in "fF":
                quoted = re.sub(r"\{[^{}]*\}", "...", quoted[1:])
            yield token.start[0], quoted.strip("\"'")
    if block:
        yield begin, "\n".join(block)


def findings(file: Path) -> Iterator[Finding]:
    """What one file has."""
    path, text = str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
        for kind, source in cells:
            yield from prose(path, 1, source)
            yield from code(path, source) if kind == "code" else ()
    elif file.suffix == ".py":
        yield from code(path, text)
        for line, passage in () if path.startswith(NAMES_ONLY) else passages(text):
            yield from prose(path, line, passage)
    elif not path.startswith(NAMES_ONLY):
        yield from prose(path, 1, text)
        for block in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            first = text.count("\n", 0, block.start(1))
            yield from ((path, first + line, name, instead) for path, line, name, instead in code(path, block[1]))


def files(places: Iterable[str]) -> Iterator[Path]:
    """The files to look at."""
    for place in places:
        path = ROOT / place
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (each for each in inside if each.suffix in (".md", ".py", ".ipynb", ".toml", ".html", ".js"))


def command_line() -> Iterator[Finding]:
    """What `geodesic --help`, every command's help and `geodesic list` print."""
    from geodesic.cli import main, parser

    commands = next(action.choices for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    for name, text in {"--help": parser().format_help(), **{k: v.format_help() for k, v in commands.items()}}.items():
        yield from prose(f"geodesic {name}", 1, " ".join(text.split()))
    with contextlib.redirect_stdout(io.StringIO()) as listed:
        main(["list"])
    yield from prose("geodesic list", 1, listed.getvalue())


def find(places: Iterable[str] = PLACES) -> list[str]:
    """A line for every finding."""
    found = sorted({each for file in files(places) for each in findings(file)} | set(command_line()))
    return [f"{path}:{line}: {what!r} (rather: {instead})" for path, line, what, instead in found]


if __name__ == "__main__":
    lines = find(sys.argv[1:] or PLACES)
    print("\n".join(lines) or "no retired words")
    sys.exit(1 if lines else 0)
