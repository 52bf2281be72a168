"""`hpcml plot sparsity`: weights that are not 0 during training (Elkan 2015)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.files.table import read_csv, write_table
from hpcml.log import Log
from hpcml.model.linear import Model
from hpcml.plots.figure import BLUE, check_outputs, drawn, told
from hpcml.run.folder import FILES, RunFolder

COLUMNS = ("step", "labels_in_training", "weights", "share")


@dataclass(frozen=True)
class Sparsity:
    """After each step: labels in training, weights of all labels, and how many could be."""

    in_training: np.ndarray
    weights: np.ndarray
    possible: int
    most: int  # the sum over the labels of the most that each had

    def __str__(self) -> str:
        last, most = (int(weights) for weights in (self.weights[-1], self.weights.max()))
        shares = [f"{100 * weights / self.possible:.3g} %" for weights in (most, last)]
        return (
            f"of {self.possible:,} weights at most {most:,} ({shares[0]}) were not 0 after a step, and {last:,} ({shares[1]}) "
            f"at the end; with every label at its most, {self.most:,}"
        )


def plot_run(comm: mpi.Comm | None, run: Path, output: Path | None = None, force: bool = False) -> str:
    """Collective over `comm`. Draw a finished run; rank 0 says what it drew, the others "".

    Raises ConfigError or DataError for what the user can mend.
    """
    run, said = Path(run), ""
    picture = Path(output or run / "sparsity.png")
    with mpi.duplicated(comm) as comm, mpi.agreed(comm, f"drawing {run}"):
        if comm.rank == 0:
            folder = RunFolder(comm, run, Log(comm.rank))
            folder.finished("elastic-net", "the picture is about elastic-net")
            check_outputs(picture, force, [run / file for file in FILES])
            model = Model(folder.model)
            found = read_sparsity(run / "history.csv", model.n_labels * model.n_columns)
            draw(found, picture)
            columns = (found.in_training, found.weights, found.weights / found.possible)
            rows = zip(range(1, found.weights.size + 1), *(column.tolist() for column in columns), strict=True)
            write_table(picture.with_suffix(".csv"), [COLUMNS, *rows])
            said = told(found, picture)
    return said


def read_sparsity(path: Path, possible: int) -> Sparsity:
    """All labels' weights after each step, those of done ones too. Local; raises DataError."""
    by_label: dict[str, list[int]] = {}
    try:
        for line in read_csv(path):
            if int(line["step"]) == 1:
                by_label[line["label"] + f"\n{len(by_label)}"] = []  # two labels may have one name
            next(reversed(by_label.values())).append(int(line["weights"]))
    except (KeyError, TypeError, ValueError, StopIteration, csv.Error):
        raise DataError(f"{path}: damaged history; train again with --force") from None
    longest = max(map(len, by_label.values()), default=0)
    if not longest:
        raise DataError(f"{path}: no label was trained, so there is nothing to draw")
    weights, in_training = np.zeros(longest, np.int64), np.zeros(longest, np.int64)
    for counts in by_label.values():
        weights += np.array(counts + counts[-1:] * (longest - len(counts)))
        in_training[: len(counts)] += 1
    return Sparsity(in_training, weights, possible, sum(max(counts) for counts in by_label.values()))


def draw(found: Sparsity, path: Path) -> None:
    """Draw the share of weights that are not 0 by step. Local; raises as `check_picture`."""
    with drawn(path, 9, 5) as figure:
        axes = figure.subplots()
        axes.plot(range(1, found.weights.size + 1), 100 * found.weights / found.possible, color=BLUE, marker="o", markersize=4)
        axes.set_title(f"Sparsity during training: {found.weights[-1]:,} of {found.possible:,} weights are left")
        axes.set_xlabel("step  (a round of the exact solver, or a pass over the rows)")
        axes.set(ylabel="weights that are not 0  (%)", ylim=(0, None))
        axes.xaxis.get_major_locator().set_params(integer=True)
