"""Valid arguments by the name of the parameter, and by its type for the names that say nothing else."""

from __future__ import annotations

from benchmarks.reliability.fuzz.values import (
    Texts,
    array,
    count,
    either,
    flag,
    fraction,
    generator,
    maybe,
    number,
    positive,
    seed,
)

points, spaces = array("n", 2), either("space", "cells", "line")
batches = either("batch()", "batch(60, seed=1)", "batch(5)", "batch(40, size=1e148)", "batch(d=3)", "batch(1)")
methods = either(
    "'auto'", "'gradient'", "'gradient:step=0.3'", "'spdl'", "'alp-gmm:fit_rate=5'", "'gradient:pace=particles'"
)
moments = either("None", "(np.array([1.0, 1.0]), np.eye(2))", "(np.array([1.0, 1.0]), np.zeros((2, 2)))")
ranges = either(
    "None",
    "{'x': (1, 2), 'kind': ['a', 'b'], 'n': (0, 3)}",
    "{'x': 1.0, 'kind': 'c', 'n': 2}",
    "{'x': 1, 'kind': {'a'}, 'n': [1, 4]}",
)
named = either("{'x': 1.0, 'kind': 'b', 'n': 3}", "{'x': 4, 'kind': 'a', 'n': np.int64(0)}")
metric = either("None", "metrics.Euclidean()", "metrics.Euclidean([2.0, 3.0])", "graph", "matrix")
threshold = number | either("'auto'")
metric_name = either("None", "'l2'", "'return-lift'")
masses = {"a": array(3), "b": array(4)}
pairs = {"x": array(4, 2), "y": array(4, 2), "distances": array(4, 4), "mass": array(4, 4)}


def names(text: str, examples: Texts) -> dict[str, Texts]:
    """The same examples for several parameters."""
    return dict.fromkeys(text.split(), examples)


