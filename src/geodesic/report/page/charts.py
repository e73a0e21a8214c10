"""The page's charts, as Altair makes them. Colours are names after an @, which the page replaces by its theme's."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

Spec = dict[str, Any]

STEPS = alt.Axis(format="~s", tickCount=6)
SHOWN = "indexof(hidden, datum.label) < 0"
SEED_SHOWN = "indexof(hiddenSeeds, toString(datum.seed)) < 0"
FEW_SEEDS = 4  # that get room for what is written on their bars
IN_FOCUS = "focus === '' || focus === datum.label"


def plain(chart: alt.TopLevelMixin) -> Spec:
    """A chart as JSON has it."""
    spec: Spec = chart.to_dict()
    return spec


def table(rows: Sequence[Sequence[Any]], columns: dict[str, str]) -> alt.InlineData:
    """Rows as CSV, a third of what they are as objects; columns: name -> number or string."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_short(value) for value in row] for row in rows])
    return alt.InlineData(values=text.getvalue(), format=alt.DataFormat(type="csv", parse=dict(columns)))


def _short(value: Any) -> Any:
    return f"{value:.5g}" if isinstance(value, float) and abs(value) < 1e5 else value


def learning(
    curves: Sequence[Sequence[Any]],
    seeds: Sequence[Sequence[Any]],
    labels: Sequence[str],
    dashes: Sequence[Sequence[float]],
    view: str,
    solved: float,
) -> alt.LayerChart:
    """Curves with bands; what is seen of them, and what the axis says, is up to the page.

    curves: (label, view, step, middle, low, high, raw); seeds: (label, seed, column, step, raw, smooth); view: the
    first to be shown, a statistic and a column.
    """
    data = table(
        curves,
        {"label": "string", "view": "string", **dict.fromkeys(("step", "middle", "low", "high", "raw"), "number")},
    )
    lines = table(
        seeds,
        {"label": "string", "seed": "string", "kind": "string", **dict.fromkeys(("step", "raw", "smooth"), "number")},
    )
    colour = alt.Color(
        "label:N", scale=alt.Scale(domain=list(labels), range=[f"@c{k}" for k in range(len(labels))]), legend=None
    )
    dash = alt.StrokeDash("label:N", scale=alt.Scale(domain=list(labels), range=list(map(list, dashes))), legend=None)
    faint = alt.condition(IN_FOCUS, alt.value(1.0), alt.value(0.15))
    x = alt.X("step:Q", title="environment steps", axis=STEPS)
    y = alt.Y("middle:Q", title="@axis", scale=alt.Scale(zero=False))
    base = alt.Chart(data).transform_filter(f"{SHOWN} && datum.view === view")
    band = base.transform_filter("bands === 'all' || (bands === 'one' && focus === datum.label)")
    own = alt.Chart(lines).transform_filter(f"each && {SHOWN} && {SEED_SHOWN} && datum.kind === split(view, ' ')[1]")
    layers = [
        band.mark_area(opacity=0.15).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour),
        own.mark_line(strokeWidth=0.8, opacity=0.45).encode(
            x=x, y=alt.Y("smooth:Q"), color=colour, detail="seed:N", tooltip=["label:N", "seed:N", "step:Q", "smooth:Q"]
        ),
        own.transform_filter("points").mark_circle(size=10, opacity=0.35).encode(x=x, y=alt.Y("raw:Q"), color=colour),
        base.mark_line(strokeWidth=2.4).encode(x=x, y=y, color=colour, strokeDash=dash, opacity=faint),
        base.transform_filter("points").mark_circle(size=18).encode(x=x, y=alt.Y("raw:Q"), color=colour, opacity=faint),
        base.mark_circle(size=90, opacity=0.001).encode(
            x=x,
            y=y,
            tooltip=[
                alt.Tooltip("label:N", title="method"),
                alt.Tooltip("step:Q", format=",d"),
                alt.Tooltip("middle:Q", title="smoothed", format=".4g"),
                alt.Tooltip("low:Q", format=".4g"),
                alt.Tooltip("high:Q", format=".4g"),
                alt.Tooltip("raw:Q", title="before smoothing", format=".4g"),
            ],
        ),
    ]
    if np.isfinite(solved):
        level = alt.Chart(alt.InlineData(values=[{"y": solved, "text": f"solved above {solved:g}"}]))
        level = level.transform_filter("split(view, ' ')[1] === 'scores'")
        layers.append(level.mark_rule(strokeDash=[3, 3], color="@ink").encode(y="y:Q"))
        layers.append(
            level.mark_text(align="left", baseline="bottom", dy=-2, color="@ink").encode(
                x=alt.value(4), y="y:Q", text="text:N"
            )
        )
    chart = alt.layer(*layers).properties(width="container", height=380)
    params = {
        "hidden": [],
        "hiddenSeeds": [],
        "focus": "",
        "view": view,
        "bands": "all",
        "each": False,
        "points": False,
    }
    return chart.add_params(*(alt.param(name=name, value=value) for name, value in params.items()))


