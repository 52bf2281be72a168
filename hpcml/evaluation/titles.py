"""Names and titles of rows, features and labels: in a dataset, and titles of rows in its source, JSON lines."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile, names_of
from hpcml.errors import DataError
from hpcml.files.hdf5 import readable
from hpcml.files.lines import LINE_MIB, open_plain
from hpcml.model.trained import Trained

LONGEST = 120  # letters of a text that stands for a title


class Names(dict[int, str]):
    """Names by number. What has no name is called by what it is and its number: "feature 3"."""

    def __init__(self, what: str, names: Iterable[tuple[int, str]] = ()) -> None:
        super().__init__(names)
        self.what = what

    def __missing__(self, number: int) -> str:
        return f"{self.what} {number}"


def names_of_features(model: Trained, numbers: Iterable[int]) -> Names:
    """Return the names of features of a model. Raises DataError."""
    names = None if model.raw_input is None else model.raw_input.names
    return Names("feature", () if names is None else ((number, names[number]) for number in numbers))


def names_of_rows(dataset: DataFile, numbers: Iterable[int]) -> Names:
    """Return the ids of rows of a dataset. Raises DataError."""
    rows = np.unique(np.fromiter(numbers, dtype=np.int64))
    with readable(dataset.path, "hpcml convert", "dataset"):
        names = names_of(dataset, rows, "row_ids")
    return Names("row", () if names is None else zip(rows.tolist(), names, strict=True))


def titles_of_labels(model: Trained, dataset: DataFile) -> list[str] | None:
    """Return the titles of a model's labels ("" for none), by the model or else by the data; None if neither has any."""
    if model.label_titles is not None or (of_data := dataset.label_titles()) is None:
        return model.label_titles
    by_name = dict(zip(dataset.label_names(), of_data, strict=True))
    return [by_name.get(name, "") for name in model.label_names]


def titles_of(comm: mpi.Comm, path: Path | None, ids: Collection[str]) -> dict[str, str]:
    """Collective over `comm`. The titles of documents of these ids, from JSON lines.

    A document without a title has the beginning of its text, one without an id the number of its
    line. Nothing if `path` is None. Raises DataError for a file that is not JSON lines.
    """
    return {} if path is None else mpi.run_on_root(comm, f"reading {path}", lambda: _read(path, set(ids)))


def _read(path: Path, wanted: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    with open_plain(path) as file:
        number = 0
        while len(found) < len(wanted) and (line := file.readline(LINE_MIB << 20)):
            number += 1
            if line.isspace():
                continue
            try:
                document = json.loads(line)
                name, title, text = (document.get(key) for key in ("id", "title", "text"))
            except (ValueError, AttributeError, RecursionError):
                about = f"{path}: line {number} is no JSON object"
                raise DataError(f"{about}; name the JSON lines that the data were made of") from None
            name = str(number if name is None else name)
            if name in wanted:
                shown = title if isinstance(title, str) and title.strip() else text
                words = " ".join(str(shown or "").split())
                found.setdefault(name, words if len(words) <= LONGEST else words[: LONGEST - 1] + "…")
    return {name: title for name, title in found.items() if title}
