"""Names of rows and features, and titles of labels and rows."""

import json
from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile, read_feature_names
from hpcml.errors import DataError
from hpcml.files.hdf5 import readable
from hpcml.files.lines import LINE_MIB, open_decompressed
from hpcml.model.trained import Trained

LONGEST = 120  # characters of a text that replaces a title


class Names(dict[int, str]):
    """Names by number; the default is the kind and the number, such as "feature 3"."""

    def __init__(self, kind: str, names: Iterable[tuple[int, str]] = ()) -> None:
        super().__init__(names)
        self.kind = kind

    def __missing__(self, number: int) -> str:
        return f"{self.kind} {number}"


def names_of_features(model: Trained, numbers: Iterable[int]) -> Names:
    names = None if model.raw_input is None else model.raw_input.names
    return Names("feature", () if names is None else ((number, names[number]) for number in numbers))


def names_of_rows(dataset: DataFile, numbers: Iterable[int]) -> Names:
    rows = np.unique(np.fromiter(numbers, dtype=np.int64))
    with readable(dataset.path, "hpcml convert", "dataset"):
        names = read_feature_names(dataset, rows, "row_ids")
    return Names("row", () if names is None else zip(rows.tolist(), names, strict=True))


def titles_of_labels(model: Trained, dataset: DataFile) -> list[str] | None:
    """Return the titles of a model's labels ("" for none), from the model or else the dataset; None if neither has any."""
    if model.label_titles is not None or (titles := dataset.label_titles()) is None:
        return model.label_titles
    by_name = dict(zip(dataset.label_names(), titles, strict=True))
    return [by_name.get(name, "") for name in model.label_names]


def titles_of_rows(comm: mpi.Comm, path: Path | None, ids: Collection[str]) -> dict[str, str]:
    """Return the titles (or starts of texts) of JSON lines by id or line number. Raises DataError. Collective over `comm`."""
    return {} if path is None else mpi.run_on_root(comm, f"reading {path}", lambda: _read_titles(path, set(ids)))


def _read_titles(path: Path, ids: set[str]) -> dict[str, str]:
    titles: dict[str, str] = {}
    with open_decompressed(path) as file:
        number = 0
        while len(titles) < len(ids) and (line := file.readline(LINE_MIB << 20)):
            number += 1
            if line.isspace():
                continue
            try:
                document = json.loads(line)
                row_id, title, text = (document.get(key) for key in ("id", "title", "text"))
            except (ValueError, AttributeError, RecursionError):
                advice = "name the JSON lines from which the dataset was converted"
                raise DataError(f"{path}: line {number} is not a JSON object; {advice}") from None
            row_id = str(number if row_id is None else row_id)
            if row_id in ids:
                title = title if isinstance(title, str) and title.strip() else text
                words = " ".join(str(title or "").split())
                titles.setdefault(row_id, words if len(words) <= LONGEST else words[: LONGEST - 1] + "…")
    return {row_id: title for row_id, title in titles.items() if title}
