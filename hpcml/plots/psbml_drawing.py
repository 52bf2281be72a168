"""Pictures of PSBML: a run (`hpcml plot psbml`), how it finds the margin (`hpcml plot margins`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hpcml.log import named
from hpcml.plots.figure import drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hpcml.plots.margins import Study
    from hpcml.plots.psbml import Portrait

BLUE, VERMILION, GREEN, ORANGE, PURPLE, BLACK = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "black"
GREY = {"s": 6, "color": "0.8", "linewidths": 0, "rasterized": True}
COLOURS = ["#A8DB34", "#44BF70", "#21918C", "#355F8D", "#482475", "#2A0B3D"]  # of numbers, from little to much
ROOM = 1.4  # of the highest bar: for the legend
MOST_COLUMNS = 10  # of a torus whose nodes have their weights written on them
WEIGHT = "selection weight  (1: the hardest row of the grid)"


def plot_psbml(portrait: Portrait, path: Path) -> None:
    """Draw a run: torus, margin data, error and distinct rows. Local; as `check_picture`."""
    with drawn(path, 13, 10.5) as figure:
        (torus, plane), (error, rows) = figure.subplots(2, 2)
        _draw_torus(figure, torus, portrait)
        _draw_margin(figure, plane, portrait)
        _draw_history(error, portrait, "error", 100.0)
        error.set_title("3  Validation error of a classifier of the whole grid")
        error.set_ylabel("validation rows misclassified (%)")
        _draw_history(rows, portrait, "distinct_rows", 1.0)
        rows.set_title("4  Distinct rows left on the grid")
        rows.set_ylabel("distinct rows")
        name = named(f"{portrait.base} on {portrait.data}", 80)
        figure.suptitle(f"PSBML: {name}", fontsize=15, fontweight="bold", parse_math=False)


def _draw_torus(figure: Figure, axes: Axes, portrait: Portrait) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    width, height = portrait.grid
    counts = portrait.node_rows.reshape(height, width)
    aspect = "equal" if max(width, height) <= 2 * min(width, height) else "auto"
    image = axes.imshow(counts, cmap=LinearSegmentedColormap.from_list("numbers", COLOURS), origin="upper", aspect=aspect)
    axes.grid(visible=False)
    if width <= MOST_COLUMNS and height <= MOST_COLUMNS:
        middle = (counts.min() + counts.max()) / 2
        size = 12 if max(width, height) <= 6 else 8
        for node, weight in enumerate(portrait.node_weights):
            y, x = divmod(node, width)
            colour = "white" if counts[y, x] > middle else "black"
            axes.text(x, y, f"{weight:.2f}", ha="center", va="center", color=colour, fontsize=size)
        said = "   (written on it: the mean weight of its margin rows)"
    else:
        said = ""
    for axis, size in ((axes.xaxis, width), (axes.yaxis, height)):
        axis.set_ticks(range(0, size, 1 + (size - 1) // MOST_COLUMNS))
    axes.set_title(f"1  The torus: {width}×{height} nodes, neighbourhood {portrait.neighbourhood}")
    axes.set_xlabel(f"x of the node{said}")
    axes.set_ylabel("y of the node")
    bar = figure.colorbar(image, ax=axes, label="margin rows on the node")
    bar.ax.yaxis.get_major_locator().set_params(integer=True)


def _draw_margin(figure: Figure, axes: Axes, portrait: Portrait) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    axes.set_axisbelow(True)
    axes.scatter(*portrait.points.T, **GREY)
    order = np.argsort(portrait.margin_weights, kind="stable")  # the heaviest on top
    where, weights = portrait.margin[order], portrait.margin_weights[order]
    colours = LinearSegmentedColormap.from_list("numbers", COLOURS)
    size = 14 if weights.size < 3000 else 5
    dots = axes.scatter(*where.T, c=weights, cmap=colours, s=size, vmin=0, vmax=1, linewidths=0, rasterized=True)
    shown = "" if weights.size == portrait.n_margin else f", {weights.size:,} of them drawn"
    axes.set_title(f"2  The margin data: {portrait.n_margin:,} of {portrait.n_rows:,} rows (grey){shown}")
    axes.xaxis.get_major_locator().set_params(nbins=6)
    axes.set_xlabel(portrait.axes[0], parse_math=False)
    axes.set_ylabel(portrait.axes[1], parse_math=False)
    if not portrait.axes[1]:
        axes.set_yticks([])
    figure.colorbar(dots, ax=axes, label=WEIGHT)


def _draw_history(axes: Axes, portrait: Portrait, column: str, factor: float) -> None:
    cycles, values = portrait.history["cycle"], factor * portrait.history[column]
    axes.plot(cycles, values, color=BLUE, marker="o", markersize=3.5, linewidth=1.6)
    if column == "error" and (cycles == 0).any():
        base = values[cycles == 0][0]
        axes.axhline(base, color="0.5", linestyle="--", linewidth=1.2, label="cycle 0, the base learner on all rows")
    best = cycles == portrait.cycle
    axes.plot(
        cycles[best],
        values[best],
        "o",
        color=VERMILION,
        markersize=9,
        clip_on=False,
        zorder=5,
        label=f"the best: cycle {portrait.cycle}, the model",
    )
    axes.axvline(portrait.cycle, color=VERMILION, linewidth=1.2, linestyle=":")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("cycle")
    axes.set_ylim(bottom=0)
    axes.legend(loc="best")


def plot_margins(study: Study, path: Path) -> None:
    """Draw what `margins` found of a made-up set. Local; raises ConfigError or DataError."""
    with drawn(path, 13, 15) as figure:
        panels = figure.subplots(3, 2)
        half, last = study.reported[1:]
        _draw_histograms(panels[0, 0], study, half, "1")
        _draw_histograms(panels[0, 1], study, last, "2")
        top = ROOM * max(axes.dataLim.ymax for axes in panels[0])
        for axes in panels[0]:
            axes.set_ylim(0, top)
        _draw_weights(panels[1, 0], study)
        _draw_bands(panels[1, 1], study)
        _draw_modes(panels[2, 0], study)
        _draw_support(panels[2, 1], study)
        title = f"PSBML and the margin of `{study.name}`, {study.n_rows:,} training rows"
        figure.suptitle(title, fontsize=15, fontweight="bold")


def _draw_histograms(axes: Axes, study: Study, cycle: int, number: str) -> None:
    panel = study.panels[f"cycle {cycle}"]
    width = panel["PSBML"].x[1] - panel["PSBML"].x[0]
    start = panel["cycle 0"]
    edges = np.append(start.x - width / 2, start.x[-1] + width / 2)
    axes.set_axisbelow(True)
    axes.stairs(100 * start.y, edges, color="0.5", linestyle="--", label="cycle 0")
    for series, shift, colour in (("PSBML", -0.2, BLUE), ("mixtures", 0.2, ORANGE)):
        bars = panel[series]
        axes.bar(bars.x + shift * width, 100 * bars.y, 0.4 * width, color=colour, label=study.meanings[series])
    axes.axvline(study.boundary, color=BLACK, linewidth=1.2, linestyle=":", label="the boundary")
    axes.set_title(f"{number}  Where the grid's slots are after {cycle} cycles")
    axes.set_xlabel(study.axis)
    axes.set_ylabel(f"slots (%), mean of {study.n_runs} runs")
    axes.legend(loc="upper right", fontsize=10)


def _draw_weights(axes: Axes, study: Study) -> None:
    for (series, curve), colour in zip(study.panels["mean weight"].items(), (PURPLE, ORANGE, GREEN, BLUE), strict=False):
        axes.plot(curve.x, curve.y, color=colour, marker="o", markersize=3.5, linewidth=1.6, label=series)
    axes.axvline(study.boundary, color=BLACK, linewidth=1.2, linestyle=":")
    axes.set_title("3  Weight of the rows that are still on PSBML's grid")
    axes.set_xlabel(study.axis)
    axes.set_ylabel("mean selection weight")
    axes.set_ylim(0, 1.02)
    axes.legend(loc="best", fontsize=10)


def _draw_bands(axes: Axes, study: Study) -> None:
    for (series, curve), colour in zip(study.panels["bands"].items(), (VERMILION, ORANGE, GREEN, BLUE), strict=False):
        axes.plot(curve.x, 100 * curve.y, color=colour, linewidth=1.8, label=series)
    axes.set_title("4  Slots of PSBML's grid, cycle by cycle")
    axes.set_xlabel("cycle")
    axes.set_ylabel("slots (%)")
    axes.set_ylim(0, 100)
    axes.legend(loc="best", fontsize=10, title="distance from the boundary")


def _draw_plane(axes: Axes, study: Study) -> None:
    axes.set_axisbelow(True)
    axes.scatter(*study.points.T, **GREY)
    axes.plot(*study.line.T, color=BLACK, linewidth=1.2, linestyle=":", label="the boundary")
    axes.set_aspect("equal")
    axes.set_xlim(*study.limits)
    axes.set_ylim(*study.limits)
    axes.set_xlabel("x")
    axes.set_ylabel("y")


def _draw_modes(axes: Axes, study: Study) -> None:
    _draw_plane(axes, study)
    for (series, curve), marker, colour in zip(study.panels["modes"].items(), "^os", (GREEN, ORANGE, VERMILION), strict=True):
        axes.scatter(
            curve.x, curve.y, marker=marker, s=36, color=colour, edgecolors="white", linewidths=0.5, label=series, zorder=3
        )
    axes.set_title("5  Modes of the mixtures, without a grid")
    _legend_below(axes)


def _draw_support(axes: Axes, study: Study) -> None:
    _draw_plane(axes, study)
    hard, vectors = study.panels["overlap"].values()
    axes.scatter(
        vectors.x, vectors.y, s=50, facecolors="none", edgecolors=VERMILION, linewidths=1.0, label="support vectors (least C)"
    )
    axes.scatter(hard.x, hard.y, s=14, color=BLUE, linewidths=0, label="PSBML's hardest 10 % of the rows", zorder=3)
    axes.set_title("6  The hardest rows and the support vectors")
    _legend_below(axes)


def _legend_below(axes: Axes) -> None:
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, fontsize=10)
