"""Arguments as Python source: strategies for valid ones, and what a user may pass instead by mistake."""

from __future__ import annotations

from hypothesis import strategies as st

from benchmarks.reliability.fuzz.world import CHANGES

Texts = st.SearchStrategy[str]

NUMBERS = (
    "-1", "0", "1", "2", "3", "0.0", "-0.5", "0.3", "1.5", "1e3", "1e12", "1e149", "1e308", "-1e308", "5e-324",
    "1e-200", "2**31", "10**12", "10**400", "10**5000", "np.nan", "np.inf", "-np.inf", "np.float32(0.5)",
    "np.int8(2)", "np.uint8(200)", "np.float16('inf')", "np.longdouble(2)", "np.array(3)", "np.array([2.0])", "1j",
    "True", "np.True_", "Fraction(1, 2)", "'1'", "'nan'", "None",
)  # fmt: skip
OBJECTS = (
    "None", "False", "''", "'word'", "'x' * 300", "'\\0'", "b'bytes'", "object()", "Broken()", "[]", "()", "{}",
    "set()", "[None]", "['a', 'b']", "[[1.0], [1.0, 2.0]]", "[[[1.0]]]", "{'x': 1}", "{'x': (0, 1)}", "{1: 2}",
    "range(3)", "iter([1.0])", "lambda *args, **kwargs: None", "print", "int", "gd.Particles", "metrics.Euclidean",
    "np", "a", "b", "thin", "space", "line", "cells", "endless", "graph", "lift", "problem", "walk", "FILE",
    "SCRATCH", "rng()", "chain", "batch()", "batch(d=3)", "gd.EpisodeBatch.empty(2)", "np.zeros((0, 2))",
    "np.zeros((3, 0))", "np.zeros(())", "np.zeros((2, 2, 2))", "np.ones((3, 2), bool)", "np.array(['a'])",
    "np.array([None])", "np.array('2020', 'M8[Y]')", "np.ma.masked", "np.array([1e308, 1e308])",
    "np.full((3, 2), np.nan)", "float", "NotImplemented", "...", "Exception()",
)  # fmt: skip
WORDS = ("''", "'nonsense'", "'gradint'", "'x=1'", "':'", "'a:b=c'", "'gradient:step=2'", "'gradient:step='", "'ä'")

count: Texts = st.integers(1, 40).map(repr)
positive: Texts = st.floats(0.01, 9.0).map(repr)
fraction: Texts = st.floats(0.0, 1.0).map(repr)
number: Texts = st.floats(-9.0, 9.0).map(repr)
seed: Texts = st.integers(0, 9).map(repr)
flag: Texts = st.sampled_from(("True", "False"))
generator: Texts = seed.map("rng({})".format)


def either(*texts: str) -> Texts:
    """One of these."""
    return st.sampled_from(texts)


def array(*shape: int | str) -> Texts:
    """An array of numbers in [0, 3]; the size "n" is any."""
    sizes = st.tuples(*(st.integers(1, 9) if size == "n" else st.just(size) for size in shape))
    return st.tuples(seed, sizes).map(lambda drawn: f"rng({drawn[0]}).uniform(0, 3, {drawn[1]!r})")


def maybe(texts: Texts) -> Texts:
    """None, or one of these."""
    return st.none().map(repr) | texts


@st.composite
def mutated(draw: st.DrawFn, texts: Texts) -> str:
    """A wrong argument in place of a valid one: of another kind, or the same with a fault."""
    kind = draw(st.integers(0, 5))
    if kind < 2:
        return draw(st.sampled_from((*NUMBERS, *OBJECTS)))
    if kind == 2:
        return draw(st.sampled_from(NUMBERS))
    if kind == 3:
        return draw(st.sampled_from(WORDS))
    text = draw(texts)
    if "uniform(" in text or text.startswith(("np.array", "[")):
        return f"changed({text}, {draw(st.sampled_from(CHANGES))!r})"
    return f"[{text}]" if kind == 4 else f"({text}, {text})"
