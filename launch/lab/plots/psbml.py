"""`hpcml plot psbml`: a finished run of PSBML, its torus, its margin data, and its cycles."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hpcml import mpi, rng
from hpcml.data.dataset import DataFile
from hpcml.data.shard import Rows, read_rows
from hpcml.errors import DataError
from hpcml.files.table import read_csv, write_table
from hpcml.log import Log, named
from hpcml.methods.psbml.torus import parse_grid
from hpcml.model.classifier import ClassifierModel
from hpcml.plots.figure import BLUE, GREY, VERMILION, check_outputs, drawn, told
from hpcml.run.folder import FILES, RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

MOST_ROWS = 20_000  # of the data, and of the margin data, in the picture
COLUMNS = ("kind", "number", "x", "y", "margin_rows", "weight")
MOST_COLUMNS = 10  # of a torus whose nodes have their weights written on them
WEIGHT = "selection weight  (1: the hardest row of the grid)"


@dataclass(frozen=True)
class Portrait:
    """The content of the picture of a run."""

    data: str  # the name of the data set's file
    base: str  # the learner
    grid: tuple[int, int]  # width and height of the torus
    neighbourhood: str
    node_rows: np.ndarray  # distinct margin rows on each node
    node_weights: np.ndarray  # their mean weights
    axes: tuple[str, str]  # what the coordinates are, "": nothing
    points: np.ndarray  # rows of the split, a sample (n × 2)
    margin: np.ndarray  # margin rows, a sample (k × 2)
    margin_rows: np.ndarray  # their numbers in the file
    margin_weights: np.ndarray
    n_rows: int  # of the split
    n_margin: int
    cycle: int  # the pocket's
    history: dict[str, np.ndarray]  # history.csv by columns

    def __str__(self) -> str:
        error = self.history["error"][self.history["cycle"] == self.cycle]
        return (
            f"{self.n_margin:,} of {self.n_rows:,} rows are margin data, from cycle {self.cycle}"
            + (f" (validation error {100 * error[0]:.2f} %)" if error.size else "")
            + f"; {self.node_rows.min():,} to {self.node_rows.max():,} of them on a node"
        )


def plot_run(comm: mpi.Comm | None, run: Path, output: Path | None = None, data: Path | None = None, force: bool = False) -> str:
    """Collective over `comm`. Draw a finished run; rank 0 says what it drew, the others "".

    Raises ConfigError or DataError for what the user can mend.
    """
    run, said = Path(run), ""
    picture = Path(output or run / "psbml.png")
    with mpi.duplicated(comm) as comm, mpi.agreed(comm, f"drawing {run}"):
        if comm.rank == 0:
            folder = RunFolder(comm, run, Log(comm.rank))
            _, path = folder.finished("psbml", "the picture is about psbml")
            model, path = ClassifierModel(folder.model), data or path
            check_outputs(picture, force, [path, *(run / file for file in FILES)])
            with DataFile(path) as dataset:
                portrait = portray(model, dataset, read_history(run / "history.csv"))
            plot_psbml(portrait, picture)
            write_numbers(portrait, picture.with_suffix(".csv"))
            said = told(portrait, picture)
    return said


def read_history(path: Path) -> dict[str, np.ndarray]:
    """history.csv by columns. Local; raises DataError."""
    try:
        lines = read_csv(path)
        return {name: np.array([float(line[name]) for line in lines]) for name in ("cycle", "error", "distinct_rows")}
    except (KeyError, TypeError, ValueError, csv.Error):
        raise DataError(f"{path}: damaged history; train again with --force") from None


def portray(model: ClassifierModel, dataset: DataFile, history: dict[str, np.ndarray]) -> Portrait:
    """What the picture shows. Local; raises ConfigError, DataError for another dataset."""
    model.check_vocabulary(dataset)
    split = str(model.attrs["split"])
    rows = dataset.split(split)
    if list(model.attrs["data_sizes"]) != list(dataset.sizes) or not np.isin(model.margin_rows, rows, assume_unique=True).all():
        raise DataError(
            f"{dataset.path}: {model.path} was trained on other data (rows, values and labels: {list(model.attrs['data_sizes'])}, "
            f"not {list(dataset.sizes)}); name that file with --data, or train again"
        )
    shown, among = rows[sampled_places(rows)], sampled_places(model.margin_rows)
    matrices = [read_rows(dataset, part, dataset.n_features <= 2) for part in (shown, model.margin_rows[among])]
    (points, margin), names = in_the_plane(matrices, dataset)
    return Portrait(
        data=dataset.path.name,
        base=str(model.base.get("name")),
        grid=parse_grid(str(model.attrs["grid"])),
        neighbourhood=str(model.attrs["neighbourhood"]),
        node_rows=np.asarray(model.attrs["node_rows"]),
        node_weights=np.asarray(model.attrs["node_weights"]),
        axes=names,
        points=points,
        margin=margin,
        margin_rows=model.margin_rows[among],
        margin_weights=model.margin_weights[among],
        n_rows=rows.size,
        n_margin=model.margin_rows.size,
        cycle=model.cycle,
        history=history,
    )


def sampled_places(rows: np.ndarray) -> np.ndarray:
    """The places of at most MOST_ROWS of some rows, ascending: those with the least random bits."""
    if rows.size <= MOST_ROWS:
        return np.arange(rows.size)
    return np.sort(np.argpartition(rng.bits(0, "psbml picture", rows), MOST_ROWS)[:MOST_ROWS])


def in_the_plane(matrices: list[Rows], dataset: DataFile) -> tuple[list[np.ndarray], tuple[str, str]]:
    """Rows (first the sample of all) as points, n × 2 each, and the names of the two axes.

    Two features at most are the coordinates; of more the first two components of the singular value
    decomposition of the sample.
    """
    n_features = dataset.n_features
    if n_features <= 2:
        names = (dataset.strings("feature_names") or [f"feature {j}" for j in range(n_features)]) + [""] * (2 - n_features)
        return [np.pad(matrix, ((0, 0), (0, 2 - n_features))) for matrix in matrices], (named(names[0]), named(names[1]))
    from sklearn.decomposition import TruncatedSVD

    svd = TruncatedSVD(2, random_state=0).fit(matrices[0])
    shares = svd.explained_variance_ratio_
    first, second = (
        f"{nth} component ({100 * share:.1f} % of the variance)" for nth, share in zip(("1st", "2nd"), shares, strict=True)
    )
    return [svd.transform(matrix) for matrix in matrices], (first, second)


def write_numbers(portrait: Portrait, path: Path) -> None:
    """Nodes (place, margin rows, mean weight); margin rows drawn (coordinates, weight). Local."""
    lines: list[tuple[object, ...]] = [COLUMNS]
    for node, (rows, weight) in enumerate(zip(portrait.node_rows, portrait.node_weights, strict=True)):
        y, x = divmod(node, portrait.grid[0])
        lines.append(("node", node, x, y, int(rows), float(weight)))
    for row, (x, y), weight in zip(portrait.margin_rows, portrait.margin, portrait.margin_weights, strict=True):
        lines.append(("margin row", int(row), float(x), float(y), "", float(weight)))
    write_table(path, lines)


def plot_psbml(portrait: Portrait, path: Path) -> None:
    """Draw a run: torus, margin data, error and distinct rows. Local; as `check_picture`."""
    with drawn(path, 13, 10.5) as figure:
        (torus, plane), (error, rows) = figure.subplots(2, 2)
        _draw_torus(figure, torus, portrait)
        _draw_margin(figure, plane, portrait)
        _draw_history(error, portrait, "error", 100.0)
        error.set(title="3  Validation error of a classifier of the whole grid", ylabel="validation rows misclassified (%)")
        _draw_history(rows, portrait, "distinct_rows", 1.0)
        rows.set(title="4  Distinct rows left on the grid", ylabel="distinct rows")
        name = named(f"{portrait.base} on {portrait.data}", 80)
        figure.suptitle(f"PSBML: {name}", fontsize=15, fontweight="bold", parse_math=False)


def _by_number() -> LinearSegmentedColormap:
    """Colours of numbers, from little to much."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("numbers", ["#A8DB34", "#44BF70", "#21918C", "#355F8D", "#482475", "#2A0B3D"])


