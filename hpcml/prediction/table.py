"""Tables of predictions as text, HDF5 or Parquet: one line per row and label, best first.

Columns are `id` (or the row number), `label`, `title` if the labels have titles, and `probability` or `score`. Text and Parquet
hold float32 numbers, HDF5 holds float64.
"""

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from hpcml.errors import ConfigError, DataError, OptionError, file_error
from hpcml.files.hdf5 import create_strings, stamp, write_label_titles, write_strings
from hpcml.files.slabs import open_for_update
from hpcml.files.table import csv_lines, pyarrow, storable
from hpcml.model.trained import Trained

BIOASQ, PARQUET, HDF5 = ".json", ".parquet", ".h5"
DELIMITERS = {".csv": ",", ".tsv": "\t"}
TEXTS = (*DELIMITERS, ".jsonl")  # formats of standard output
FORMATS = (*TEXTS, PARQUET, HDF5, BIOASQ)
BLOCK = 1 << 16  # lines formatted at a time
GROUP = 1 << 17  # lines per row group of Parquet
FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass
class RowLabels:
    """Labels of n consecutive rows, best first: row rows[i] has label labels[i] with values[i]."""

    first: int  # index of the first row in the output
    ids: Sequence[str | int]  # (n,) ids or numbers of the rows
    rows: np.ndarray  # (n_lines,) ascending indices into `ids`
    labels: np.ndarray  # (n_lines,) label numbers
    values: np.ndarray  # (n_lines,) probabilities, or scores if the model has none


def format_numbers(values: np.ndarray, pattern: str = "%.9g\n") -> list[str]:
    r"""Format numbers as float32 with the fewest digits that restore the float32; `pattern` ends with "\n"."""
    single = np.clip(values, -FLOAT32_MAX, FLOAT32_MAX).astype(np.float32)
    exact = single.astype(np.float64)
    with np.errstate(divide="ignore"):
        exponents = np.where(exact == 0.0, 0.0, np.floor(np.log10(np.abs(exact))))
    rounded = exact.copy()
    for digits in (8, 7, 6):  # %.9g omits trailing zeros, so fewer digits need no attempt
        scale = 10.0 ** (digits - 1 - exponents)
        fewer = np.rint(exact * scale) / scale
        rounded = np.where(fewer.astype(np.float32) == single, fewer, rounded)
    return (pattern * values.size % tuple(rounded.tolist())).splitlines(keepends=True)


class TextTable:
    end = b""

    def __init__(self, model: Trained, column: str, ending: str) -> None:
        names, titles = model.label_names, model.label_titles
        if (delimiter := DELIMITERS.get(ending)) is None:
            self.begin, dumps = b"", partial(json.dumps, ensure_ascii=False)
            texts = list(map(dumps, names))
            if titles is not None:
                texts = [f'{text}, "title": {dumps(title)}' for text, title in zip(texts, titles, strict=True)]
            self.labels, self.number = [f'{text}, "{column}": ' for text in texts], "%.9g}\n"
            self.id_cells = lambda ids: [f'{{"id": {dumps(each)}, "label": ' for each in ids]
        else:
            rows = [[name] for name in names] if titles is None else [list(each) for each in zip(names, titles, strict=True)]
            self.labels, self.number = [line[:-1] + delimiter for line in csv_lines(rows, delimiter)], "%.9g\n"
            header = ["id", "label", *([] if titles is None else ["title"]), column]
            self.begin = delimiter.join(header).encode() + b"\n"
            self.id_cells = lambda ids: [line[:-1] + delimiter for line in csv_lines(([name] for name in ids), delimiter)]

    def encode(self, lines: RowLabels) -> Iterator[bytes]:
        ids = self.id_cells(lines.ids) if lines.labels.size else []
        for begin in range(0, lines.labels.size, BLOCK):
            block = slice(begin, begin + BLOCK)
            cells = [""] * (3 * lines.labels[block].size)
            cells[::3] = map(ids.__getitem__, lines.rows[block].tolist())
            cells[1::3] = map(self.labels.__getitem__, lines.labels[block].tolist())
            cells[2::3] = format_numbers(lines.values[block], self.number)
            yield "".join(cells).encode(errors="backslashreplace")  # lone surrogates become escapes of JSON


class BioasqJson:
    """BioASQ JSON: the labels of each row, including rows without labels."""

    begin, end = b'{"documents": [', b"\n]}\n"

    def __init__(self, model: Trained) -> None:
        self.names = model.label_names

    def encode(self, lines: RowLabels) -> Iterator[bytes]:
        bounds = np.searchsorted(lines.rows, np.arange(len(lines.ids) + 1)).tolist()
        for row, name in enumerate(lines.ids):
            text = str(name)
            pmid = int(text) if text.isascii() and text.isdigit() and str(int(text)) == text else text
            labels = [self.names[label] for label in lines.labels[bounds[row] : bounds[row + 1]].tolist()]
            yield (("," if lines.first + row else "") + "\n" + json.dumps({"pmid": pmid, "labels": labels})).encode()


