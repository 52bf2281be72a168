"""What rows and features are called: names in a dataset; titles in its source, JSON lines."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile, names_of
from hpcml.errors import DataError
from hpcml.files.hdf5 import readable
from hpcml.files.lines import LINE_MIB, open_plain

LONGEST = 120  # letters of a text that stands for a title


def names_by_number(dataset: DataFile, numbers: np.ndarray, what: str = "feature_names") -> dict[int, str]:
    """The names that the data have for features, or `row_ids` for rows. Raises DataError."""
    with readable(dataset.path, "hpcml convert", "dataset"):
        names = names_of(dataset, numbers, what)
    return {} if names is None else dict(zip(numbers.tolist(), names, strict=True))


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
