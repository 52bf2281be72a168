"""Whether a model was trained on the rows that it is judged on, so that measures say little."""

from __future__ import annotations

from typing import NamedTuple

from hpcml import mpi
from hpcml.data.dataset import DataFile, default_split
from hpcml.data.labels import log_unlabelled
from hpcml.files.hdf5 import readable
from hpcml.log import Log, plural
from hpcml.model.trained import Trained


class SeenRows(NamedTuple):
    """Number of the judged rows that are training rows of the model, and whether it is an estimate."""

    n_rows: int = 0
    is_estimate: bool = False


def count_seen(comm: mpi.Comm, model: Trained, dataset: DataFile, split: str) -> SeenRows:
    """Return how many rows of a split the model was trained on, by the keys that the model stores. Collective over `comm`.

    The number is an estimate above 10^6 training rows, and 0 for a model whose rows had no keys. Raises DataError.
    """

    def count() -> int:
        with readable(dataset.path, "hpcml convert", "dataset"):
            return model.training_keys.count(dataset.map("row_keys")[dataset.labelled(dataset.split(split))])

    if model.training_keys is None:
        return SeenRows()
    return SeenRows(mpi.run_on_root(comm, f"reading {dataset.path}", count), not model.training_keys.complete)


def seen_note(seen: SeenRows, n_rows: int, rest: str = "") -> list[str]:
    """Return a warning if the model was trained on some of the rows, and what follows from that."""
    if not seen.n_rows:
        return []
    which = f"about {seen.n_rows:,} of the" if seen.is_estimate else "all" if seen.n_rows == n_rows else f"{seen.n_rows:,} of the"
    rest = rest or ", so these measures do not hold for other rows; judge on a split that was held out"
    return [f"warning: {which} {n_rows:,} rows are training rows of the model{rest}"]


def split_to_judge(comm: mpi.Comm, dataset: DataFile, wanted: str | None, log: Log) -> str:
    """Return the split to judge on: the one named, else test, else all rows. Log what is left out. Collective over `comm`."""
    split = wanted or default_split(dataset, "test")
    if wanted is None and split == "all":
        log(f"note: {dataset.path} has no split test: judging on all its {plural(dataset.n_rows, 'row')}")
    log_unlabelled(comm, dataset, split, log)
    return split