class BinaryTable:
    """A table as HDF5 or Parquet: ranks `encode` lines as arrays, and rank 0 writes the file from them with `write`."""

    begin = end = b""

    def __init__(self, model: Trained, column: str, ending: str, has_ids: bool, about: dict[str, str]) -> None:
        self.model, self.column, self.has_ids, self.about = model, column, has_ids, about
        self.write = self._write_hdf5
        if ending == PARQUET:
            self.write = self._write_parquet
            pyarrow()

    def encode(self, lines: RowLabels) -> Iterator[bytes]:
        """Yield lines as saved NumPy arrays: labels, values, row numbers or lengths of the UTF-8 ids, and the ids."""
        for begin in range(0, lines.labels.size, BLOCK):
            block = slice(begin, begin + BLOCK)
            ids = [lines.ids[row] for row in lines.rows[block].tolist()]
            codes = [storable(name).encode() for name in ids if isinstance(name, str)]
            numbers = [len(code) for code in codes] if self.has_ids else ids
            file = io.BytesIO()
            for values, dtype in ((lines.labels[block], "<i4"), (lines.values[block], "<f8"), (numbers, "<i8")):
                np.lib.format.write_array(file, np.asarray(values, dtype=dtype))
            np.lib.format.write_array(file, np.frombuffer(b"".join(codes), dtype=np.uint8))
            yield file.getvalue()

    def _blocks(self, parts: Iterable[Path]) -> Iterator[list[Any]]:
        """Yield labels, values and ids of GROUP lines at a time, so the bytes of the file do not depend on the parts."""
        waiting: list[Any] = [np.empty(0, "<i4"), np.empty(0), []]
        for part in parts:
            size = part.stat().st_size
            with part.open("rb") as file:
                while file.tell() < size:
                    labels, values, numbers, text = (np.lib.format.read_array(file) for _ in range(4))
                    ids = numbers.tolist()
                    if self.has_ids:
                        codes = text.tobytes()
                        ids = [codes[begin:end].decode() for begin, end in pairwise([0, *np.cumsum(numbers).tolist()])]
                    waiting = [np.append(waiting[0], labels), np.append(waiting[1], values), [*waiting[2], *ids]]
                    if len(waiting[2]) >= GROUP:
                        yield [each[:GROUP] for each in waiting]
                        waiting = [each[GROUP:] for each in waiting]
        yield waiting

    def _write_hdf5(self, path: Path, parts: Iterable[Path], n_lines: int, target: Path) -> None:
        with open_for_update(path, new=True, target=target) as file:
            stamp(file, "predictions")
            file.attrs.update(self.about)
            write_strings(file, "label_names", self.model.label_names)
            write_label_titles(file, self.model.label_titles)
            columns = [file.create_dataset("label", (n_lines,), "<i4"), file.create_dataset(self.column, (n_lines,), "<f8")]
            columns.append(create_strings(file, "id", n_lines) if self.has_ids else file.create_dataset("id", (n_lines,), "<i8"))
            begin = 0
            for block in self._blocks(parts):
                for column, values in zip(columns, block, strict=True):
                    column[begin : begin + block[0].size] = values
                begin += block[0].size

    def _write_parquet(self, path: Path, parts: Iterable[Path], n_lines: int, target: Path) -> None:
        pa = pyarrow()
        names = {"label": self.model.label_names, "title": self.model.label_titles}
        texts = {name: pa.array(list(map(storable, values))) for name, values in names.items() if values is not None}
        fields = [("id", pa.string() if self.has_ids else pa.int64()), *((name, pa.string()) for name in texts)]
        schema = pa.schema([*fields, (self.column, pa.float32())], metadata={"hpcml": json.dumps(self.about)})
        try:
            with path.open("wb") as file, pa.parquet.ParquetWriter(file, schema) as out:
                for labels, values, ids in self._blocks(parts):
                    indices, numbers = pa.array(labels), pa.array(np.clip(values, -FLOAT32_MAX, FLOAT32_MAX).astype(np.float32))
                    columns = [pa.array(ids, fields[0][1]), *(text.take(indices) for text in texts.values()), numbers]
                    out.write_table(pa.table(columns, schema=schema), row_group_size=GROUP)
        except OSError as error:
            raise file_error(target, "write", error) from None


Table: TypeAlias = TextTable | BioasqJson | BinaryTable


def about(model: Trained, rule: str) -> dict[str, str]:
    """Return the attributes of a file: model, method, rule that assigns labels, and origin of the probabilities."""
    texts = {"model": "/".join(model.path.resolve().parts[-2:]), "method": str(model.attrs.get("method", "")), "rule": rule}
    return texts | ({"probabilities": model.probability_source} if model.probability_source else {})


def make_table(model: Trained, output: Path, has_ids: bool, rule: str, text_format: str | None = None) -> Table:
    """Return the table for the extension of `output`, or for `text_format` if it is "-" (standard output). Raises ConfigError."""
    to_standard, ending = str(output) == "-", output.suffix.lower()
    if to_standard:
        ending = f".{text_format or 'csv'}"
        if ending not in TEXTS:
            raise OptionError("format", text_format, "expected csv, tsv or jsonl for standard output")
    elif ending not in FORMATS:
        raise ConfigError(f"{output}: unknown file format {ending!r}; the name must end in one of {', '.join(FORMATS)}")
    elif text_format is not None and text_format != ("bioasq" if ending == BIOASQ else ending[1:]):
        raise OptionError("format", text_format, f"does not match the extension of {output}; remove it")
    column = "score" if model.sigmoids is None else "probability"
    if ending in TEXTS:
        return TextTable(model, column, ending)
    if ending == BIOASQ:
        if not has_ids:
            raise DataError("the rows have no ids, which BioASQ JSON needs (pmid); convert the data from a source with ids")
        return BioasqJson(model)
    return BinaryTable(model, column, ending, has_ids, about(model, rule))
