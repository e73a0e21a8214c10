"""The public calls, with valid arguments of each."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from benchmarks.fuzz.others import OTHERS
from benchmarks.fuzz.values import (
    Texts,
    array,
    either,
    flag,
    generator,
    maybe,
    number,
    positive,
    seed,
    share,
    spoilt,
    whole,
)
from benchmarks.fuzz.world import FAST, SPOILS
from geodesic.curricula import REGISTRY

Arguments = dict[str, Texts]

ends: Arguments = {"source": either("a", "a_cells"), "target": either("b", "b_cells")}
spaces = either("space", "cells", "line")
episodes = either("heard()", "heard(60, seed=1)", "heard(5)", "heard(40, size=1e148)", "heard(d=3)", "heard(1)")
several = st.lists(episodes, min_size=1, max_size=5).map(lambda each: f"[{', '.join(each)}]")
moments = either("None", "(np.array([1.0, 1.0]), np.eye(2))", "(np.array([1.0, 1.0]), np.zeros((2, 2)))")
metric = either("None", "metrics.Euclidean()", "metrics.Euclidean([2.0, 3.0])", "graph", "matrix")
runs = either("RUNS", "[]", "RUNS * 12")

STAGED: Arguments = {
    "step": st.one_of(share, either("'auto'")),
    "window": whole,
    "max_stage_steps": maybe(whole),
    "stride": share,
    "memory": whole,
    "width": positive,
    "success": share,
    "source": either("a", "'auto'"),
}
OPTIONS: dict[str, Arguments] = {
    "gradient": {**STAGED, "explore_steps": whole, "gate": flag},
    "linear": STAGED,
    "target-only": {"target": either("a", "b")},
    "uniform": {"particles": whole},
    "alp-gmm": {"random_ratio": share, "fit_rate": whole, "max_size": whole, "particles": whole},
    "goal-gan": {"noise": share, "fit_rate": whole, "p_old": share, "neighbours": whole, "particles": whole},
    "spdl": {
        "alpha_offset": either("0", "1", "2"),
        "zeta": positive,
        "kl_threshold": positive,
        "max_kl": positive,
        "steps_per_iteration": whole,
        "std_lower_bound": either("None", "0.1", "[0.1, 0.2]"),
        "particles": whole,
        "source_moments": moments,
        "target_moments": moments,
        "worst_return": number,
    },
    "wb-spdl": {"epsilon": positive, "episodes_per_update": whole, "n_particles": whole, "threshold": number},
    "currot": {"epsilon": positive, "episodes_per_update": whole, "n_particles": whole, "threshold": number},
    "procurl-target": {
        "beta": positive,
        "target_samples": whole,
        "pool": whole,
        "memory": whole,
        "width": positive,
        "episodes_per_update": whole,
    },
}

CALLS: dict[str, Arguments] = {
    **OTHERS,
    "gd.Particles": {"points": array("n", 2), "weights": either("None", "np.array([1.0, 2.0])", "[1, 2, 3]")},
    "gd.Particles.gaussian": {
        "mean": array(2),
        "std_or_cov": either("0.5", "[0.1, 0.2]", "np.array([[1.0, 0.1], [0.1, 1.0]])"),
        "n": whole,
        "rng": generator,
        "low": maybe(either("[-1.0, -1.0]")),
        "high": maybe(either("[4.0, 4.0]")),
    },
    "gd.Particles.uniform": {"low": either("[0.0, 1.0]"), "high": either("[1.0, 1.0]"), "n": whole, "rng": generator},
    "gd.Particles.categorical": {"probs": array(12), "support": either("None", "cells.support", "range(12)")},
    "a.sample": {"rng": generator, "n": whole},
    "b.thinned": {"n": whole, "rng": generator},
    "gd.ContextSpace": {
        "low": either("[0.0, 0.0]", "np.array([0.0, -np.inf])"),
        "high": either("[3.0, 3.0]", "np.array([3.0, np.inf])"),
        "support": maybe(array("n", 2)),
        "names": either("None", "('x', 'y')"),
        "units": either("None", "['m', '']"),
    },
    "gd.ContextSpace.discrete": {"support": array("n", 2), "names": either("None", "('x', 'y')")},
    "gd.ContextSpace.named": {"sides": either("{'x': (0, 1), 'y': (0.5, 2, 'm')}", "{'x': [0, np.inf]}")},
    "space.check": {"points": array("n", 2), "name": either("'contexts'")},
    "space.contains": {"points": array("n", 2)},
    "cells.clip": {"points": array("n", 2)},
    "cells.index": {"points": array("n", 2)},
    "space.to_unit": {"points": array("n", 2)},
    "space.inside": {"points": array("n", 2)},
    "space.uniform": {"n": whole, "rng": generator},
    "cells.draw": {"n": whole, "rng": generator},
    "gd.Episodes": {
        "contexts": array(4, 2),
        "returns": array(4),
        "lengths": either("np.array([3, 1, 2, 4])", "[1, 1, 1, 1]"),
        "stages": either("[0, 0, 1, 2]", "0"),
        "successes": either("None", "[1, 0, 1, 1]", "np.array([1.0, 0.0, 0.5, 1.0])"),
    },
    "gd.Episodes.empty": {"dim": whole},
    "heard().followed_by": {"other": episodes},
    "gd.State": {"distribution": either("a", "b")},
    "gd.Problem": {
        **ends,
        "space": spaces,
        "threshold": number,
        "metric": metric,
        "worst_return": number,
        "source_moments": moments,
        "target_moments": moments,
    },
    "metrics.Euclidean": {"scale": maybe(array(2))},
    "metrics.Euclidean([1.0, 2.0]).pairwise": {"x": array("n", 2), "y": array("n", 2)},
    "graph.pairwise": {"x": array("n", 2), "y": array("n", 2)},
    "matrix.interpolate": {"x": array(4, 2), "y": array(4, 2), "t": share},
    "metrics.Graph": {
        "points": either("np.array([[0.0], [1.0], [3.0]])"),
        "edges": either("np.array([[0, 1], [1, 2]])", "[[0, 1], [1, 2], [0, 2]]"),
        "lengths": either("None", "[1.0, 2.0]"),
    },
    "metrics.Graph.knn": {"points": array(9, 2), "k": either("1", "2", "3")},
    "metrics.Matrix": {
        "M": either("np.array([[0.0, 1.0], [1.0, 0.0]])", "graph.distances"),
        "support": either("None", "cells.support"),
    },
    "metrics.TabularCMDP": {
        "rewards": array(3, 2),
        "transitions": either("np.array([[0, 1], [0, 2], [1, 1]])", "np.full((3, 2, 3), 1 / 3)"),
        "initial": either("np.array([0, 1, 2])", "np.full((2, 3), 1 / 3)"),
        "contexts": maybe(array(3, 2)),
    },
    "metrics.contextual_distance": {
        "cmdp": either("chain"),
        "policy": either("np.array([0, 0, 0, 0, 0])", "np.ones((5, 1))"),
        "gamma": either("0.9", "0", "1", "np.float32(0.5)"),
        "strict": either("0.0", "0.1"),
        "graph": either("None", "np.array(1 - np.eye(5))"),
    },
    "metrics.ReturnLift": {
        "space": spaces,
        "worst_return": either("-10", "0.0"),
        "threshold": positive,
        "lift": positive,
        "neighbours": whole,
        "memory": whole,
    },
    "lift.fit": {"episodes": episodes, "rng": generator, "anchors": maybe(array("n", 2))},
    "metrics.Embedding": {
        "space": spaces,
        "worst_return": number,
        "contexts": whole,
        "epochs": whole,
        "latent": whole,
        "beta": positive,
        "squared": flag,
        "memory": whole,
    },
    "metrics.Embedding(space, 0.0, contexts=8, epochs=1, latent=2).fit": {
        "episodes": episodes,
        "rng": generator,
        "anchors": maybe(array("n", 2)),
    },
    "gd.wasserstein": {
        "a": either("a", "a_cells"),
        "b": either("b", "b_cells"),
        "metric": metric,
        "p": either("1", "2", "3.5"),
    },
    "gd.Geodesic(a, b)": {"t": share},
    "gd.Geodesic": {**ends, "metric": metric},
    "gd.barycenter": {
        "a": either("a_cells"),
        "b": either("b_cells"),
        "t": share,
        "metric": either("graph", "matrix"),
        "method": either("'exact'", "'sinkhorn'"),
        "p": either("2"),
        "reg": either("0.005", "0.1", "1"),
    },
    "coupling.exact_plan": {"cost": array(3, 4), "a": array(3), "b": array(4)},
    "coupling.shortest_hops": {"cost": array(3, 4), "a": array(3), "b": array(4)},
    "coupling.sorted_plan": {"x": array(3), "y": array(4), "a": array(3), "b": array(4)},
    "coupling.partitioned_plan": {"x": array(3, 2), "y": array(4, 2), "a": array(3), "b": array(4)},
    "coupling.assignment": {"rows": array(3, 2), "columns": array(5, 2)},
    "FixedStep": {
        "step": share,
        "threshold": number,
        "window": whole,
        "max_stage_steps": maybe(whole),
        "memory": either("0", "5"),
    },
    "Auto": {
        "threshold": number,
        "unit": array(2),
        "stride": share,
        "window": whole,
        "memory": whole,
        "width": positive,
        "success": share,
    },
    "Search": {
        "method": either("lambda found: gd.Gradient(found, b)"),
        "space": spaces,
        "threshold": number,
        "particles": whole,
        "window": whole,
        "memory": whole,
    },
    "gd.Gradient": {
        **STAGED,
        **ends,
        "threshold": number,
        "metric": metric,
        "gate": flag,
        "explore_steps": whole,
        "space": either("None", "space", "cells"),
    },
    "gd.PPO": {
        "rollout": whole,
        "n_envs": whole,
        "batch_size": either("2", "16"),
        "epochs": whole,
        "learning_rate": positive,
        "gamma": share,
        "gae_lambda": share,
        "clip": share,
        "entropy_coef": number,
        "value_coef": positive,
        "max_grad_norm": positive,
        "net": either("(8, 8)", "[4]", "()"),
        "activation": either("'tanh'", "'relu'"),
        "normalize_observations": flag,
        "shared": flag,
        "bootstrap": flag,
    },
    "gd.SAC": {
        "rollout": whole,
        "n_envs": whole,
        "gradient_steps": whole,
        "batch_size": whole,
        "buffer_size": either("10000"),
        "learning_starts": either("0", "100"),
        "learning_rate": positive,
        "gamma": share,
        "tau": share,
        "net": either("(8, 8)", "[4]"),
        "activation": either("'tanh'", "'relu'"),
        "normalize_observations": flag,
    },
    "learners.make": {"name": either("'ppo'", "'sac'"), "options": either("{'n_envs': 4}", "{'net': [3, 4]}", "{}")},
    "learners.describe": {"learner": either("None", "gd.PPO()", "('sac', {'tau': 0.1})")},
    "gd.Drawing": {
        "axes": either("None", "('x', 'y')"),
        "walls": either("()", "((0.0, 0.0, 1.0, 2.0),)"),
        "goals": either("()", "[(1.0, 2.0)]"),
        "cells": either("None", "np.array([[0, 1], [1, 0]])"),
        "order": either("None", "np.array([1.0, 2.0])"),
        "ordered_by": either("'steps'"),
    },
    "gd.Task": {
        "env": either("Walk()", "'CartPole-v1'", "lambda: gym.make('CartPole-v1')"),
        "contexts": either("{'place': (-8.0, 8.0)}", "gd.ContextSpace([-8.0], [8.0], names=['place'])"),
        "source": either("{'place': (-2.0, 2.0)}", "{'place': 1}", "lambda rng: gd.Particles([[0.0]])", "thin"),
        "target": either("{'place': (6.0, 8.0)}", "gd.Particles([[7.0], [8.0]])"),
        "threshold": number,
        "solved": maybe(number),
        "measure": either("'return'", "'discounted'", "'success'"),
        "discount": either("0.99", "1", "0.5"),
        "worst_return": maybe(number),
        "best_return": either("None", "lambda contexts: np.full(len(contexts), 9.5)"),
        "is_feasible": either("None", "lambda contexts: contexts[:, 0] > 0"),
        "apply": either("put"),
        "observe": flag,
        "metric": either("None", "'l2'"),
        "metrics": either("{}", "{'mine': metrics.Euclidean()}", "{'mine': lambda task, level: metrics.Euclidean()}"),
        "offers": either("()", "('l2',)"),
        "methods": either("{}", "{'gradient': {'step': 0.2}}"),
        "compare": either("('gradient', 'uniform')"),
        "learner": either("None", "gd.PPO()"),
        "steps": whole,
        "segment": maybe(whole),
        "eval_every": maybe(whole),
        "eval_episodes": whole,
        "eval_policy": either("'deterministic'", "'stochastic'"),
        "source_moments": either("None", "(np.zeros(1), np.eye(1))"),
        "target_moments": either("None"),
        "drawing": either("gd.Drawing()", "gd.Drawing(walls=((0.0, 0.0, 1.0, 2.0),))"),
        "name": either("'mine'"),
        "reference": either("None"),
    },
    "walk.infeasible": {"distribution": either("thin")},
    "walk.make_metric": {"name": either("None", "'l2'", "'return-lift'"), "threshold": either("None", "-9.0")},
    "pole.make": {"render_mode": either("None", "'rgb_array'")},
    "gd.check_task": {"task": either("pole")},
    "tasks.load": {
        "reference": either("'maze'", "'maze:layout=x.txt'", "'fetch-push'", "'benchmarks.fuzz.world:walk'", "walk")
    },
    "envs.make": {"name": either("'point-mass'", "'maze'")},
    "methods.parse": {"text": either("'gradient:step=0.1'", "'spdl:zeta=1e5:std_lower_bound=[0.1]'")},
    "methods.resolve": {
        "task": either("walk", "pole"),
        "method": either("'gradient'", "'gradient:metric=l2'", "'spdl'", "'uniform:particles=9'"),
        "metric": either("None", "'l2'", "'embedding'"),
    },
    "configure": {
        "task": either("walk", "'maze'", "pole"),
        "method": either("'gradient'", "'gradient:step=0.3'", "'spdl'", "'currot:epsilon=0.2'"),
        "seed": seed,
        "steps": maybe(whole),
        "metric": either("None", "'l2'"),
        "threshold": maybe(number),
        "learner": either("None", "gd.SAC()", "'ppo:n_envs=4'", "('sac', {'tau': 0.5})"),
        "backend": either("'jax'", "'sb3'", "'sbx'"),
    },
    "gd.sb3.CurriculumCallback": {
        "task": either("walk", "pole", "'maze'"),
        "method": either("'gradient'", "'spdl'", "'alp-gmm:fit_rate=5'"),
        "out": either("None", "SCRATCH / 'new'", "str(SCRATCH / 'trained')"),
        "seed": seed,
        "eval_freq": either("None", "0", "100"),
        "save_every": positive,
        "metric": either("None", "'l2'"),
        "threshold": maybe(number),
    },
    "gd.Result(walk, RUN, {0: RUN}).cvar": {"share": share},
    "gd.Result(walk, RUN, {0: RUN}).policy": {"seed": maybe(either("0")), "stochastic": flag},
    "read_file": {"path": either("FILE", "RUN / 'config.json'", "SCRATCH / 'x.toml'")},
    "plan": {"task": either("walk"), "alphas": either("[0, 0.5, 1]", "(0.3,)"), "metric": either("None", "'l2'")},
    "gd.train": {
        "task": either("walk"),
        "method": either("'gradient'", "'spdl'", "'alp-gmm:fit_rate=5'"),
        "learner": either("None", "gd.PPO(n_envs=2)", "'ppo:n_envs=4'"),
        "steps": maybe(whole),
        "seeds": either("1", "2", "[3, 4]", "range(3)"),
        "out": either("None", "SCRATCH / 'new'", "str(SCRATCH / 'trained')"),
        "metric": either("None", "'l2'"),
        "threshold": either("None", "-30.0"),
        "say": either("print"),
    },
    "taught": {
        "task": either("walk", "pole"),
        "method": either("'gradient:window=3'", "'alp-gmm:fit_rate=5'", "'uniform'"),
        "out": either("None", "tempfile.mkdtemp(dir=SCRATCH)", "SCRATCH / 'file.txt' / 'sub'"),
        "seed": seed,
        "steps": maybe(whole),
        "metric": either("None", "'l2'"),
        "threshold": either("None", "-30.0"),
        "n": either("3"),
        "returns": either("[-1.0, -2.0, -3.0]", "np.array([1, 2, 3])"),
        "lengths": either("[2, 3, 4]", "np.array([5.0, 5.0, 5.0])"),
        "successes": either("None", "[1, 0, 1]"),
        "evaluation": either("[-1.0, -2.0]", "5.0"),
        "agent": either("None", "{'weights': np.zeros(3)}"),
    },
    "wrapped": {
        "env": either("gym.make('CartPole-v1')"),
        "contexts": either("{'length': (0.1, 2.0)}", "gd.ContextSpace([0.1], [2.0], names=['length'])"),
        "apply": either("put", "lambda env, length: None"),
        "observe": flag,
        "seed": maybe(seed),
        "options": either("None", "{}", "{'context': [0.5]}", "{'context': 0.3}"),
    },
    "stepped": {
        "seed": maybe(seed),
        "options": either("None", "{'context': [0.5]}", "{'context': [99.0]}"),
        "action": either("0", "1", "np.int64(1)"),
        "distribution": either("thin", "walk.target_particles"),
        "stage": seed,
    },
    "measures.rolling_mean": {"values": array("n"), "window": whole},
    "measures.time_to_solved": {
        "steps": array(9),
        "scores": array(9),
        "solved": number,
        "window": whole,
        "stays": flag,
    },
    "measures.asymptotic": {"scores": array("n"), "share": share},
    "measures.interquartile_mean": {"values": array("n", 2)},
    "measures.deviation": {"values": array("n")},
    "intervals.median_interval": {"values": array("n")},
    "intervals.iqm_interval": {"values": array(20, 2)},
    "intervals.iqm_of": {"values": array("n")},
    "intervals.probability_of_improvement": {"x": array("n"), "y": array("n")},
    "intervals.probability_interval": {"share": share, "pairs": whole},
    "curves.mean_curve": {"runs": runs, "column": either("'scores'", "'successes'"), "window": whole},
    "curves.iqm_curve": {"runs": runs, "column": either("'scores'"), "window": whole},
    "statistics.summarise": {"runs": runs, "solved": number, "reference": either("'gradient'")},
    "paths.stage_path": {"run": either("RUNS[0]")},
    "partial(theory.check, cmdps=1, states=6)": {"rng": generator},
    "tables.format_table": {"rows": either("ROWS", "[]"), "markdown": flag},
    "tables.infeasible_table": {"runs": runs, "markdown": flag},
    "text.sparklines": {"runs": runs, "width": whole},
    "executors.LocalProcesses": {"workers": maybe(whole)},
    "executors.RayTasks": {"address": either("None", "'auto'"), "cpus": positive, "gpus": share},
    "load_run": {"folder": either("RUN", "str(RUN)", "COMPARISON")},
    "load_comparison": {"folder": either("COMPARISON", "RUN")},
}
# what is not known is NaN there, and says so
UNKNOWN = (
    "gd.Episodes",
    "heard",
    "measures",
    "intervals",
    "curves",
    "statistics",
    "paths",
    "theory",
)
FILES = ("config.json", "episodes.csv", "evaluations.csv", "stages.csv", "curriculum.npz", "summary.json")


def call(name: str, arguments: dict[str, str]) -> str:
    return f"{name}({', '.join(f'{key}={value}' for key, value in arguments.items())})"


@st.composite
def with_faults(draw: st.DrawFn, arguments: Arguments) -> dict[str, str]:
    """Valid arguments, of which one, now and then two or none, is spoilt."""
    chosen = {name: draw(texts) for name, texts in arguments.items()}
    count = draw(st.sampled_from((0, 0, 1, 1, 1, 1, 1, 2)))
    for name in draw(st.lists(st.sampled_from(list(arguments)), min_size=count, max_size=count)):
        chosen[name] = draw(spoilt(arguments[name]))
    return chosen


@st.composite
def of_the_catalogue(draw: st.DrawFn, names: Sequence[str] = tuple(CALLS)) -> str:
    name = draw(st.sampled_from(names))
    arguments = draw(with_faults(CALLS[name]))
    if name == "gd.Geodesic":
        return f"{call(name, arguments)}(0.5)"
    return call(name, arguments)


@st.composite
def curriculum(draw: st.DrawFn) -> str:
    """A method that is built, and hears of episodes; wrong in its options, or in what it hears."""
    method = draw(st.sampled_from(list(REGISTRY)))
    if draw(st.booleans()):
        made = f"STARTED[{method!r}]"
        given: Arguments = {"state": either(f"{made}[1]"), "episodes": episodes, "rng": generator}
        return call(f"{made}[0].update", draw(with_faults(given)))
    some = draw(st.lists(st.sampled_from(list(OPTIONS[method])), min_size=1, max_size=2, unique=True))
    options = draw(with_faults({name: OPTIONS[method][name] for name in some}))
    words = ", ".join(f"{name!r}: {value}" for name, value in options.items())
    given = {"method": either(repr(method)), "given": either("problem"), "options": either(f"{{{words}}}")}
    fixed = {name: draw(texts) for name, texts in given.items()}
    return call("lived", {**fixed, "episodes": draw(several)})


@st.composite
def folder(draw: st.DrawFn) -> str:
    """A run's folder in which something is broken, read."""
    file, how = draw(st.sampled_from(FILES)), draw(st.sampled_from(SPOILS))
    reader = draw(st.sampled_from(("read_all", "read_all", "read_all", "read_all", "drawn")))
    return f"{reader}(spoiled({file!r}, {how!r}, {draw(st.integers(0, 99))}))"


calls: Texts = st.one_of(of_the_catalogue(), of_the_catalogue(), of_the_catalogue(), curriculum(), folder())
__all__ = ["CALLS", "FAST", "UNKNOWN", "calls", "of_the_catalogue"]