def _draw_torus(figure: Figure, axes: Axes, portrait: Portrait) -> None:
    width, height = portrait.grid
    counts = portrait.node_rows.reshape(height, width)
    aspect = "equal" if max(width, height) <= 2 * min(width, height) else "auto"
    image = axes.imshow(counts, cmap=_by_number(), origin="upper", aspect=aspect)
    axes.grid(visible=False)
    said = ""
    if width <= MOST_COLUMNS and height <= MOST_COLUMNS:
        middle = (counts.min() + counts.max()) / 2
        size = 12 if max(width, height) <= 6 else 8
        for node, weight in enumerate(portrait.node_weights):
            y, x = divmod(node, width)
            colour = "white" if counts[y, x] > middle else "black"
            axes.text(x, y, f"{weight:.2f}", ha="center", va="center", color=colour, fontsize=size)
        said = "   (written on it: the mean weight of its margin rows)"
    for axis, size in ((axes.xaxis, width), (axes.yaxis, height)):
        axis.set_ticks(range(0, size, 1 + (size - 1) // MOST_COLUMNS))
    title = f"1  The torus: {width}×{height} nodes, neighbourhood {portrait.neighbourhood}"
    axes.set(title=title, xlabel=f"x of the node{said}", ylabel="y of the node")
    bar = figure.colorbar(image, ax=axes, label="margin rows on the node")
    bar.ax.yaxis.get_major_locator().set_params(integer=True)


def _draw_margin(figure: Figure, axes: Axes, portrait: Portrait) -> None:
    axes.set_axisbelow(True)
    axes.scatter(*portrait.points.T, **GREY)
    order = np.argsort(portrait.margin_weights, kind="stable")  # the heaviest on top
    where, weights = portrait.margin[order], portrait.margin_weights[order]
    size = 14 if weights.size < 3000 else 5
    dots = axes.scatter(*where.T, c=weights, cmap=_by_number(), s=size, vmin=0, vmax=1, linewidths=0, rasterized=True)
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
    label = f"the best: cycle {portrait.cycle}, the model"
    axes.plot(cycles[best], values[best], "o", color=VERMILION, markersize=9, clip_on=False, zorder=5, label=label)
    axes.axvline(portrait.cycle, color=VERMILION, linewidth=1.2, linestyle=":")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="cycle", ylim=(0, None))
    axes.legend(loc="best")
