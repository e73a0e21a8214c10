"""How runs turned out, in plain sentences: was the target solved, why not, did the curriculum pay off, what is next.

A curriculum counts as better or worse than a baseline only if a 95 % interval of the probability of improvement
excludes one half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from geodesic.analysis.intervals import Estimate
from geodesic.analysis.outcomes import (
    BASELINES,
    SEPARABLE,
    Comparison,
    MethodOutcome,
    SeedOutcome,
    at_source,
    outcomes_of,
    path_problems,
)
from geodesic.errors import count, listed
from geodesic.records.reader import RunResult, by_label
from geodesic.training.monitor import HALFWAY, Kind

SOME = 0.1  # the fraction of infeasible contexts that is worth a word
MANY = 0.25  # the same for contexts without a success
MOST = 0.5  # of them, from which the path or the threshold is to blame
WARNINGS: dict[Kind, str] = {
    "no progress": "no progress for a long time",
    "target solved": "the target was solved while alpha was low",
    "no success": "no success near most contexts while alpha looked fine",
}


@dataclass(frozen=True, repr=False)
class Verdict:
    """How runs turned out; `print` shows the text.

    Args:
        methods: How the runs of each label ended.
        comparisons: Each curriculum compared with each baseline that was trained.
        lines: Sentences about the outcome, the most important one first.
        advice: What to try next, one sentence each.
    """

    methods: tuple[MethodOutcome, ...]
    comparisons: tuple[Comparison, ...]
    lines: tuple[str, ...]
    advice: tuple[str, ...]

    @property
    def text(self) -> str:
        """All sentences, one per line."""
        first, *others = self.lines
        return "\n".join([first, *(f"- {line}" for line in others), *(f"Next: {line}" for line in self.advice)])

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def verdict_of(runs: Sequence[RunResult]) -> Verdict:
    """Judge the runs of a task.

    Args:
        runs: Runs of one or several methods, finished or not.

    Returns:
        The verdict.

    Raises:
        InvalidInput: If there is no run.
    """
    methods, comparisons = outcomes_of(runs)
    words = _Words(runs[0], methods)
    lines = [words.headline(), *words.of_methods(), *words.of_sources(runs)]
    lines += [*(f"{line}." for line in path_problems(runs)), *words.of_warnings()]
    lines += _of_comparisons(comparisons)
    return Verdict(methods, comparisons, tuple(lines), tuple(_advice(methods, comparisons, runs[0].solved)))


class _Words:
    """The sentences about the runs of a task."""

    def __init__(self, first: RunResult, methods: Sequence[MethodOutcome]) -> None:
        self.methods = methods
        self.target, self.steps = f"the target of {first.task}", first.steps
        self.score, self.level = first.score_name, first.solved
        self.single = len(methods) == 1 and len(methods[0].seeds) == 1

    def headline(self) -> str:
        """Whether the target was solved, by which methods."""
        if self.single:
            return self._of_one(self.methods[0].seeds[0])
        done = [each for each in self.methods if each.finished]
        if not done:
            return f"No run has finished, so nothing is known about {self.target}."
        if math.isnan(self.level):
            ends = listed([f"{_scores(each.finished, 'final')} with {each.label}" for each in done])
            return (
                f"No level is stated above which {self.target} counts as solved. The mean {self.score} ends at {ends}."
            )
        level = f"a mean {self.score} above {self.level:g} to the end"
        if not any(each.solved for each in done):
            return f"No seed of {listed([each.label for each in done])} solved {self.target} ({level})."
        if len(self.methods) > 1:
            counts = listed([f"{each.label} in {_tally(each, noun=not k)}" for k, each in enumerate(done)])
            return f"{_sentence(self.target)} ({level}) was solved by {counts}."
        since = f", from step {done[0].time:,.0f} on (median)" if math.isfinite(done[0].time) else ""
        return f"{done[0].label} solved {self.target} in {_tally(done[0])}: {level}{since}."

    def _of_one(self, seed: SeedOutcome) -> str:
        """The same for a single run."""
        end = f"its mean {self.score} there ends at {_number(seed.final)}"
        if seed.cause == "unfinished":
            where = f" and alpha {seed.alpha:.2f}" if seed.follows_path else ""
            return f"{seed.label} has not finished: it is at step {seed.step:,} of {self.steps:,}{where}."
        if seed.cause == "unevaluated":
            return f"{seed.label} was never evaluated on {self.target}, so nothing is known about it."
        if math.isnan(self.level):
            successes = f" (success rate {seed.success:.0%})" if math.isfinite(seed.success) else ""
            return f"No level is stated above which {self.target} counts as solved; {end} with {seed.label}{successes}."
        if seed.cause == "solved":
            since = f"its mean {self.score} there is above {self.level:g} from step {seed.time:,.0f} to the end"
            return f"{seed.label} solved {self.target}: {since}."
        return f"{seed.label} did not solve {self.target}: {end}, not above {self.level:g}."

    def of_methods(self) -> Iterator[str]:
        """Where the seeds of each method that did not solve the target rest, and why."""
        for method in self.methods:
            groups: dict[object, list[SeedOutcome]] = {}
            for seed in method.seeds:
                groups.setdefault(_kind_of(seed), []).append(seed)
            parts = [f"{part}." for part in (self._of_group(method, group) for group in groups.values()) if part]
            if parts and len(self.methods) > 1:
                yield f"{method.label}: {' '.join([parts[0], *map(_sentence, parts[1:])])}"
            elif parts:
                yield " ".join(map(_sentence, parts))

    def _of_group(self, method: MethodOutcome, group: Sequence[SeedOutcome]) -> str:
        """A sentence about seeds of a method that ended for the same reason; empty if the headline says it."""
        first, who = group[0], self._who(method, group)
        at = "" if self.single else f", at a mean {self.score} of {_scores(group, 'final')}"
        if first.cause == "solved" or (self.single and first.cause in ("unfinished", "unevaluated")):
            return ""
        if first.cause == "unfinished":
            return f"{who} {_be(group)} unfinished (step {_range(group, 'step', _steps)} of {self.steps:,})"
        if first.cause == "unevaluated":
            return f"{who} {_be(group, past=True)} never evaluated on the target"
        if first.cause == "lost":
            what = "solved the target at first and lost it again" + at.replace(", at", ", ending at")
        elif first.cause == "moving":
            what = f"ran out of steps while alpha was still rising: it came to {_range(group, 'alpha', _two)}"
        elif first.cause == "resting":
            what = f"{_rest(group)}{self._mastery(group)}"
        elif first.cause == "improving":
            what = f"{_be(group, past=True)} still improving on the target at the end{at}"
        else:
            stayed = "stopped improving" if math.isnan(self.level) else "stayed below the level"
            if self.single and not first.follows_path:
                return ""
            what = f"{_end(group)}{stayed}{at}"
        contexts = _contexts(group)
        return f"{who} {what}{f'; {contexts}' if contexts else ''}"

    def _mastery(self, group: Sequence[SeedOutcome]) -> str:
        """Whether the threshold was met where seeds rest."""
        if not all(math.isfinite(seed.best) and math.isfinite(seed.threshold) for seed in group):
            return ""
        best, threshold = _scores(group, "best"), _scores(group, "threshold")
        if group[0].mastered:
            return f", although the mean {self.score} there came to {best}, above the threshold of {threshold}"
        return f": the mean {self.score} there was never above {best}, and the threshold is {threshold}"

    def of_sources(self, runs: Sequence[RunResult]) -> Iterator[str]:
        """Labels with seeds that never left their source, unless `of_methods` has named them."""
        for method in self.methods:
            if not any(seed.cause == "resting" and seed.alpha == 0.0 for seed in method.seeds):
                yield from (f"{line}." for line in at_source(by_label(runs)[method.label]))

    def of_warnings(self) -> Iterator[str]:
        """What was warned of during training, unless the reason says it."""
        for kind, what in WARNINGS.items():
            found = {
                method: [(seed, notice.step) for seed in method.seeds for notice in seed.notices if notice.kind == kind]
                for method in self.methods
            }
            found = {
                method: [(seed, step) for seed, step in each if not _says(seed, kind)] for method, each in found.items()
            }
            steps = [step for each in found.values() for _, step in each]
            if steps:
                names = [
                    method.label + _unless_all(method, [seed for seed, _ in each])
                    for method, each in found.items()
                    if each
                ]
                who = "" if self.single else f"{listed(names)}, "
                yield f"Warned while training: {what} ({who}at step {_spread(steps, _steps)})."

    def _who(self, method: MethodOutcome, group: Sequence[SeedOutcome]) -> str:
        """Some seeds of a method."""
        if self.single:
            return "it"
        if len(group) == len(method.seeds) > 1:
            return "both seeds" if len(group) == 2 else f"all {len(group)} seeds"
        return _seeds(group)


def _seeds(group: Sequence[SeedOutcome]) -> str:
    return f"seed{'s' * (len(group) != 1)} {listed([str(seed.seed) for seed in group])}"


def _kind_of(seed: SeedOutcome) -> object:
    """What seeds must have in common to be named in one sentence."""
    rest = (seed.searching, seed.alpha == 0.0, seed.mastered) if seed.cause == "resting" else ()
    return seed.cause, rest, seed.failing >= MANY


def _rest(group: Sequence[SeedOutcome]) -> str:
    if group[0].searching:
        return "never found a source to start from"
    if group[0].alpha == 0.0:
        return "never left the source (alpha 0)"
    alphas, stages = _range(group, "alpha", _two), _range(group, "stage", _steps)
    return f"came to rest at alpha {alphas} (stage {stages}, step {_range(group, 'since', _steps)})"


def _end(group: Sequence[SeedOutcome]) -> str:
    """How seeds reached the end of the path, if there is one."""
    if not group[0].follows_path:
        return ""
    capped = sum(seed.capped for seed in group)
    cap = f" ({count(capped, 'stage')} ended at the step cap, not mastered)" if capped else ""
    return f"reached the end of the path at step {_range(group, 'since', _steps)}{cap} and "


def _contexts(group: Sequence[SeedOutcome]) -> str:
    """What is known of contexts on a path that never succeed or cannot be solved."""
    parts = []
    if group[0].follows_path and group[0].failing >= MANY:
        fractions = _range(group, "failing", "{:.0%}".format)
        parts.append(f"no success was seen near {fractions} of the contexts trained on last")
    if any(seed.infeasible >= SOME for seed in group):
        fractions = _range(group, "infeasible", "{:.0%}".format)
        parts.append(f"{fractions} of the contexts of the last stage are infeasible")
    return " and ".join(parts)


def _says(seed: SeedOutcome, kind: Kind) -> bool:
    """Whether the sentence about a seed says what a warning said."""
    if kind == "no progress":
        return seed.cause == "resting"
    return kind == "no success" and seed.failing >= MANY and seed.cause not in ("solved", "unfinished", "unevaluated")


def _of_comparisons(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Whether curricula paid off compared with the baselines."""
    few = [each for each in comparisons if each.seeds < SEPARABLE]
    if few:
        labels, baselines = (list(dict.fromkeys(getattr(each, name) for each in few)) for name in ("label", "baseline"))
        seeds = count(max(each.seeds for each in few), "seed")
        yield (
            f"Whether {listed(labels)} paid off compared with {listed(baselines)} cannot be said from {seeds}: "
            f"at least {SEPARABLE} are needed."
        )
    same: dict[str, list[Comparison]] = {}
    for each in comparisons:
        if each.seeds < SEPARABLE:
            continue
        if each.better and each.worse:
            yield f"{each.label} is better than {each.baseline} in one way and worse in another: {_chances(each)}."
        elif each.better:
            yield f"{each.label} paid off compared with {each.baseline}: {_chances(each)}."
        elif each.worse:
            yield f"{each.label} did not pay off compared with {each.baseline}: {_chances(each)}."
        else:
            same.setdefault(each.baseline, []).append(each)
    for baseline, group in same.items():
        numbers = f": {_chances(group[0])}" if len(group) == 1 else ""
        yield f"{listed([each.label for each in group])} and {baseline} do not differ significantly{numbers}."


