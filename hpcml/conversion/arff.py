"""ARFF files of Weka, MULAN and MEKA, dense or sparse; liac-arff reads header and values.

A nominal attribute is labels, or features `name=value` of 1; one whose values are 0 and 1 is a
number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion, Place, lines_of, placed, reading
from hpcml.conversion.number_rows import NumberRows, NumberSlice, find_unfit, finish
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Part
from hpcml.conversion.table import Batch, Roles, RowNumberSearch, choose_features, describe_rows, leave_out_columns, unfit
from hpcml.errors import ConfigError, DataError
from hpcml.files.lines import BYTE_ORDER_MARK, open_plain, plain_size
from hpcml.files.opening import decoded
from hpcml.partition import offsets

HEADER_BYTES = 1 << 28  # of all lines up to @DATA
BLOCK = 1 << 21
BATCH = 4096  # rows


class Attribute(NamedTuple):
    """An attribute; `values` are those of a nominal one in the header's order, None of others."""

    name: str
    kind: str
    values: list[str] | None

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers: it says so, or is nominal with the values 0 and 1."""
        return self.kind in ("NUMERIC", "REAL", "INTEGER") or (self.values is not None and set(self.values) <= {"0", "1"})

    @property
    def features(self) -> list[str]:
        """The names of the features that it becomes."""
        return [self.name] if self.is_number or self.values is None else [f"{self.name}={value}" for value in self.values]


def read_header(path: Path, max_line: int) -> tuple[list[Attribute], int]:
    """Return the attributes, and the byte at which the rows begin. Raises DataError, and as `open_plain`."""
    import arff

    lines: list[str] = []
    begin, is_data = 0, False
    with open_plain(path) as file:
        while not is_data and (line := file.readline(max_line + 1)):
            where = f"{path}: line {len(lines) + 1}"
            if len(line) > max_line or begin > HEADER_BYTES:
                raise DataError(f"{where}: the header is too long; expected lines with @ATTRIBUTE, then @DATA")
            begin += len(line)
            with placed(where):
                lines.append(decoded(line.removeprefix(BYTE_ORDER_MARK if not lines else b"")))
            text = lines[-1].strip()
            is_data = text.upper().startswith("@DATA")
            if text[:1] not in ("", "%", "@"):
                raise DataError(f"{where}: {text[:60]!r}, but expected @RELATION, @ATTRIBUTE or @DATA")
    if not lines:
        raise DataError(f"{path}: the file is empty; expected an ARFF file with @RELATION, @ATTRIBUTE and @DATA")
    if not is_data:
        raise DataError(f"{path}: no line @DATA; it is truncated, or no ARFF file")
    try:
        attributes = arff.ArffDecoder().decode(iter(lines), return_type=arff.DENSE_GEN)["attributes"]
    except (arff.ArffException, ValueError, TypeError, IndexError) as error:
        reason = " ".join(str(error).split()).split(", at line")[0].rstrip(".")
        raise DataError(f"{path}: line {getattr(error, 'line', len(lines))}: {reason or 'cannot be read'}") from None
    described = [
        Attribute(name, "NOMINAL" if isinstance(kind, list) else kind, list(kind) if isinstance(kind, list) else None)
        for name, kind in attributes
    ]
    return described, begin


def read_arff(task: Conversion) -> Part:
    """Collective. Read this rank's lines. Raises DataError that names the line."""
    (path,) = task.inputs
    with mpi.agreed(task.comm, f"reading {task.what}"):
        try:
            import arff  # noqa: F401
        except ImportError:
            raise ConfigError("arff needs the package liac-arff; install it: pip install 'hpcml[tables]'") from None
    attributes, header_end = mpi.run_on_root(task.comm, f"reading {task.what}", lambda: read_header(path, task.max_line))
    size = mpi.run_on_root(task.comm, f"reading {task.what}", lambda: plain_size(path))
    begin, end = (header_end + place for place in task.share(size - header_end))
    names = [attribute.name for attribute in attributes]
    roles = Roles.of(task.options, names)
    with reading(task):
        roles.check(str(path), names)
        if not roles.labels and not roles.indicators and task.like is None:
            raise ConfigError(f"{path}: name the attributes that are labels, with --labels (classes) or --indicators (each 0 or 1)")
        features, reasons = choose_features(task, roles, {each.name: each.features for each in attributes})
        expansion = _Expansion(path, attributes, features, () if task.like is None else task.like.feature_names or ())
        rows = NumberRows(task, expansion.names, len(expansion.names), with_ids=roles.id is not None, others=names)
        search = RowNumberSearch(task, roles, [name for name in features if name in expansion.names_of_numbers])

        def add(lines: Sequence[tuple[Place, bytes]]) -> Batch:
            some = list(_decode(lines, attributes))
            places, values = [place for place, _ in some], [row for _, row in some]
            block = expansion.rows_of(values, places, task.options)
            columns: dict[str, Any] = {}
            for number, attribute in enumerate(attributes):
                if attribute.name in {*roles.labels, *roles.indicators, *search.names, roles.id, roles.split, roles.group}:
                    # A value that a sparse row leaves out is 0, or the first of nominal values.
                    is_zero = attribute.values is None and attribute.is_number
                    left_out = 0.0 if is_zero else (attribute.values or [""])[0]
                    column = [row.get(number, left_out) for row in values]
                    is_number = attribute.name in search.names
                    columns[attribute.name] = np.array([_as_number(value) for value in column]) if is_number else column
            batch = Batch(len(values), columns, places.__getitem__)
            describe_rows(rows, batch, roles, task.options)
            rows.add(block)
            return batch

        lines = lines_of(task, path, begin, end, BLOCK)
        while some := list(islice(lines, BATCH)):
            for batch in task.bad.divided(some, add):
                if batch.n_rows:  # not only comments
                    search.add(batch)
    leave_out_columns(task, rows, search, reasons)
    task.log(f"{path}: read")
    return finish(task, rows)


