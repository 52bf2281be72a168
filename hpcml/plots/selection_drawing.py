"""Pictures of `selection`: error by number of features (Carvalho & Cohen 2006, figures 1, 2)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hpcml.log import named
from hpcml.plots.figure import drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hpcml.plots.selection import ErrorCurves

# The shares from little to much: pale to dark; the paper's best in a colour of its own. Okabe & Ito's colours for the others.
SHARES = ["#C6DBEF", "#9ECAE1", "#6BAED6", "#3182BD", "#08519C"]
OTHERS = {"ig": ("#D55E00", "--", "s"), "chi2": ("#009E73", "-.", "^")}
MARKERS = "vP*Do"
COMPARED = 2  # shares that are drawn beside the other scores: the largest
ROOM = 1.06


def plot_curves(found: ErrorCurves, path: Path) -> None:
    """Draw a panel of EFS's shares, and EFS beside the others. Local; as `check_picture`."""
    efs = [place for place, (_, share) in enumerate(found.series) if share is not None]
    others = [place for place in range(len(found.series)) if place not in efs]
    panels = [("Extremal selection (EFS): the share P from the top", efs)] if len(efs) > 1 or not others else []
    if others:
        what = "EFS beside scores from counts" if efs else "Scores from counts"
        panels.append((what, efs[-COMPARED:] + others))
    with drawn(path, 7.2 * len(panels), 6.2) as figure:
        subplots = figure.subplots(1, len(panels), squeeze=False)[0]
        for number, (axes, (title, places)) in enumerate(zip(subplots, panels, strict=True)):
            _draw(axes, found, places, efs)
            axes.set_title(f"{number + 1}  {title}" if len(panels) > 1 else title)
        several = f"mean of {len(found.names):,} labels" if len(found.names) > 1 else f"label {found.names[0]}"
        name = named(f"{found.data}, {several}", 70)
        title = f"Feature selection for Modified Balanced Winnow: {name}"
        figure.suptitle(title, fontsize=14, fontweight="bold", parse_math=False)


def _draw(axes: Axes, found: ErrorCurves, places: list[int], efs: list[int]) -> None:
    """Some of the lines, and where they end."""
    error = 100 * found.error.mean(axis=0)
    for place in places:
        style = _style(found, place, efs)
        axes.plot(found.sizes, error[place], markersize=6, linewidth=1.8, clip_on=False, **style)
    with_all, majority = 100 * found.with_all.mean(), 100 * found.majority.mean()
    axes.axhline(with_all, color="0.35", linewidth=1.2, linestyle=":", label=f"all {found.n_features:,} features")
    axes.axhline(majority, color="0.7", linewidth=1.2, linestyle=(0, (6, 3)), label="always the more frequent answer")
    axes.set_xscale("log")
    axes.set_xlabel("features kept")
    axes.set_ylabel(f"test rows misclassified (%), of {found.n_test:,}")
    axes.set_ylim(0, ROOM * max(float(error.max()), with_all, majority, 1e-9))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.legend(loc="best", fontsize=10)


def _style(found: ErrorCurves, place: int, efs: list[int]) -> dict[str, object]:
    """How a line looks, the same in both panels."""
    by, share = found.series[place]
    label = found.title_of(by, share)
    if share is None:
        color, line, marker = OTHERS[by]
        return {"color": color, "linestyle": line, "marker": marker, "label": label}
    number = efs.index(place)
    shade = SHARES[int(np.round((len(SHARES) - 1) * (number / max(1, len(efs) - 1) if len(efs) > 1 else 1)))]
    return {"color": shade, "linestyle": "-", "marker": MARKERS[(number - len(efs)) % len(MARKERS)], "label": label}