def _chances(each: Comparison) -> str:
    chances = {"solves the target earlier": each.earlier, "ends higher": each.higher}
    known = [f"{_chance(chance)} that it {what}" for what, chance in chances.items() if math.isfinite(chance.value)]
    return f"the probability is {listed(known)}" if known else "some of their scores are not known"


def _advice(methods: Sequence[MethodOutcome], comparisons: Sequence[Comparison], level: float) -> Iterator[str]:
    """What to try next, each thing once, with the methods that it is for."""
    found: dict[str, list[SeedOutcome]] = {}
    alone = len(methods) == 1
    for method in methods:
        for seed in method.seeds:
            for text in _advice_for(seed, method.method in BASELINES, alone, level):
                found.setdefault(text, []).append(seed)
    for text, seeds in sorted(found.items(), key=lambda item: -len(item[1])):
        groups = [(method, [seed for seed in seeds if seed.label == method.label]) for method in methods]
        names = [method.label + _unless_all(method, group) for method, group in groups if group]
        yield f"{text}." if alone else f"{text} ({listed(names)})."
    if math.isnan(level):
        yield "state solved= in the task, so that it is known when the target counts as solved."
    target_only = next((each for each in methods if each.method == BASELINES[0]), None)
    curricula = [each for each in methods if each.method not in BASELINES]
    if target_only is None and any(each.finished for each in curricula):
        yield "train target-only as well: without it, nothing shows whether the curriculum pays off."
    elif target_only is not None and 0 < target_only.solved == len(target_only.finished):
        compared = [each for each in comparisons if each.baseline == target_only.label]
        if compared and not any(each.better for each in compared):
            solved = f"{target_only.label} solves it in {_tally(target_only)}"
            yield f"train on the target alone: {solved}, and no curriculum is shown to be better."


