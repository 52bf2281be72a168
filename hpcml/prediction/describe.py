"""Description of a file written by `hpcml predict`, for `hpcml info`."""

import csv
import io
import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from hpcml.errors import DataError, file_error
from hpcml.files.hdf5 import open_stamped, readable
from hpcml.files.lines import open_decompressed
from hpcml.files.table import LONGEST_CELL, pyarrow
from hpcml.log import joined, plural
from hpcml.prediction.table import BIOASQ, DELIMITERS, PARQUET, TEXTS, BioasqJson

WRITTEN_BY = "hpcml predict"
ENDINGS = (*TEXTS, PARQUET, BIOASQ)  # extensions other than HDF5
COLUMNS = {
    "id": "id of the row, or its number from 0 if the data have no ids",
    "label": "label of the row, best first",
    "title": "title of the label",
    "probability": "probability of the label",
    "score": "score of the label (the model has no probabilities)",
}
MATRIX = {
    "scores": "(rows × labels, float64)",
    "rows": "row numbers in the data",
    "row_ids": "row ids",
    "label_names": "names of the labels",
    "label_titles": "titles of the labels",
    "labels/threshold": "score above which a row gets the label",
    "labels/sigmoid_slope": "slope of the probability 1 / (1 + exp(-slope * score - offset))",
    "labels/sigmoid_offset": "offset of the probability",
}


def describe(path: Path, kind: str) -> str:
    """Return a description of a file: HDF5 of this kind, or '' for other formats. Raises DataError."""
    if kind == "scores":
        with open_stamped(path, kind, WRITTEN_BY) as file, readable(path, WRITTEN_BY):
            n_rows, n_labels = file["scores"].shape
            lines = [f"{path}: scores of {plural(n_rows, 'row')} for {plural(n_labels, 'label')}"]
            lines += [f"  {name:<21} {text}" for name, text in MATRIX.items() if name in file]
            return joined([*lines, *_origin(dict(file.attrs))])
    try:
        if path.suffix.lower() == BIOASQ:
            with open_decompressed(path) as raw:
                if raw.readline() != BioasqJson.begin + b"\n":
                    raise ValueError
                n_rows = sum(line.startswith(b"{") for line in raw)
            return f"{path}: labels of {plural(n_rows, 'row')} as BioASQ JSON: pmid and labels of each row"
        columns, n_lines, about = _read_columns(path, kind)
        if not {"id", "label"} <= set(columns) <= set(COLUMNS):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, csv.Error):
        expected = f"expected the columns {', '.join(COLUMNS)}, or BioASQ JSON"
        raise DataError(f"{path}: not written by `{WRITTEN_BY}` ({expected}); info also describes datasets and models") from None
    except OSError as error:
        raise file_error(path, "read", error) from None
    lines = [f"{path}: {plural(n_lines, 'label')}, one per line, row by row"]
    for name in columns:
        text = "index into label_names" if kind and name == "label" else COLUMNS[name]
        number = f" (float{64 if kind else 32})" if name in ("score", "probability") else ""
        lines.append(f"  {name:<11} {text}{number}")
    return joined([*lines, *_origin(about)])


def _read_columns(path: Path, kind: str) -> tuple[list[str], int, dict[str, Any]]:
    ending = path.suffix.lower()
    if kind:
        with open_stamped(path, kind, WRITTEN_BY) as file, readable(path, WRITTEN_BY):
            return [name for name in COLUMNS if name in file], file["label"].size, dict(file.attrs)
    if ending == PARQUET:
        with closing(pyarrow().parquet.ParquetFile(path)) as table:
            schema = table.schema_arrow
            return schema.names, table.metadata.num_rows, json.loads(schema.metadata[b"hpcml"])
    with open_decompressed(path) as raw, io.TextIOWrapper(raw, encoding="utf-8", newline="") as text:
        if ending in DELIMITERS:
            previous = csv.field_size_limit(LONGEST_CELL)
            try:
                lines = csv.reader(text, delimiter=DELIMITERS[ending])
                return next(lines, []), sum(1 for _ in lines), {}
            finally:
                csv.field_size_limit(previous)
        columns = list(json.loads(text.readline() or '{"id": "", "label": ""}'))
        return columns, path.stat().st_size and 1 + sum(1 for _ in text), {}


def _origin(about: Mapping[str, Any]) -> list[str]:
    return [f"  {name:<11} {about[name]}" for name in ("model", "method", "rule", "probabilities") if name in about]
