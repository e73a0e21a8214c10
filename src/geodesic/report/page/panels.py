"""Charts of distributions over contexts, empty: the page puts a stage into their data set `frame`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import altair as alt
import numpy as np

from geodesic.contexts import FloatArray, IntArray

Places = Sequence[Sequence[float]]

STAR = (
    "M0,-1L0.235,-0.324L0.951,-0.309L0.38,0.124L0.588,0.809L0,0.4L-0.588,0.809L-0.38,0.124L-0.951,-0.309L-0.235,-0.324Z"
)
FEW = alt.Axis(tickCount=4, grid=False)
NAMES = 8  # of a discrete space's points that fit below a panel


def cells(grid: IntArray, goals: Places) -> alt.LayerChart:
    """A grid (rows, columns), 1 for walls, with cells shaded by their share."""
    rows, columns = grid.shape
    x = alt.X("column:O", axis=None, scale=alt.Scale(domain=list(range(columns)), padding=0))
    y = alt.Y("row:O", axis=None, scale=alt.Scale(domain=list(range(rows)), padding=0))

    def at(places: Iterable[Sequence[float]]) -> alt.Chart:
        found = [{"row": int(row), "column": int(column)} for row, column in places]
        return alt.Chart(alt.InlineData(values=found)).encode(x=x, y=y)

    shade = alt.Color("share:Q", scale=alt.Scale(type="sqrt", domain=[0, 1], range=["@heat0", "@heat1"]), legend=None)
    tips = ["row:Q", "column:Q", alt.Tooltip("share:Q", format=".1%", title="probability")]
    return alt.layer(
        at(np.argwhere(grid == 0)).mark_rect(color="@heat0", stroke="@faint", strokeWidth=0.3),
        _frame().mark_rect(stroke="@faint", strokeWidth=0.3).encode(x=x, y=y, color=shade, tooltip=tips),
        at(np.argwhere(grid == 1)).mark_rect(color="@wall"),
        _stars(at(goals)),
    )


def bars(
    ends: tuple[float, float], width: float, target: FloatArray | None, title: str, names: Sequence[str] | None
) -> alt.LayerChart:
    """Shares over one context value; the target as an outline. names: of the points of a discrete space."""
    tips = [alt.Tooltip("x:Q", title=title, format=".4g"), alt.Tooltip("share:Q", format=".1%", title="share of mass")]
    axis = FEW if names is None else _named(names)
    x = alt.X("x:Q", title=title, scale=alt.Scale(domain=list(ends), nice=False), axis=axis)
    y = alt.Y("share:Q", title="share of mass", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=4))
    end = {"x2": f"datum.x + {width!r}", "floor": "0"}
    sides = {"x": x, "x2": "x2:Q", "y": y, "y2": "floor:Q"}
    mass = _frame().transform_calculate(**end).mark_rect(color="@method", opacity=0.75)
    layers = [mass.encode(**sides, tooltip=tips)]
    if target is not None:
        rows = [{"x": float(a), "share": float(b)} for a, b in target]
        outline = alt.Chart(alt.InlineData(values=rows)).transform_calculate(**end)
        layers.append(outline.mark_rect(filled=False, stroke="@ink", strokeWidth=1).encode(**sides))
    return alt.layer(*layers)


def _named(names: Sequence[str]) -> alt.Axis:
    """Points 0, 1, ... by their names, as many as fit."""
    every = -(-len(names) // NAMES)
    listed = "[" + ", ".join(map(repr, names)) + "]"
    return alt.Axis(
        values=[k + 0.5 for k in range(0, len(names), every)],
        labelExpr=f"{listed}[floor(datum.value)]",
        grid=False,
    )


def plane(
    limits: Sequence[Sequence[float]], titles: Sequence[str], walls: Places, goals: Places, target: Places
) -> alt.LayerChart:
    """Points in a plane over walls (x0, y0, x1, y1), the target's points (crosses) and goals (stars)."""
    x, y = (
        kind(f"{name}:Q", title=title, scale=alt.Scale(domain=list(limit), nice=False), axis=FEW)
        for kind, name, title, limit in zip((alt.X, alt.Y), "xy", titles, limits)
    )

    def at(places: Places, names: Sequence[str] = "xy") -> alt.Chart:
        found = [dict(zip(names, map(float, place))) for place in places]
        return alt.Chart(alt.InlineData(values=found)).encode(x=x, y=y)

    boxes = at(walls, ("x", "y", "x2", "y2")).mark_rect(color="@wall", opacity=0.45, clip=True)
    crosses = at(target).mark_point(shape="cross", size=26, strokeWidth=0.8, color="@ink", opacity=0.45, clip=True)
    return alt.layer(boxes.encode(x2="x2", y2="y2"), crosses, *_dots(x, y, titles), _stars(at(goals)))


def _dots(x: alt.X, y: alt.Y, titles: Sequence[str]) -> list[alt.Chart]:
    """Contexts in the method's colour, or, where atoms move on their own, in that of their progress."""
    size = alt.Size("share:Q", scale=alt.Scale(domain=[0, 0.1], range=[8, 140], clamp=True), legend=None)
    tips = [alt.Tooltip(f"{name}:Q", title=title, format=".4g") for name, title in zip("xy", titles)]
    tips.append(alt.Tooltip("share:Q", format=".1%", title="share of mass"))
    dots = _frame().mark_circle(opacity=0.65, clip=True).encode(x=x, y=y, size=size)
    progress = alt.Color("progress:Q", scale=alt.Scale(domain=[0, 1], scheme="viridis"), legend=None)
    own = alt.Tooltip("progress:Q", format=".2f", title="own progress")
    return [
        dots.transform_filter("datum.progress < 0").encode(color=alt.value("@method"), tooltip=tips),
        dots.transform_filter("datum.progress >= 0").encode(color=progress, tooltip=[*tips, own]),
    ]


def _stars(places: alt.Chart) -> alt.Chart:
    return places.mark_point(
        shape=STAR, size=80, filled=True, color="@goal", stroke="@wall", strokeWidth=0.6, opacity=1
    )


def _frame() -> alt.Chart:
    """What the page fills, moment by moment."""
    return alt.Chart(alt.InlineData(values=[], name="frame"))