def _unless_all(method: MethodOutcome, group: Sequence[SeedOutcome]) -> str:
    """The seeds after a label, unless they are all of its seeds."""
    return "" if len(group) == len(method.seeds) else f" {_seeds(group)}"


def _advice_for(seed: SeedOutcome, is_baseline: bool, alone: bool, level: float) -> list[str]:
    """What the end of a run suggests."""
    failing, stated = seed.failing >= MOST and seed.follows_path, seed.follows_path and seed.stated
    if seed.cause in ("solved", "unevaluated"):
        return []
    if seed.cause == "unfinished":
        return ["resume the runs that are not finished"]
    if seed.cause == "lost":
        return ["take the best policy, which is kept (export it, or policy(which='best')), or lower the learning rate"]
    found = []
    if seed.infeasible >= SOME:
        found.append("use another metric: the path leads through infeasible contexts")
    if seed.cause == "resting":
        if failing and seed.alpha > 0.0:
            found.append("use another metric, or a source nearer to the target: the path leads where nothing succeeds")
        if seed.alpha == 0.0 and not seed.searching:
            found.append('start from an easier source (source="auto" searches for one)')
        if stated and not seed.mastered:
            found.append('lower the threshold, or set threshold="auto"')
        return found or ["train longer, or use another pace"]
    if failing and stated and seed.alpha >= HALFWAY:
        found.append('raise the threshold, or state score="success": stages are mastered without success')
    elif seed.cause == "below" and stated and seed.threshold < level:
        found.append(
            f"raise the threshold: stages are mastered above {_number(seed.threshold)}, the target above {level:g}"
        )
    if seed.cause in ("moving", "improving"):
        more = "; the same call with more steps continues the run" if alone else ""
        found.append(f"train longer: there was progress at the end{more}")
    if seed.cause == "below" and not is_baseline and not found:
        over = ": the curriculum is over" if seed.follows_path else ", or use the default method auto"
        found.append(f"train longer or change the learner's settings{over}")
    if seed.cause == "below" and is_baseline and alone:
        found.append("train with a curriculum, such as the default method auto")
    return found


def _tally(method: MethodOutcome, noun: bool = True) -> str:
    """How many of the finished seeds solved the target."""
    left = len(method.seeds) - len(method.finished)
    counted = f"{method.solved} of {count(len(method.finished), 'seed') if noun else len(method.finished)}"
    return counted + (f" ({left} more not finished)" if left else "")


def _be(group: Sequence[SeedOutcome], past: bool = False) -> str:
    return ("was" if past else "is") if len(group) == 1 else "were" if past else "are"


def _scores(group: Sequence[SeedOutcome], name: str) -> str:
    return _range(group, name, _number)


def _range(group: Sequence[SeedOutcome], name: str, show: Callable[[float], str]) -> str:
    return _spread([getattr(seed, name) for seed in group], show)


def _spread(values: Sequence[float], show: Callable[[float], str]) -> str:
    """One value, or the lowest and the highest of several."""
    return " to ".join(dict.fromkeys(map(show, (min(values), max(values)))))


def _steps(value: float) -> str:
    return f"{value:,.0f}"


def _two(value: float) -> str:
    return f"{value:.2f}"


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def _chance(chance: Estimate) -> str:
    return f"{chance.value:.2f} [{chance.low:.2f}, {chance.high:.2f}]"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
