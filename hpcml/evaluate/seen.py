"""Whether rows that a model is judged on are rows that it was trained on: then its measures say little of other rows."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.classifier import ClassifierModel
from hpcml.data.schema import Dataset, default_split, readable
from hpcml.log import Log
from hpcml.model import Model

BLOCK = 1 << 24  # values of X that are looked at together


@mpi.collective
def count_seen(comm: mpi.Comm, model: Model | ClassifierModel, dataset: Dataset, split: str) -> int:
    """Collective over `comm`. How many rows of a split the model was trained on, as far as its file and its run folder tell.

    They do if the dataset has the split that the model was trained on, with as many rows and as many of each label, and if it is
    the file that the run folder names, or one whose rows have the features that the training rows had. Raises DataError for a
    damaged file.
    """
    n_seen = 0
    with mpi.agreed(comm, f"reading {dataset.path}"):
        if comm.rank == 0:
            with readable(dataset.path, "hpcml convert", "dataset"):
                n_seen = _count_seen(model, dataset, split)
    return comm.bcast(n_seen)


def seen_note(n_seen: int, n_rows: int) -> str:
    """A sentence about so many rows that a model has seen; "" if there are none."""
    if not n_seen:
        return ""
    which = "all" if n_seen == n_rows else f"{n_seen:,} of the"
    return (
        f"warning: {which} {n_rows:,} rows are training rows, so these measures do not hold for other rows; judge on a split that "
        "was held out"
    )


def split_to_judge(dataset: Dataset, wanted: str | None, log: Log) -> str:
    """The split to judge on if the user has named `wanted`, or none: then test, or all rows, which is said. Local."""
    split = wanted or default_split(dataset, "test")
    if wanted is None and split == "all":
        log(f"note: {dataset.path} has no split test: judging on all its {dataset.n_rows:,} rows")
    return split


def _count_seen(model: Model | ClassifierModel, dataset: Dataset, split: str) -> int:
    """See `count_seen`. Local."""
    trained_on = model.attrs.get("split")
    if trained_on != "all" and trained_on not in dataset.split_names():
        return 0
    rows, judged = dataset.split(str(trained_on)), dataset.split(split)
    n_common = judged.size if trained_on in (split, "all") else int(np.intersect1d(rows, judged, assume_unique=True).size)
    if not n_common or model.attrs.get("n_rows", rows.size) != rows.size:
        return 0
    known = is_file_of_run(model.path, dataset.path)
    if isinstance(model, ClassifierModel):
        sizes = model.attrs.get("data_sizes")
        same = known if sizes is None else np.array_equal(sizes, dataset.sizes)
    else:
        same = _same_counts(model, dataset, rows) and (known or _same_features(model, dataset, rows))
    return n_common if same else 0


def is_file_of_run(model: Path, data: Path) -> bool:
    """Whether the run folder that a model lies in says that it was trained on this file. Local."""
    try:
        config = tomllib.loads((model.parent / "config.toml").read_text(encoding="utf-8"))
        return Path(str(config["data"])).samefile(data)
    except (OSError, ValueError, KeyError):  # no run folder, or the file is gone
        return False


def _same_counts(model: Model, dataset: Dataset, rows: np.ndarray) -> bool:
    """Whether each label of the model has as many of these rows as it had in training."""
    number = {name: k for k, name in enumerate(dataset.label_names())}
    if not set(model.label_names) <= number.keys():
        return False
    chosen = np.zeros(dataset.n_rows, dtype=np.bool_)
    chosen[rows] = True
    of_chosen = np.repeat(chosen, np.diff(dataset.map("Y/indptr")))
    counts = np.bincount(dataset.map("Y/indices")[of_chosen], minlength=dataset.n_labels)
    return np.array_equal(counts[[number[name] for name in model.label_names]], model.labels["n_positive"])


def _same_features(model: Model, dataset: Dataset, rows: np.ndarray) -> bool:
    """Whether these rows have every feature that a training row had: a factor that is not 0."""
    indptr, indices, found = dataset.map("X/indptr"), dataset.map("X/indices"), np.zeros(dataset.n_features, dtype=np.bool_)
    chosen = np.zeros(dataset.n_rows, dtype=np.bool_)
    chosen[rows] = True
    step = max(1, BLOCK * dataset.n_rows // max(1, indices.size))
    for begin in range(0, dataset.n_rows, step):
        end = min(begin + step, dataset.n_rows)
        mine = np.repeat(chosen[begin:end], np.diff(indptr[begin : end + 1]))
        found[indices[indptr[begin] : indptr[end]][mine]] = True
    return bool(found[np.flatnonzero(model.factors)].all())
