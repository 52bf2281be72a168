"""Whether a model was trained on the rows that it is judged on, so that measures say little."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile, default_split
from hpcml.data.labels import log_unlabelled
from hpcml.data.svmlight_stream import is_text
from hpcml.errors import DataError
from hpcml.files.hdf5 import readable
from hpcml.files.opening import read_small
from hpcml.log import Log, plural
from hpcml.model.linear import Model, Trained
from hpcml.run.folder import CONFIG

BLOCK = 1 << 24  # values of X that are looked at together
ARRAYS = ("X/indptr", "X/indices", "X/data", "Y/indptr", "Y/indices")


def count_seen(comm: mpi.Comm, model: Trained, dataset: DataFile, split: str) -> int:
    """Collective over `comm`. How many rows of a split the model was trained on, as far as known.

    The dataset must have the training split, and be the file that the run folder names, or a copy
    of it. If there is no such file any more, the split must have as many rows as the training rows,
    as many of each label, and the same features. Raises DataError for a damaged file.
    """
    return mpi.run_on_root(comm, f"reading {dataset.path}", lambda: _count_seen(model, dataset, split))


def seen_note(n_seen: int, n_rows: int, rest: str = "") -> list[str]:
    """A sentence if the model has seen some of the rows, and what follows from that."""
    if not n_seen:
        return []
    which = "all" if n_seen == n_rows else f"{n_seen:,} of the"
    rest = rest or ", so these measures do not hold for other rows; judge on a split that was held out"
    return [f"warning: {which} {n_rows:,} rows are training rows, as far as the model tells{rest}"]


def split_to_judge(comm: mpi.Comm, dataset: DataFile, wanted: str | None, log: Log) -> str:
    """Return the split to judge on: the one named, else test, else all rows. Log what is left out. Collective over `comm`."""
    split = wanted or default_split(dataset, "test")
    if wanted is None and split == "all":
        log(f"note: {dataset.path} has no split test: judging on all its {plural(dataset.n_rows, 'row')}")
    log_unlabelled(comm, dataset, split, log)
    return split


def _count_seen(model: Trained, dataset: DataFile, split: str) -> int:
    with readable(dataset.path, "hpcml convert", "dataset"):
        trained_on = model.attrs.get("split")
        if not isinstance(trained_on, str) or not dataset.has_split(trained_on):
            return 0
        rows, judged = dataset.labelled(dataset.split(trained_on)), dataset.labelled(dataset.split(split))
        n_common = judged.size if trained_on in (split, "all") else int(np.intersect1d(rows, judged, assume_unique=True).size)
        n_trained = model.attrs.get("n_rows", rows.size)
        if not n_common or n_trained < rows.size:
            return 0
        trained_file = file_of_run(model.path)
        if trained_file is not None:
            same = trained_file.samefile(dataset.path) or _same_arrays(trained_file, dataset)
        elif n_trained != rows.size:
            same = False
        elif isinstance(model, Model):
            same = _same_rows(model, dataset, rows)
        else:
            same = np.array_equal(model.attrs.get("data_sizes", []), dataset.sizes)
        return n_common if same else 0


def file_of_run(model: Path) -> Path | None:
    """The dataset that the model's run folder was trained on, if it is still there. Local."""
    try:
        path = Path(str(tomllib.loads(read_small(model.parent / CONFIG))["data"]))
        return path if path.is_file() and not is_text(path) else None
    except (DataError, OSError, ValueError, KeyError):
        return None


def _same_arrays(path: Path, dataset: DataFile) -> bool:
    """Whether a readable dataset has this one's rows and label sets. Raises DataError."""
    try:
        other = DataFile(path)
    except DataError:
        return False
    with other:
        if any(other.file[name].shape != dataset.file[name].shape for name in ARRAYS):
            return False
        parts = ((name, begin) for name in ARRAYS for begin in range(0, dataset.file[name].shape[0], BLOCK))
        pairs = ((dataset.map(name)[begin : begin + BLOCK], other.map(name)[begin : begin + BLOCK]) for name, begin in parts)
        return all(np.array_equal(one, another) for one, another in pairs)


def _same_rows(model: Model, dataset: DataFile, rows: np.ndarray) -> bool:
    """Whether each label of the model has as many of these rows as it had in training, and these
    have every feature that a training row had: a factor that is not 0.
    """
    number = {name: k for k, name in enumerate(dataset.label_names())}
    if not set(model.label_names) <= number.keys():
        return False
    chosen = np.zeros(dataset.n_rows, dtype=np.bool_)
    chosen[rows] = True
    of_chosen = np.repeat(chosen, np.diff(dataset.map("Y/indptr")))
    counts = np.bincount(dataset.map("Y/indices")[of_chosen], minlength=dataset.n_labels)
    if not np.array_equal(counts[[number[name] for name in model.label_names]], model.labels["n_positive"]):
        return False
    indptr, indices, present = dataset.map("X/indptr"), dataset.map("X/indices"), np.zeros(dataset.n_features, dtype=np.bool_)
    step = max(1, BLOCK * dataset.n_rows // max(1, indices.size))
    for begin in range(0, dataset.n_rows, step):
        end = min(begin + step, dataset.n_rows)
        of_chosen = np.repeat(chosen[begin:end], np.diff(indptr[begin : end + 1]))
        present[indices[indptr[begin] : indptr[end]][of_chosen]] = True
    return bool(present[np.flatnonzero(model.factors)].all())
