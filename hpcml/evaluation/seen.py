"""Whether a model was trained on the rows that it is judged on, so that measures say little."""

from __future__ import annotations

import tomllib
from pathlib import Path

from hpcml import mpi
from hpcml.data.dataset import DataFile, default_split
from hpcml.data.svmlight_stream import is_text
from hpcml.errors import DataError
from hpcml.files.hdf5 import readable
from hpcml.files.opening import read_small
from hpcml.log import Log, plural
from hpcml.model.linear import Trained
from hpcml.run.folder import CONFIG


def count_seen(comm: mpi.Comm, model: Trained, dataset: DataFile, split: str) -> int:
    """Collective over `comm`. Return how many rows of a split the model was trained on.

    They are known by the keys that the model stores, in whichever file they are; above 10^6 training
    rows the number is an estimate. 0 for a model whose rows had no keys. Raises DataError.
    """

    def count() -> int:
        with readable(dataset.path, "hpcml convert", "dataset"):
            return model.training_keys.count(dataset.map("row_keys")[dataset.split(split)])

    return 0 if model.training_keys is None else mpi.run_on_root(comm, f"reading {dataset.path}", count)


def seen_note(n_seen: int, n_rows: int, rest: str = "") -> str:
    """A sentence about so many rows that a model has seen; "" if there are none."""
    if not n_seen:
        return ""
    which = "all" if n_seen == n_rows else f"{n_seen:,} of the"
    rest = rest or ", so these measures do not hold for other rows; judge on a split that was held out"
    return f"warning: {which} {n_rows:,} rows are training rows of the model{rest}"


def split_to_judge(dataset: DataFile, wanted: str | None, log: Log) -> str:
    """The split to judge on: the one named, else test, else all rows, which is said. Local."""
    split = wanted or default_split(dataset, "test")
    if wanted is None and split == "all":
        log(f"note: {dataset.path} has no split test: judging on all its {plural(dataset.n_rows, 'row')}")
    return split


def file_of_run(model: Path) -> Path | None:
    """The dataset that the model's run folder was trained on, if it is still there. Local."""
    try:
        path = Path(str(tomllib.loads(read_small(model.parent / CONFIG))["data"]))
        return path if path.is_file() and not is_text(path) else None
    except (DataError, OSError, ValueError, KeyError):
        return None