Row = dict[int, Any]  # values by attribute; those that a sparse row leaves out are missing


def _decode(lines: Iterable[tuple[Place, bytes]], attributes: Sequence[Attribute]) -> Iterator[tuple[Place, Row]]:
    """Yield the rows of lines. Raises DataError that names the line."""
    import arff

    convert = [str] * len(attributes)  # liac-arff splits a line into values, None for a missing one
    kinds = [(None if each.values is None else set(each.values), each.is_number) for each in attributes]
    for place, line in lines:
        with placed(place):
            text = decoded(line).strip()
        if not text or text.startswith("%"):
            continue
        try:
            if text.startswith("{"):
                (row,) = arff.LODGeneratorData().decode_rows(iter([text]), convert)
            else:
                (values,) = arff.DenseGeneratorData().decode_rows(iter([text]), convert)
                row = dict(enumerate(values))
        except arff.BadDataFormat:
            what = "a sparse row {index value, ...}" if text.startswith("{") else f"{len(attributes)} values with commas between"
            raise DataError(f"{place}: {text[:60]!r}, but expected {what}") from None
        except (arff.ArffException, ValueError, IndexError, TypeError, StopIteration) as error:
            raise DataError(f"{place}: {' '.join(str(error).split()) or 'cannot be read'}") from None
        if row and not 0 <= min(row) <= max(row) < len(attributes):
            wrong = min(row) if min(row) < 0 else max(row)
            raise DataError(f"{place}: attribute {wrong}, but expected 0 to {len(attributes) - 1}")
        for number, value in row.items():
            known, is_number = kinds[number]
            if value is None:
                continue
            if known is not None and value not in known:
                few = ", ".join(attributes[number].values[:6])
                raise DataError(f"{place}: attribute {attributes[number].name!r}: {value!r}, but expected one of {few}")
            try:
                row[number] = float(value) if known is None and is_number else value
            except ValueError:
                raise DataError(f"{place}: attribute {attributes[number].name!r}: {value!r}, but expected a number") from None
        yield place, row


def _as_number(value: Any) -> float:
    try:
        return math.nan if value is None else float(value)
    except ValueError:
        return math.inf  # not NaN, which is a missing value


class _Expansion:
    """The features that attributes become: a number is one, a nominal one one for each value."""

    def __init__(self, path: Path, attributes: Sequence[Attribute], chosen: Sequence[str], known: Sequence[str]) -> None:
        """`known`: the features of --like. Values that only that file declares are 0 in all rows. Raises DataError for an
        attribute that cannot be features.
        """
        self.attributes = attributes
        self.names: list[str] = []
        self.names_of_numbers: set[str] = set()
        self.first: dict[int, int] = {}  # column of each attribute that is features
        self.always: list[tuple[int, int]] = []  # (attribute, column) that a row has 1 in by leaving the attribute out
        self.places: dict[int, dict[str, int]] = {}  # of each value of nominal ones
        wanted, declared = set(chosen), {name for attribute in attributes for name in attribute.features}
        undeclared = [name for name in known if name not in declared]
        for number, attribute in enumerate(attributes):
            if attribute.name not in wanted:
                continue
            self.first[number] = len(self.names)
            if attribute.is_number:
                self.names.append(attribute.name)
                self.names_of_numbers.add(attribute.name)
                if attribute.values is not None and float(attribute.values[0]):
                    self.always.append((number, self.first[number]))
            elif attribute.values is not None:
                self.places[number] = {value: place for place, value in enumerate(attribute.values)}
                self.names += attribute.features
                self.names += [name for name in undeclared if name.startswith(f"{attribute.name}=")]
                self.always.append((number, self.first[number]))
            else:
                raise DataError(
                    f"{path}: attribute {attribute.name!r} is {attribute.kind.lower()}, but features are numbers or nominal; name "
                    "others with --features"
                )

    def rows_of(self, decoded_rows: Sequence[Row], places: Sequence[Place], options: ConvertOptions) -> NumberSlice:
        """Return X of rows. Raises DataError that names the line."""
        indices: list[int] = []
        data: list[float] = []
        lengths: list[int] = []
        for row, values in enumerate(decoded_rows):
            found = {column: 1.0 for number, column in self.always if number not in values}
            for number, value in values.items():
                if (column := self.first.get(number)) is None:
                    continue
                if value is None:
                    if not options.missing_as_zero:
                        name = self.attributes[number].name
                        raise DataError(f"{places[row]}: attribute {name!r}: {unfit(math.nan)}")
                elif number in self.places:
                    found[column + self.places[number][value]] = 1.0
                else:
                    found[column] = float(value)
            columns = sorted(found)
            indices += columns
            data += [found[column] for column in columns]
            lengths.append(len(columns))
        array = np.array(data, dtype=np.float64)
        if (wrong := find_unfit(array)) >= 0:
            row = int(np.searchsorted(offsets(lengths), wrong, side="right")) - 1
            raise DataError(f"{places[row]}: feature {self.names[indices[wrong]]!r}: {unfit(float(array[wrong]))}")
        return NumberSlice.of_csr(offsets(lengths), np.array(indices, dtype=np.int64), array)
