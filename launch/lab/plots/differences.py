"""How much better each method ranks than the one before it: `hpcml cv --protocol top --picture`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcml import mpi
from hpcml.crossval.command import cv, judging
from hpcml.crossval.methods import divide_names, divide_path
from hpcml.crossval.top_table import LEVEL, TopLine, TopPrecision
from hpcml.errors import ConfigError
from hpcml.files.atomic import check_new
from hpcml.log import Log, joined, named
from hpcml.plots.figure import BLUE, VERMILION, check_picture, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LABELS = 24  # a panel for each
COLUMNS = 3  # of panels
SPREAD = 0.36  # of a method's row, to either side, that equal differences take
SAME = 0.25  # points closer than this, in per cent, are stacked
BETTER, WORSE, NEITHER = BLUE, VERMILION, "0.55"  # what the test cannot tell apart is grey


def cv_with_picture(
    comm: mpi.Comm, names: Sequence[str], output: Path | None, picture: Path, force: bool, log: Log, protocol: str, **options: Any
) -> str:
    """Collective over `comm`. `crossval.command.cv`, and a picture of its differences; in words.

    Raises ConfigError or DataError for what the user can mend, before the work if possible.
    """
    judging(protocol, picture=picture, **options)
    with mpi.agreed(comm, "looking where the picture goes"):
        if comm.rank == 0:
            _check(names, output, picture, force)
    result = cv(comm, names, output, force, log, protocol, most_labels=MOST_LABELS, **options)
    assert isinstance(result, TopPrecision)
    with mpi.agreed(comm, f"drawing {picture}"):
        if comm.rank == 0:
            plot_differences(result, picture)
    return joined([*str(result).splitlines(), "", f"picture: {picture}"])


def _check(names: Sequence[str], output: Path | None, picture: Path, force: bool) -> None:
    """Raise ConfigError or DataError if the picture cannot be made: now, not later. Local."""
    methods, data = divide_names(names)
    if len(methods) < 2:
        raise ConfigError("--picture shows differences between methods: name at least two")
    if output is not None and output.absolute() == picture.absolute():
        raise ConfigError(f"--picture and --output are both {picture}; choose two names")
    check_picture(picture)
    check_new(picture, force, [divide_path(name)[0] for name in data])


def plot_differences(result: TopPrecision, path: Path) -> None:
    """Draw a panel a label, a row a pair of methods, a point a split. Local; as `check_picture`."""
    lines, n_pairs = result.lines, len(result.methods) - 1
    columns = min(COLUMNS, len(lines))
    rows = -(-len(lines) // columns)
    with drawn(path, 2.6 + 4.4 * columns, 1.6 + rows * (0.9 + 0.85 * n_pairs)) as figure:
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for axes, line in zip(panels, lines, strict=False):
            _draw(axes, line)
            axes.set_title(named(line.name, 40), parse_math=False)
        for place, axes in enumerate(panels):
            axes.set_visible(place < len(lines))
            axes.tick_params(labelbottom=place + columns >= len(lines))  # it is the lowest that is seen
        panels[0].set_ylim(n_pairs - 0.4, -0.6)
        pairs = zip(result.methods[1:], result.methods, strict=False)
        panels[0].set_yticks(range(n_pairs), [named(f"{later} − {former}", 40) for later, former in pairs])
        what = f"difference of the precision in the first {result.top} ranks, in percentage points"
        points = f"a point for each of {result.splits} splits, a bar for the mean"
        colors = f"blue: better, orange: worse (* p ≤ {LEVEL:g}, bootstrap shift test); grey: no difference found"
        figure.supxlabel(f"{what}:\n{points}\n{colors}", fontsize=9)
        figure.suptitle("Each method beside the one named before it", fontsize=13, fontweight="bold")


def _draw(axes: Axes, line: TopLine) -> None:
    """The differences of a label: stacked points, their mean, and in words the mean and p."""
    axes.axvline(0, color="0.35", linewidth=1.2, zorder=1)
    for row, (values, p, mark) in enumerate(zip(line.differences.T, line.p[1:], line.marks[1:], strict=True)):
        mean = float(values.mean())
        color = NEITHER if not mark else BETTER if mean > 0 else WORSE
        axes.scatter(values, row + _stacked(values), s=14, color=color, alpha=0.7, linewidth=0, zorder=2)
        axes.plot([mean, mean], [row - 0.45, row + 0.45], color="black", linewidth=2.2, zorder=1.5)
        text = f"{mean:+.1f}{mark}".replace("-", "−") + ("\nno change" if math.isnan(p) else f"\np = {p:.2g}")
        axes.annotate(text, (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=9)


def _stacked(values: np.ndarray) -> np.ndarray:
    """Where points stand across (n, −SPREAD to SPREAD): nearly equal ones side by side."""
    groups = np.round(values / SAME)
    out = np.zeros(values.size)
    largest = max(int(np.unique(groups, return_counts=True)[1].max()), 8)
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        out[members] = (np.arange(members.size) - (members.size - 1) / 2) * (2 * SPREAD / largest)
    return out
