"""Detection of training rows among evaluated rows, and the choice of the split to evaluate."""

from __future__ import annotations

from typing import NamedTuple

from hpcml import mpi
from hpcml.data.dataset import DataFile, split_or_all
from hpcml.data.labels import log_unlabelled
from hpcml.files.hdf5 import readable
from hpcml.log import Log, plural
from hpcml.model.trained import Trained


class SeenRows(NamedTuple):
    """Number of evaluated rows that are training rows of the model."""

    n_rows: int = 0
    is_estimate: bool = False


def count_seen(comm: mpi.Comm, model: Trained, dataset: DataFile, split: str) -> SeenRows:
    """Count the rows of a split that trained the model, by the row keys that it stores. Collective over `comm`.

    The number is an estimate above 10^6 training rows, and 0 for a model whose rows had no keys. Raises DataError.
    """

    def count() -> int:
        with readable(dataset.path, "hpcml convert", "dataset"):
            return model.training_keys.count(dataset.map("row_keys")[dataset.labelled(dataset.split(split))])

    if model.training_keys is None:
        return SeenRows()
    return SeenRows(mpi.run_on_root(comm, f"reading {dataset.path}", count), not model.training_keys.complete)


def warn_about_training_rows(seen: SeenRows, n_rows: int, consequence: str = "") -> list[str]:
    if not seen.n_rows:
        return []
    rows = f"about {seen.n_rows:,} of the" if seen.is_estimate else "all" if seen.n_rows == n_rows else f"{seen.n_rows:,} of the"
    consequence = consequence or ", so these results are too optimistic; use --split with held-out rows"
    return [f"warning: {rows} {n_rows:,} rows are training rows of the model{consequence}"]


def choose_split(comm: mpi.Comm, dataset: DataFile, name: str | None, log: Log) -> str:
    """Return the named split, else test, else all rows. Log excluded rows. Collective over `comm`."""
    split = name or split_or_all(dataset, "test")
    if name is None and split == "all":
        log(f"note: {dataset.path} has no split test; all its {plural(dataset.n_rows, 'row')} are evaluated")
    log_unlabelled(comm, dataset, split, log)
    return split