TYPES: dict[str, Texts] = {
    **dict.fromkeys(("int", "Count", "Natural", "Size", "networks.Envs"), count),
    **dict.fromkeys(("int | None", "Count | None"), maybe(count)),
    **dict.fromkeys(("float", "Number"), number),
    **dict.fromkeys(("float | None", "Number | None"), maybe(number)),
    **dict.fromkeys(("Fraction", "Step"), fraction),
    **dict.fromkeys(("NonNegative", "Positive"), positive),
    **dict.fromkeys(("bool", "Boolean"), flag),
    **dict.fromkeys(("str", "String"), either("'word'")),
    "Score": either("'return'", "'success'"),
    **dict.fromkeys(("Threshold", "Annotated[Threshold, as_threshold]"), threshold),
    "Threshold | None": maybe(threshold),
    "Shares": either("(0.5, 0.3, 0.2)", "[1, 2, 3]", "np.array([0.0, 1.0, 0.0])"),
    "EpisodeBatch": batches,
    **dict.fromkeys(("ContextSpace", "BoundedSpace"), spaces),
    "ContextSpace | None": maybe(spaces),
}
NAMES: dict[str, Texts] = {
    **names("alpha clip fraction gae_lambda gamma gpus noise p_old random_ratio step stride success t tau", fraction),
    **names("bandwidth beta cpus epsilon kl_threshold learning_rate lift max_grad_norm max_kl reg", positive),
    **names("save_every value_coef zeta", positive),
    **names("stage seed", seed),
    **names("rng", generator),
    **names("points x y", points),
    **names("anchors", maybe(points)),
    **names("M", either("np.array([[0.0, 1.0], [1.0, 0.0]])", "graph.distances")),
    **names("a source", either("a", "a_cells")),
    **names("b target", either("b", "b_cells")),
    **names("distribution", either("thin", "walk.target_particles")),
    **names("episodes other", batches),
    **names("context", either("{'x': 1.0, 'y': 2.0}", "[1.0, 2.0]")),
    **names("ranges", maybe(either("{'x': (1, 2), 'y': 0.5}"))),
    **names("particles", either("a", "thin")),
    **names("distances", either("None", "{}")),
    **names("contexts", either("{'place': (-8.0, 8.0)}", "gd.ContextSpace([-8.0], [8.0], names=['place'])")),
    **names("source_moments target_moments", moments),
    **names("metric", metric),
    **names("method", methods),
    **names("metrics", either("{}", "{'mine': metrics.Euclidean()}", "{'mine': lambda task, level: graph}")),
    **names("task", either("walk", "pole", "'maze'")),
    **names("learner", either("None", "gd.PPO(n_envs=2)", "'ppo:n_envs=4'", "('sac', {'tau': 0.5})")),
    **names("backend", either("'jax'", "'sb3'", "'sbx'")),
    **names("out", either("None", "SCRATCH / 'new'", "tempfile.mkdtemp(dir=SCRATCH)", "str(SCRATCH / 'trained')")),
    **names("which", either("'best'", "'last'")),
    **names("folder path", either("RUN", "str(RUN)", "COMPARISON")),
    **names("folders", either("{('auto', 0): RUN}")),
    **names("runs", either("RUNS", "[]", "RUNS * 12")),
    **names("values scores", array("n")),
    **names("evaluation", either("gd.EvaluationSettings()", "gd.EvaluationSettings(episodes=3)")),
    **names("training", either("gd.TrainingSettings()", "gd.TrainingSettings(gd.PPO(), 100)")),
    **names("problem", either("problem", "discrete")),
    **names("set_context", either("set_length", "lambda env, **context: None")),
    **names("render_mode", either("None", "'rgb_array'")),
    **names("name", either("'mine'", "'maze'", "'ppo'", "'l2'", "'gradient'")),
    **names("names", either("None", "('x', 'y')")),
    **names("units", either("None", "['m', '']")),
    **names("support", maybe(either("cells.support"))),
    **names("low", either("[0.0, 0.0]", "np.array([0.0, -np.inf])")),
    **names("high", either("[3.0, 3.0]", "np.array([3.0, np.inf])")),
    **names("weights", either("None", "np.array([1.0, 2.0])", "[1, 2, 3]")),
    **names("mean", array(2)),
    **names("std_or_cov", either("0.5", "[0.1, 0.2]", "np.array([[1.0, 0.1], [0.1, 1.0]])")),
    **names("std_lower_bound", either("None", "0.1", "[0.1, 0.2]")),
    **names("probs", array(12)),
    **names("sides", either("{'x': (0, 1), 'y': (0.5, 2, 'm')}", "{'x': [0, np.inf]}")),
    **names("p", either("1", "2", "3.5")),
    **names("pace", either("'fixed'", "'adaptive'", "'particles'", "gd.FixedStep(0.2)", "gd.PerParticlePace()")),
    **names("bound", either("'new-old'", "'old-new'")),
    **names("loss", either("'positive'", "'l1'")),
    **names("form", either("'original'", "'small'")),
    **names("start", either("'range'", "'point'")),
    **names("barycenter", either("'plan'", "'sinkhorn'")),
    **names("edges", either("np.array([[0, 1], [1, 2]])", "[[0, 1], [1, 2], [0, 2]]")),
    **names("lengths", either("None", "[1.0, 2.0]")),
    **names("scale", maybe(array(2))),
    **names("strict", either("0.0", "0.1")),
    **names("cmdp", either("chain")),
    **names("graph", either("None", "np.array(1 - np.eye(5))")),
    **names("policy", either("'deterministic'", "'stochastic'")),
    **names("options", either("{'n_envs': 4}", "{'net': [3, 4]}", "{}")),
    **names("alphas", either("[0, 0.5, 1]", "(0.3,)")),
    **names("maker", either("metrics.Euclidean()", "metrics.Euclidean", "'l2'", "lambda task, level: graph")),
    **names("cls", either("gd.PPO")),
    **names(
        "reference", either("'maze'", "'maze:layout=x.txt'", "'fetch-push'", f"'{__package__}.world:walk'", "walk")
    ),
    **names("text", either("'gradient:step=0.1'", "'spdl:zeta=1e5:std_lower_bound=[0.1]'")),
    **names("seeds", either("1", "2", "[3, 4]", "range(3)")),
    **names("progress", either("None", "False")),
    **names("kind", either("'return'", "'discounted_return'", "'success'")),
}
# where a name means something else: for callables that begin with the first of these texts that fits
EXCEPTIONS: dict[str, dict[str, Texts]] = {
    "gd.EpisodeBatch": {
        "contexts": array(4, 2),
        **names("returns discounted", array(4)),
        "lengths": either("np.array([3, 1, 2, 4])", "[1, 1, 1, 1]"),
        **names("stages started ended", either("[0, 0, 1, 2]", "0")),
        "successes": either("None", "[1, 0, 1, 1]", "np.array([1.0, 0.0, 0.5, 1.0])"),
        **names("value_l1 positive_value_loss", either("None", "[0.5, 0.0, 1.0, 2.0]")),
    },
    "batch().value_losses": {"kind": either("'positive'", "'l1'")},
    "batch().with_value_errors": {"sums": either("np.ones((30, 2))", "[[1.0, 0.5]] * 30")},
    "batch().with_stages": {"stages": either("np.zeros(30, np.int64)", "[0] * 30", "range(30)")},
    "space.bounded_around": {"points": array("n", 2)},
    "gd.State": {"kind": either("'train'", "'explore'")},
    "gd.ContextSpace.of": {
        "contexts": either(
            "{'x': (0, 1), 'y': (0.5, 2, 'm')}",
            "{'x': [0, np.inf]}",
            "{'x': (0, 1), 'kind': ['a', 'b'], 'n': range(4)}",
            "gym.spaces.Discrete(3)",
            "gym.spaces.Dict(x=gym.spaces.Box(0.0, 1.0, (2,)), n=gym.spaces.Discrete(4))",
        )
    },
    "gd.ContextSpace": {"support": maybe(points), "values": either("None", "[None, range(4)]", "[['a', 'b'], None]")},
    "blend.round": {"points": array("n", 5)},
    "blend.": {
        "points": array("n", 3),
        "ranges": ranges,
        "context": named,
        "contexts": either("{'x': 1.0, 'kind': 'b', 'n': 3}", "[1.0, 1, 3]"),
        "particles": either("blend.uniform(9, rng())"),
    },
    "product.": {"x": array(4, 3), "y": array(4, 3), **{name: pairs[name] for name in ("distances", "mass")}},
    "metrics.Product": {"space": either("blend"), "distances": either("None", "{'x': 2.0}", "{'kind': 1 - np.eye(3)}")},
    "gd.Particles.uniform": {"low": either("[0.0, 1.0]"), "high": either("[1.0, 1.0]")},
    "gd.Particles.gaussian": {"low": maybe(either("[-1.0, -1.0]")), "high": maybe(either("[4.0, 4.0]"))},
    "gd.Particles.categorical": {"support": either("None", "cells.support", "range(12)")},
    "embedding.embed": {"contexts": array(4, 2), "distances": array(4, 4), "returns": either("None")},
    "gd.Task": {
        "env": either("Walk()", "'CartPole-v1'", "lambda: gym.make('CartPole-v1')"),
        "source": either(
            "None", "{'place': (-2.0, 2.0)}", "{'place': 1}", "lambda rng: gd.Particles([[0.0]])", "'auto'"
        ),
        "target": either("{'place': (6.0, 8.0)}", "gd.Particles([[7.0], [8.0]])"),
        "discount": either("0.99", "1", "0.5"),
        "best_return": either("None", "lambda contexts: np.full(len(contexts), 9.5)"),
        "is_feasible": either("None", "lambda contexts: contexts[:, 0] > 0"),
        "metric": either("None", "'l2'", "metrics.Euclidean()"),
        "available_metrics": either("()", "('l2',)"),
        **names("source_moments target_moments", either("None", "(np.zeros(1), np.eye(1))")),
        "plot": either("gd.Plot()", "gd.Plot(walls=((0.0, 0.0, 1.0, 2.0),))"),
        "reference": either("None"),
    },
    "gd.TrainingSettings": {
        "methods": either("{}", "{'gradient': {'step': 0.2}}"),
        "compare": either("('gradient', 'uniform')"),
    },
    "gd.compare": {
        "methods": either("['auto', 'uniform']", "'gradient:step=0.1|0.2'", "{'mine': 'uniform'}"),
        "workers": either("0"),
    },
    "gd.EvaluationSettings": {"distribution": either("None", "thin", "{'place': (6.0, 8.0)}")},
    "gd.Plot": {
        "axes": either("None", "('x', 'y')"),
        "walls": either("()", "((0.0, 0.0, 1.0, 2.0),)"),
        "goals": either("()", "[(1.0, 2.0)]"),
        "cells": either("None", "np.array([[0, 1], [1, 0]])"),
        "order": either("None", "np.array([1.0, 2.0])"),
    },
    **{
        f"gd.{name}": {
            "batch_size": either("2", "16"),
            "buffer_size": either("10000"),
            "learning_starts": either("0", "100"),
            "net": either("(8, 8)", "[4]", "()"),
            "activation": either("'tanh'", "'relu'"),
        }
        for name in ("PPO", "SAC")
    },
    "gd.barycenter": {
        "a": either("a_cells"),
        "b": either("b_cells"),
        "metric": either("graph", "matrix"),
        "method": either("'exact'", "'sinkhorn'"),
        "p": either("2"),
    },
    "gd.train": {"task": either("walk"), "metric": metric_name, "threshold": either("None", "-30.0", "'auto'")},
    "gd.check_task": {"task": either("pole")},
    "gd.Result(walk, RUN, {('auto', 0): RUN}).export": {"out": either("SCRATCH / 'p.npz'", "SCRATCH / 'p.zip'")},
    "gd.Teacher": {"metric": metric_name, "threshold": either("None", "-30.0", "'auto'")},
    "gd.Result(": {"seed": maybe(either("0"))},
    "gd.sb3": {"metric": metric_name, "eval_freq": either("None", "0", "100"), "save_every": positive},
    "gd.rllib": {"config": either("ppo_config()"), "metric": metric_name},
    "gd.ContextWrapper": {"env": either("gym.make('CartPole-v1')"), "contexts": either("{'length': (0.1, 2.0)}")},
    "envs.from_gymnax": {
        "env": either("'CartPole-v1'", "'MountainCar-v0'"),
        "params": either("None"),
        "contexts": either("{'gravity': (5.0, 20.0)}", "gd.ContextSpace.of({'gravity': (1.0, 2.0)})"),
        "set_context": either("None", "lambda params, gravity: params.replace(gravity=gravity)"),
    },
    "envs.from_brax": {
        "env": either("'inverted_pendulum'"),
        "contexts": either("{'gravity': (5.0, 20.0)}", "gd.ContextSpace.of({'gravity': (5.0, 20.0)})"),
        "set_context": either("lambda sys, gravity: sys.replace(gravity=-gravity * jnp.array([0.0, 0.0, 1.0]))"),
    },
    "envs.make": {"name": either("'point-mass'", "'maze'"), "autoreset_mode": either("'NextStep'", "'SameStep'")},
    "metrics.Embedding": {"contexts": count},
    "metrics.ReturnLift": {"worst_return": either("-10", "0.0"), "threshold": positive},
    "metrics.TabularCMDP": {
        "rewards": array(3, 2),
        "transitions": either("np.array([[0, 1], [0, 2], [1, 1]])", "np.full((3, 2, 3), 1 / 3)"),
        "initial": either("np.array([0, 1, 2])", "np.full((2, 3), 1 / 3)"),
        "contexts": maybe(array(3, 2)),
    },
    "metrics.Graph.knn": {"points": array(9, 2), "k": either("1", "2", "3")},
    "metrics.Graph": {"points": either("np.array([[0.0], [1.0], [3.0]])")},
    "metrics.contextual_distance": {"policy": either("np.array([0, 0, 0, 0, 0])", "np.ones((5, 1))")},
    "curricula.options_of": {"name": either("'gradient'", "'spdl'")},
    "curricula.register": {"method": either("gd.Gradient", "lambda problem: gd.Gradient(problem.source, b)")},
    "curricula.AutoThreshold": {
        "method": either("gd.Gradient(a, b)", "curricula.Linear(a, b)", "curricula.build('auto', problem)"),
        **names("easy target", either("a", "b")),
        "space": either("space"),
    },
    "curricula.HedgedGradient": {"source": either("a", "'auto'"), "target": either("a", "b"), "space": either("space")},
    "curricula.Search": {"method": either("lambda found: gd.Gradient(found, b)")},
    **dict.fromkeys(("graph.", "matrix.", "metrics.Euclidean(["), pairs),
    "walk.": {"metric": metric_name, "threshold": either("None", "-9.0"), "name": either("'l2'", "'return-lift'")},
    "plan": {"task": either("walk"), "metric": metric_name},
    "read_file": {"path": either("FILE", "RUN / 'config.json'", "SCRATCH / 'x.toml'")},
    "configure": {"metric": metric_name},
    "methods.resolve": {"task": either("walk", "pole"), "metric": either("None", "'l2'", "'embedding'")},
    "plans.sorted_plan": {"x": array(3), "y": array(4), **masses},
    "plans.": {"cost": array(3, 4), "rows": array(3, 2), "columns": array(5, 2), **masses},
    "multiscale.": {"x": array(3, 2), "y": array(4, 2), **masses},
    "statistics.time_to_solved": names("steps scores", array(9)),
    "intervals.iqm_interval": {"values": array(20, 2)},
    "intervals.interquartile_mean": {"values": points},
    "intervals.": {"x": array("n"), "y": array("n")},
    "curves.": {"column": either("'scores'", "'successes'")},
    "paths.": {"run": either("RUNS[0]")},
    "tables.": {"rows": either("ROWS", "[]")},
    "executors.": {"address": either("None", "'auto'")},
    "lived": {"source": either("a", "'auto'"), "target": either("a", "b")},
    "taught": {
        "n": either("3"),
        "returns": either("[-1.0, -2.0, -3.0]", "np.array([1, 2, 3])"),
        "lengths": either("[2, 3, 4]", "np.array([5.0, 5.0, 5.0])"),
        "successes": either("None", "[1, 0, 1]"),
        "discounted": either("None", "[-0.5, -0.6, 1.0]"),
        "agent": either("None", "{'weights': np.zeros(3)}"),
        "task": either("walk", "pole"),
        "metric": metric_name,
        "threshold": either("None", "-30.0", "'auto'"),
    },
    "wrapped": {
        "env": either("gym.make('CartPole-v1')"),
        "contexts": either("{'length': (0.1, 2.0)}", "gd.ContextSpace([0.1], [2.0], names=['length'])"),
        "observe_context": flag,
        "seed": maybe(seed),
        "options": either("None", "{}", "{'context': [0.5]}", "{'context': 0.3}"),
    },
    "stepped": {
        "seed": maybe(seed),
        "options": either("None", "{'context': [0.5]}", "{'context': [99.0]}"),
        "action": either("0", "1", "np.int64(1)"),
    },
}
