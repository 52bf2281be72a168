"""Test error of mbw by number of features: extremal selection, information gain, chi-square.

Figures 1 and 2 of Carvalho & Cohen (2006). Extremal selection (EFS): one pass over the training
rows, then features are deleted from the model. The others: features are chosen by counts of the
training rows, and the pass sees these alone. Each label is a task of its own, for one rank, so the
numbers do not depend on the number of ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import Shard, rows_of, slab_of
from hpcml.errors import ConfigError, DataError
from hpcml.files.table import table, write_table
from hpcml.log import Log, Progress, joined, named
from hpcml.methods.online.live import best, extremal
from hpcml.methods.online.options import MbwOptions, OnlineOptions
from hpcml.methods.online.source import DatasetSource
from hpcml.methods.online.state import LearnerState
from hpcml.partition import offsets
from hpcml.plots.figure import GREEN, VERMILION, check_outputs, drawn, told
from hpcml.reduce.options import EFS, CurveOptions
from hpcml.reduce.scores import SCORES, RowsByLabel, count_present

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = ("label", "by", "share", "features", "error")
ALL, MAJORITY = "all features", "always the more frequent answer"
METHOD = "mbw"
# The shares from little to much: pale to dark; the paper's best in a colour of its own. Okabe & Ito's colours for the others.
SHARES = ["#C6DBEF", "#9ECAE1", "#6BAED6", "#3182BD", "#08519C"]
OTHERS = {"ig": (VERMILION, "--", "s"), "chi2": (GREEN, "-.", "^")}
MARKERS = "vP*Do"
COMPARED = 2  # shares that are drawn beside the other scores: the largest
ROOM = 1.06


@dataclass(frozen=True)
class ErrorCurves:
    """Test errors: `error` (labels × series × sizes), with all features and with none (labels)."""

    data: str
    names: list[str]  # of the labels
    series: list[tuple[str, float | None]]
    sizes: list[int]
    n_features: int  # that the training rows have
    n_test: int
    error: np.ndarray
    with_all: np.ndarray
    majority: np.ndarray

    def __str__(self) -> str:
        title = f"test error (%) of {METHOD} by number of features" + f", mean of {len(self.names)} labels" * (len(self.names) > 1)
        rows = [[title, *map(str, self.sizes)]]
        for pair, errors in zip(self.series, self.error.mean(axis=0), strict=True):
            rows.append(["  " + self.title_of(*pair), *(f"{100 * error:.2f}" for error in errors)])
        ends = ((f"all {self.n_features:,} features", self.with_all), (MAJORITY, self.majority))
        return joined([*table(rows), *(f"  {what}: {100 * error.mean():.2f}" for what, error in ends)])

    @staticmethod
    def title_of(by: str, share: float | None) -> str:
        """The name of a line."""
        return f"EFS, P = {share:g}" if share is not None else {"ig": "information gain", "chi2": "chi-square"}[by]


@dataclass
class _PassRows:
    """Rows in the order of the pass, and which of them have each label (n × n_labels, CSC)."""

    X: sp.csr_matrix
    Y: sp.csc_matrix

    @classmethod
    def read(cls, dataset: DataFile, numbers: np.ndarray, order: np.ndarray | None) -> _PassRows:
        """Local. Raises DataError, also for a negative value."""
        slab = slab_of(dataset, numbers, 0, numbers.size)
        rows = slab.rows if order is None else slab.rows[order]
        X = rows_of((slab.indptr, slab.indices, slab.data), rows, dataset.n_features, dense=False)
        ones = np.broadcast_to(np.float32(1), slab.y_indices.shape)
        Y = rows_of((slab.y_indptr, slab.y_indices, ones), rows, dataset.n_labels, dense=False)
        dataset.check_unchanged()
        if X.nnz and X.data.min() < 0:
            row = slab.first_row + int(rows[np.searchsorted(X.indptr, int(X.data.argmin()), "right") - 1])
            raise DataError(f"{dataset.path}: row {row} has the value {X.data.min():g}, but {METHOD} takes no negative values")
        return cls(X, Y.tocsc())

    def _rows_of(self, label: int) -> np.ndarray:
        return self.Y.indices[self.Y.indptr[label] : self.Y.indptr[label + 1]]

    def has(self, label: int) -> np.ndarray:
        """Which rows have a label (n, bool)."""
        out = np.zeros(self.X.shape[0], dtype=bool)
        out[self._rows_of(label)] = True
        return out

    def in_one_piece(self, label: int) -> bool:
        """Whether the rows that have a label, at least two, follow one another."""
        rows = self._rows_of(label)
        return rows.size > 1 and int(rows.max() - rows.min()) + 1 == rows.size


def _shard(X: sp.csr_matrix, y: np.ndarray) -> Shard:
    """Rows with one label as the learners and the counts take them."""
    n, y_indptr = y.size, offsets(y)
    y_indices = np.zeros(int(y_indptr[-1]), dtype=np.int32)
    return Shard(0, np.arange(n), X.indptr.astype(np.int64), X.indices, X.data, y_indptr, y_indices, n, 0, X.shape[1], 1)


def _trained(X: sp.csr_matrix, y: np.ndarray) -> LearnerState:
    """The learner after its pass."""
    state, shard = LearnerState(OnlineOptions(), METHOD, 1, X.shape[1]), _shard(X, y)
    state.learn(shard, shard.rows)
    return state


def _reduced(X: sp.csr_matrix, keep: np.ndarray) -> sp.csr_matrix:
    """The columns `keep` (d, bool) of X, in their order."""
    kept = keep[X.indices]
    ends = offsets(kept)[X.indptr]
    indices = (np.cumsum(keep) - 1)[X.indices[kept]].astype(np.int32)
    return sp.csr_matrix((X.data[kept], indices, ends), (X.shape[0], int(keep.sum())))


@dataclass
class _Task:
    """One label: counts of misclassified test rows."""

    train: _PassRows
    test: _PassRows  # its X in double precision
    label: int
    options: CurveOptions
    sizes: list[int]

    def errors(self) -> tuple[np.ndarray, int, int]:
        """Misclassified test rows: (n_series × n_sizes), with all features, by majority."""
        X, y = self.train.X, self.train.has(self.label)
        truth = self.test.has(self.label)
        state = _trained(X, y)
        W, bias = state.linear()
        everything = self._wrong(W[0], bias[0], truth)
        out = []
        for by, share in self.options.series():
            if by == EFS:
                chosen = (extremal(state.importance(), state.seen, keep, share) for keep in self.sizes)
                out.append([self._wrong(_only(W[0], features), bias[0], truth) for features in chosen])
            else:
                out.append(self._retrained(by, y, truth))
        return np.array(out), everything, int(np.count_nonzero(truth != (2 * np.count_nonzero(y) > y.size)))

    def _retrained(self, by: str, y: np.ndarray, truth: np.ndarray) -> list[int]:
        """Misclassified test rows of learners that saw the best features alone, for each size."""
        X, d = self.train.X, self.train.X.shape[1]
        shard = _shard(X, y)
        present = count_present(shard)
        both, positive = RowsByLabel(shard).count_both(np.zeros(1, dtype=np.int64))
        scores = SCORES[by](both, present, positive, y.size)[0]
        left, wrong = np.arange(d), []
        for keep in reversed(self.sizes):  # each choice lies in the one before
            features = best(scores, present > 0, keep)
            X, left = _reduced(X, np.isin(left, features)), features
            W, bias = _trained(X, y).linear()
            weights = np.zeros(d)
            weights[features] = W[0]
            wrong.append(self._wrong(weights, bias[0], truth))
        return wrong[::-1]

    def _wrong(self, weights: np.ndarray, bias: float, truth: np.ndarray) -> int:
        return int(np.count_nonzero((self.test.X @ weights + bias > 0) != truth))


def _only(weights: np.ndarray, features: np.ndarray) -> np.ndarray:
    """The weights of some features, 0 for the others."""
    out = np.zeros_like(weights)
    out[features] = weights[features]
    return out


def curves(comm: mpi.Comm, dataset: DataFile, options: CurveOptions, log: Log) -> ErrorCurves:
    """Collective over `comm`. Train on train, test on test; the labels are divided among the ranks.

    Raises ConfigError for options that do not fit the file, DataError for an unreadable file.
    """
    with mpi.agreed(comm, f"reading {dataset.path}"):
        if "train" not in dataset.split_names() or "test" not in dataset.split_names():
            raise ConfigError(f"{dataset.path}: it has no splits train and test; make them with `hpcml split`")
    least = 0 if options.label else 1
    online = MbwOptions(split="train", label=options.label, min_positives=least, shuffle=options.shuffle, seed=options.seed)
    source = DatasetSource(comm, dataset, online)
    with mpi.agreed(comm, f"reading {dataset.path}"):
        train = _PassRows.read(dataset, source.rows, source.order)
        test = _PassRows.read(dataset, dataset.split("test"), None)
        test.X = test.X.astype(np.float64)
        n_features = int(np.unique(train.X.indices[train.X.data != 0]).size)
        sizes = _sizes(options, n_features, log)
        if all(train.in_one_piece(label) for label in source.labels.tolist()):
            log("note: the training rows come sorted by label, and what a single pass learns depends on the order; try --shuffle")
    _warm_up(comm)
    n_labels, series = len(source.names), options.series()
    wrong, ends = np.zeros((n_labels, len(series), len(sizes)), np.int64), np.zeros((n_labels, 2), np.int64)
    progress = Progress(log, "labels (rank 0)", -(-n_labels // comm.size))
    with mpi.agreed(comm, f"learning from {dataset.path}"):
        for done, place in enumerate(range(comm.rank, n_labels, comm.size), 1):
            wrong[place], *ends[place] = _Task(train, test, int(source.labels[place]), options, sizes).errors()
            progress.update(done)
    progress.close()
    n_test = test.X.shape[0]
    error, ends = (mpi.allreduce_sum(comm, counts) / n_test for counts in (wrong, ends))
    return ErrorCurves(dataset.path.name, source.names, series, sizes, n_features, n_test, error, *ends.T)


def _sizes(options: CurveOptions, n_features: int, log: Log) -> list[int]:
    """The numbers of features there are enough of, ascending. Raises ConfigError for none."""
    sizes = sorted({keep for keep in options.features if keep <= n_features})
    if not sizes:
        raise ConfigError(f"--features {min(options.features)}: the training rows have only {n_features:,} features")
    if len(sizes) < len(set(options.features)):
        log(f"the training rows have {n_features:,} features; larger --features are left out")
    return sizes


def _warm_up(comm: mpi.Comm) -> None:
    """Collective over `comm`. Compile the learner by a made-up row, one rank of a node first."""
    with mpi.node_first(comm):
        _trained(sp.csr_matrix(np.ones((1, 1), dtype=np.float32)), np.ones(1, dtype=bool)).linear()


def plot_selection(comm: mpi.Comm, data: Path, output: Path, options: CurveOptions, force: bool, log: Log) -> str:
    """Collective over `comm`. Draw a dataset's curves, write their numbers; a table for people.

    Raises ConfigError or DataError for what the user can mend.
    """
    options.validate()
    output = Path(output)
    with mpi.agreed(comm, f"opening {data}"):
        if comm.rank == 0:
            check_outputs(output, force, [data])
        dataset = DataFile(data)
    with dataset:
        found = curves(comm, dataset, options, log)
    with mpi.agreed(comm, f"drawing {output}"):
        if comm.rank == 0:
            plot_curves(found, output)
            write_curves(found, output.with_suffix(".csv"))
    return told(found, output)


def _lines(found: ErrorCurves) -> Iterator[Sequence[object]]:
    """The CSV's lines: means over the labels (label empty) if they are several, then each label."""
    groups = [(name, slice(place, place + 1)) for place, name in enumerate(found.names)]
    for name, which in [("", slice(None))] * (len(groups) > 1) + groups:
        for (by, share), errors in zip(found.series, found.error[which].mean(axis=0), strict=True):
            for size, error in zip(found.sizes, errors.tolist(), strict=True):
                yield name, by, "" if share is None else share, size, error
        yield name, ALL, "", found.n_features, float(found.with_all[which].mean())
        yield name, MAJORITY, "", 0, float(found.majority[which].mean())


def write_curves(found: ErrorCurves, path: Path) -> None:
    """A line for each label, line of the picture and size. Local; raises DataError."""
    write_table(path, [COLUMNS, *_lines(found)])


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
    top = ROOM * max(float(error.max()), with_all, majority, 1e-9)
    axes.set(xscale="log", xlabel="features kept", ylabel=f"test rows misclassified (%), of {found.n_test:,}", ylim=(0, top))
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
