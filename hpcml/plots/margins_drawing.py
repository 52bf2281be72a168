"""The findings of `margins` on a made-up set, and the picture of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcml.plots.figure import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOM = 1.4  # of the highest bar: for the legend
BELOW: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncols": 2, "fontsize": 10}  # a legend


class DrawnCurve(NamedTuple):
    """Points of a picture."""

    x: np.ndarray
    y: np.ndarray


@dataclass
class Study:
    """The findings on one set: panels of curves for the picture, and numbers."""

    name: str
    axis: str
    boundary: float
    reported: tuple[int, int, int]  # cycles
    n_rows: int  # that are trained on
    points: np.ndarray  # them, n × 2
    line: np.ndarray  # the boundary, k × 2
    s: float
    n_runs: int  # of each grid
    panels: dict[str, dict[str, DrawnCurve]] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)

    @property
    def limits(self) -> tuple[float, float]:
        """Of both axes of the plane."""
        reach = 1.03 * float(np.abs(self.points).max())
        return -reach, reach

    @property
    def meanings(self) -> dict[str, str]:
        """The names of the two grids in the legend."""
        return {"PSBML": "PSBML, large margin", "mixtures": f"Gaussian weights, s = {self.s:.2f}"}

    def __str__(self) -> str:
        width = max(map(len, self.numbers))
        return "\n".join(f"{what:<{width}}  {value:9.4f}" for what, value in self.numbers.items())


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
    axes.axvline(study.boundary, color="black", linewidth=1.2, linestyle=":", label="the boundary")
    title = f"{number}  Where the grid's slots are after {cycle} cycles"
    axes.set(title=title, xlabel=study.axis, ylabel=f"slots (%), mean of {study.n_runs} runs")
    axes.legend(loc="upper right", fontsize=10)


def _draw_weights(axes: Axes, study: Study) -> None:
    for (series, curve), colour in zip(study.panels["mean weight"].items(), (PURPLE, ORANGE, GREEN, BLUE), strict=False):
        axes.plot(curve.x, curve.y, color=colour, marker="o", markersize=3.5, linewidth=1.6, label=series)
    axes.axvline(study.boundary, color="black", linewidth=1.2, linestyle=":")
    title = "3  Weight of the rows that are still on PSBML's grid"
    axes.set(title=title, xlabel=study.axis, ylabel="mean selection weight", ylim=(0, 1.02))
    axes.legend(loc="best", fontsize=10)


def _draw_bands(axes: Axes, study: Study) -> None:
    for (series, curve), colour in zip(study.panels["bands"].items(), (VERMILION, ORANGE, GREEN, BLUE), strict=False):
        axes.plot(curve.x, 100 * curve.y, color=colour, linewidth=1.8, label=series)
    axes.set(title="4  Slots of PSBML's grid, cycle by cycle", xlabel="cycle", ylabel="slots (%)", ylim=(0, 100))
    axes.legend(loc="best", fontsize=10, title="distance from the boundary")


def _draw_plane(axes: Axes, study: Study, title: str) -> None:
    """The rows and the boundary, below what a panel is about."""
    axes.set_axisbelow(True)
    axes.scatter(*study.points.T, **GREY)
    axes.plot(*study.line.T, color="black", linewidth=1.2, linestyle=":", label="the boundary")
    axes.set(aspect="equal", xlim=study.limits, ylim=study.limits, xlabel="x", ylabel="y", title=title)


def _draw_modes(axes: Axes, study: Study) -> None:
    _draw_plane(axes, study, "5  Modes of the mixtures, without a grid")
    for (series, curve), marker, colour in zip(study.panels["modes"].items(), "^os", (GREEN, ORANGE, VERMILION), strict=True):
        style = {"edgecolors": "white", "linewidths": 0.5, "zorder": 3}
        axes.scatter(*curve, marker=marker, s=36, color=colour, label=series, **style)
    axes.legend(**BELOW)


def _draw_support(axes: Axes, study: Study) -> None:
    _draw_plane(axes, study, "6  The hardest rows and the support vectors")
    hard, vectors = study.panels["overlap"].values()
    axes.scatter(*vectors, s=50, facecolors="none", edgecolors=VERMILION, linewidths=1.0, label="support vectors (least C)")
    axes.scatter(*hard, s=14, color=BLUE, linewidths=0, label="PSBML's hardest 10 % of the rows", zorder=3)
    axes.legend(**BELOW)