def timeline(stages: Sequence[Sequence[Any]], reasons: Sequence[str]) -> alt.LayerChart:
    """The stages of a method's seeds: (seed, stage, start, end, alpha, why it ended)."""
    numbers = dict.fromkeys(("stage", "start", "end", "alpha"), "number")
    data = table(stages, {"seed": "string", **numbers, "ended": "string"})
    colour = alt.Color(
        "ended:N",
        scale=alt.Scale(domain=list(reasons), range=[f"@r{k}" for k in range(len(reasons))]),
        legend=None,
    )
    base = alt.Chart(data).transform_filter(SEED_SHOWN)
    tips = [
        "seed:N",
        "stage:Q",
        alt.Tooltip("start:Q", format=",d"),
        alt.Tooltip("end:Q", format=",d"),
        "alpha:Q",
        "ended:N",
    ]
    x = alt.X("start:Q", title="environment steps", axis=STEPS)
    y = alt.Y("seed:N", title="seed", sort=None)
    bar = base.mark_bar(stroke="@page", strokeWidth=0.8).encode(x=x, x2="end:Q", y=y, color=colour, tooltip=tips)
    last = max((float(row[3]) for row in stages), default=1.0)
    text = (
        base.transform_filter(f"datum.end - datum.start > {0.05 * last:g}")
        .transform_calculate(middle="(datum.start + datum.end) / 2", words="'α ' + format(datum.alpha, '.2~f')")
        .mark_text(fontSize=9, color="@onbar", limit=60)
        .encode(x="middle:Q", y=y, text="words:N")
    )
    hidden = alt.param(name="hiddenSeeds", value=[])
    seeds = len({row[0] for row in stages})
    height = (20 if seeds <= FEW_SEEDS else 13) * seeds
    return alt.layer(bar, text).properties(width="container", height=height).add_params(hidden)


def episodes(rows: Sequence[Sequence[Any]], threshold: float, title: str) -> alt.LayerChart:
    """Training episodes of one run: (step, score, smooth)."""
    data = table(rows, dict.fromkeys(("step", "score", "smooth"), "number"))
    x = alt.X("step:Q", title="environment steps", axis=STEPS)
    y = alt.Y("score:Q", title=title, scale=alt.Scale(zero=False))
    layers = [
        alt.Chart(data).mark_circle(size=8, color="@faint").encode(x=x, y=y),
        alt.Chart(data).mark_line(strokeWidth=2, color="@c0").encode(x=x, y="smooth:Q"),
    ]
    if np.isfinite(threshold):
        level = alt.Chart(alt.InlineData(values=[{"y": threshold, "text": f"mastered above {threshold:g}"}]))
        layers.append(level.mark_rule(strokeDash=[3, 3], color="@ink").encode(y="y:Q"))
        text = level.mark_text(align="left", baseline="bottom", dy=-2, color="@ink")
        layers.append(text.encode(x=alt.value(4), y="y:Q", text="text:N"))
    return alt.layer(*layers).properties(width="container", height=220)
