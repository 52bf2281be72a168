"""Figures of the PSBML paper, drawn from the numbers of its exhibits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from launch.lab.core.pictures import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOM = 1.4  # of the highest bar: for the legend
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, "0.4", "black", "0.7")
Series = Mapping[str, tuple[Any, Any]]  # x and y, sequences of one length, by name


def draw_lines(path: Path, panels: Sequence[tuple[Series, dict[str, Any]]]) -> None:
    """Draw panels of lines; each panel has the arguments of matplotlib's `set`."""
    with drawn(path, 6.5 * len(panels), 5) as figure:
        for axes, (series, properties) in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
            for (name, (x, y)), colour in zip(series.items(), COLOURS, strict=False):
                axes.plot(x, y, color=colour, marker="o", markersize=3, linewidth=1.5, label=name)
            axes.set(**properties)
            axes.legend(loc="best", fontsize=10)


def draw_points(path: Path, sets: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Draw a panel for each set: points (n × 2) coloured by class (n)."""
    with drawn(path, 6.5 * len(sets), 6) as figure:
        for axes, (name, (points, classes)) in zip(np.atleast_1d(figure.subplots(1, len(sets))), sets.items(), strict=True):
            for label, colour in enumerate((BLUE, ORANGE)):
                members = points[classes == label]
                what = ("negative", "positive")[label]
                axes.scatter(*members.T, s=4, color=colour, linewidths=0, rasterized=True, label=what)
            axes.set(title=name, xlabel="x", ylabel="y")
            axes.legend(loc="upper right", markerscale=3)


def draw_margin(path: Path, grids: dict[str, Any], modes: dict[str, Any], of: type, points: np.ndarray) -> None:
    """Draw figures 3 and 6. grids, modes: results of `margins.Experiments`; of: the class in `large_margin`; points: n × 2."""
    with drawn(path, 13, 10.5) as figure:
        panels = figure.subplots(2, 2)
        start, *later = grids["histograms"]
        for axes, cycle in zip(panels[0], later, strict=True):
            _draw_histogram(axes, grids, start, cycle, of)
        top = ROOM * max(axes.dataLim.ymax for axes in panels[0])
        for axes in panels[0]:
            axes.set_ylim(0, top)
        for (band, shares), colour in zip(grids["bands"].items(), COLOURS, strict=False):
            panels[1, 0].plot(100 * np.array(shares), color=colour, linewidth=1.8, label=band)
        panels[1, 0].set(title="Slots of PSBML's grid, cycle by cycle", xlabel="cycle", ylabel="slots (%)", ylim=(0, 100))
        panels[1, 0].legend(loc="best", fontsize=10, title="distance from the boundary")
        _draw_modes(panels[1, 1], modes, of, points)


def _draw_histogram(axes: Axes, grids: dict[str, Any], start: str, cycle: str, of: Any) -> None:
    edges = np.array(grids["edges"])
    middles, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    axes.set_axisbelow(True)
    axes.stairs(100 * np.array(grids["histograms"][start]["PSBML"]), edges, color="0.5", linestyle="--", label=start)
    for (series, shares), shift, colour in zip(grids["histograms"][cycle].items(), (-0.2, 0.2), (BLUE, ORANGE), strict=True):
        axes.bar(middles + shift * width, 100 * np.array(shares), 0.4 * width, color=colour, label=series)
    axes.axvline(of.boundary, color="black", linewidth=1.2, linestyle=":", label="the boundary")
    axes.set(title=f"Where the grid's slots are after {cycle}", xlabel=of.axis, ylabel="slots (%), mean of the runs")
    axes.legend(loc="upper right", fontsize=10)


def _draw_modes(axes: Axes, modes: dict[str, Any], of: Any, points: np.ndarray) -> None:
    reach = 1.03 * float(np.abs(points).max())
    axes.set_axisbelow(True)
    axes.scatter(*points.T, **GREY)
    axes.plot(*of.line.T, color="black", linewidth=1.2, linestyle=":", label="the boundary")
    for (series, where), marker, colour in zip(modes["points"].items(), "^os", (GREEN, ORANGE, VERMILION), strict=True):
        axes.scatter(*where, marker=marker, s=36, color=colour, label=series, edgecolors="white", linewidths=0.5, zorder=3)
    limits = (-reach, reach)
    axes.set(aspect="equal", xlim=limits, ylim=limits, xlabel="x", ylabel="y", title="Modes of the mixtures, without a grid")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, fontsize=10)
