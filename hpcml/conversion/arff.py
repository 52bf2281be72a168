"""ARFF files of Weka, OpenML, MULAN and MEKA, dense or sparse.

A nominal attribute is labels, or features `name=value` of 1; one whose values are 0 and 1 is a number. The grammar is
that of Weka's reader: commas or blanks stand between values, ' or " around them, and backslashes before characters in
quotation marks. But `%` begins a comment only where a value could begin, so that 50% is a value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion, Place, lines_of, placed, reading
from hpcml.conversion.number_rows import NumberRows, NumberSlice, find_unfit, finish
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Part
from hpcml.conversion.table import (
    Batch,
    Roles,
    RowNumberSearch,
    choose_features,
    describe_rows,
    leave_out_columns,
    read_table,
    unfit,
)
from hpcml.errors import ConfigError, DataError, OptionError
from hpcml.files.lines import BYTE_ORDER_MARK, open_plain, plain_size
from hpcml.files.opening import decoded, read_small
from hpcml.log import named, plural
from hpcml.partition import offsets

HEADER_BYTES = 1 << 28  # of all lines up to @DATA
BLOCK = 1 << 21
BATCH = 4096  # rows
KINDS = ("NUMERIC", "REAL", "INTEGER", "STRING", "DATE")
QUOTED = r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*\""""
VALUE = rf"(?:{QUOTED}|[^\s,{{}}'\"%][^\s,{{}}'\"]*)"
# A value, a sign, or the rest of a line: a comment, or what is no value.
TOKEN = re.compile(rf"{VALUE}(?=[\s,{{}}%]|$)|[,{{}}]|\S.*", re.ASCII)
SOUND = re.compile(rf"{VALUE}|[,{{}}]", re.ASCII)
PLAIN = re.compile(r"""[^\s'"{}%]*""")  # a row that needs only be cut at commas
# Not Weka's: a name may have quotation marks without a backslash, such as don't and 'don't'.
NAME = rf"(?:{QUOTED})(?=[\s{{])|'.*?'(?=[\s{{])|[^\s,{{}}'\"%][^\s,{{}}]*"
ATTRIBUTE = re.compile(rf"@attribute\s+({NAME})\s*(.*)", re.ASCII | re.IGNORECASE)
MEKA = re.compile(r"@relation\s[^%:]*:(?:|[^%]*?\s)-C\s+(-?\d+)", re.ASCII | re.IGNORECASE)
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([0-7]{1,3})|(.))")
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
Row = dict[int, Any]  # values by attribute; those that a sparse row leaves out are missing


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


def read_header(path: Path, max_line: int) -> tuple[list[Attribute], list[str], int]:
    """Return the attributes, the names of those that MEKA's -C makes labels, and the byte at which the rows begin.

    Raises DataError that names the line, and as `open_plain`.
    """
    attributes: dict[str, Attribute] = {}
    n_labels, number, begin, is_data = 0, 0, 0, False
    with open_plain(path) as file:
        while not is_data and (line := file.readline(max_line + 1)):
            number += 1
            where = f"{path}: line {number}"
            if len(line) > max_line or begin > HEADER_BYTES:
                raise DataError(f"{where}: the header is too long; expected lines with @ATTRIBUTE, then @DATA")
            begin += len(line)
            with placed(where):
                text = decoded(line.removeprefix(BYTE_ORDER_MARK if number == 1 else b"")).strip()
                keyword = text[:10].upper()
                is_data = keyword.startswith("@DATA")
                if text[:1] not in ("", "%", "@"):
                    raise ValueError(f"{text[:60]!r}, but expected @RELATION, @ATTRIBUTE or @DATA")
                if (found := MEKA.match(text)) is not None:
                    n_labels = int(found[1])
                if keyword == "@ATTRIBUTE":
                    attribute = parse_attribute(text)
                    if attributes.setdefault(attribute.name, attribute) is not attribute:
                        raise ValueError(f"another attribute has the name {attribute.name!r}; give each a name of its own")
    if not number:
        raise DataError(f"{path}: the file is empty; expected an ARFF file with @RELATION, @ATTRIBUTE and @DATA")
    if not is_data or not attributes:
        raise DataError(f"{path}: no line {'@ATTRIBUTE' if is_data else '@DATA'}; it is truncated, or no ARFF file")
    if abs(n_labels) > len(attributes):
        raise DataError(f"{path}: -C {n_labels} in @RELATION, but there are {plural(len(attributes), 'attribute')}")
    return [*attributes.values()], [*attributes][:n_labels] if n_labels >= 0 else [*attributes][n_labels:], begin


def parse_attribute(text: str) -> Attribute:
    """Return the attribute that a line declares. Raises ValueError."""
    found = ATTRIBUTE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:60]!r}, but expected @ATTRIBUTE, a name and a type; quote a name with blanks, commas or braces")
    name, tokens = _unquoted(found[1]), _without_weight(split_line(found[2]))
    if tokens[:1] == ["{"]:
        values = tokens[1:-1]
        if not values or tokens[-1] != "}" or {*values[1::2]} - {","} or {",", "{", "}"} & {*values[::2]}:
            raise ValueError(f"attribute {name!r}: expected {{value, ...}} with commas between; quote values with blanks")
        return Attribute(name, "NOMINAL", [_unquoted(value) for value in values[::2]])
    kind, what = tokens[0].upper() if tokens else "", " ".join(tokens)[:60]
    if kind not in KINDS or len(tokens) > 1 + (kind == "DATE"):
        raise ValueError(f"attribute {name!r} is of type {what!r}, but expected numeric, string, date or {{value, ...}}")
    return Attribute(name, kind, None)


def split_line(text: str) -> list[str]:
    """Return the values, as they are written, and the signs of a line, without a comment. Raises ValueError."""
    tokens: list[str] = TOKEN.findall(text)
    if tokens and tokens[-1].startswith("%"):
        tokens.pop()
    elif tokens and not SOUND.fullmatch(tokens[-1]):
        raise ValueError(f"{tokens[-1][:60]!r} is no value; quote one with blanks or quotation marks, as in 'it\\'s'")
    return tokens


def _unquoted(token: str) -> str:
    """Return a value without quotation marks and escapes."""
    if token[0] not in "'\"":
        return token
    return ESCAPE.sub(
        lambda of: chr(int(of[1] or of[2], 16 if of[1] else 8)) if of[3] is None else ESCAPED.get(of[3], of[3]), token[1:-1]
    )


def _without_weight(tokens: list[str]) -> list[str]:
    """Return the tokens of a row or an attribute without a weight of 1 behind it. Raises ValueError for another weight."""
    if len(tokens) < 4 or tokens[-3] != "{" or tokens[-1] != "}":
        return tokens
    if _as_number(tokens[-2]) != 1:
        raise ValueError(f"weight {{{tokens[-2]}}}, but weights are not supported; remove it")
    return tokens[: -4 if tokens[-4] == "," else -3]


def parse_row(text: str, n_attributes: int) -> Row:
    """Return the values of a row as they are written, None for a missing one. Raises ValueError."""
    if PLAIN.fullmatch(text):
        values = [None if value in ("?", "") else value for value in text.split(",")]
    else:
        tokens = _without_weight(split_line(text))
        if tokens[:1] == ["{"]:
            return _sparse_row(text, tokens, n_attributes)
        if "{" in tokens or "}" in tokens:
            raise ValueError(f"{text[:60]!r}: a brace in a row; quote values with braces")
        values, last = [], ","
        for token in [*tokens, ","]:
            if token != ",":
                values.append(None if token == "?" else _unquoted(token))
            elif last == ",":
                values.append(None)
            last = token
    if len(values) != n_attributes:
        raise ValueError(f"{text[:60]!r}, but expected {n_attributes} values with commas between; quote values with blanks")
    return dict(enumerate(values))


def _sparse_row(text: str, tokens: Sequence[str], n_attributes: int) -> Row:
    """Return the values of a row {index value, ...}. Raises ValueError."""
    pairs = tokens[1:-1]
    indices, values = pairs[::3], pairs[1::3]
    is_sound = tokens[-1] == "}" and len(pairs) % 3 != 1 and {*pairs[2::3]} <= {","} and not {",", "{", "}"} & {*values}
    if not is_sound or not all(map(str.isdecimal, indices)):
        raise ValueError(f"{text[:60]!r}, but expected a sparse row {{index value, ...}}")
    numbers = [*map(int, indices)]
    if not {"'", '"', "?"}.isdisjoint(text):
        values = [None if value == "?" else _unquoted(value) for value in values]
    row: Row = dict(zip(numbers, values, strict=True))
    if len(row) < len(numbers):
        twice = next(n for n in numbers if numbers.count(n) > 1)
        raise ValueError(f"two values of attribute {twice} (from 0); give one")
    if row and max(row) >= n_attributes:
        raise ValueError(f"attribute {max(row)}, but expected 0 to {n_attributes - 1}")
    return row


def read_label_xml(path: Path) -> list[str]:
    """Return the names of the labels in a file of MULAN, also of those in other labels. Raises DataError."""
    from xml.etree import ElementTree

    try:
        if "<!ENTITY" in (text := read_small(path)):
            raise DataError(f"{path}: an entity, which is not supported; expected <labels> with <label name=...>")
        labels = [each for each in ElementTree.fromstring(text).iter() if each.tag.rpartition("}")[2] == "label"]
    except ElementTree.ParseError as error:
        raise DataError(f"{path}: line {error.position[0]}: no XML ({error})") from None
    names = [each.get("name") for each in labels]
    if not names or None in names:
        raise DataError(f"{path}: a label without a name, or none; expected <labels> with <label name=...>")
    return names


def _label_attributes(task: Conversion, names: Sequence[str], of_relation: list[str]) -> list[str]:
    """Return the indicators by --label-xml or else by the relation; none if options name labels. Raises ConfigError, DataError."""
    (path,), xml, roles = task.inputs, task.options.label_xml, Roles.of(task.options, names)
    taken = {name for _, name in roles.named()}
    labels = [] if roles.labels or roles.indicators else of_relation if xml is None else read_label_xml(xml)
    if xml is not None and not labels:
        raise OptionError("label_xml", xml, "has no effect with", "labels", "indicators")
    if missing := {*labels} - {*names}:
        raise DataError(f"{xml}: label {named(min(missing))!r} is no attribute of {path}")
    others = [name for name in of_relation if name not in taken and name not in labels]
    if others and not roles.features and not roles.texts and task.like is None:
        task.log(
            f"warning: {path}: {named(others[0])!r} is a label by -C of the relation, but is used as a feature"
            f" ({plural(len(others), 'such attribute')} in all); --features names the attributes to use"
        )
    return [name for name in labels if name not in taken]


def read_arff(task: Conversion) -> Part:
    """Collective. Read this rank's lines. Raises DataError that names the line."""
    (path,), doing, like = task.inputs, f"reading {task.what}", task.like
    attributes, of_relation, first = mpi.run_on_root(task.comm, doing, lambda: read_header(path, task.max_line))
    names = [attribute.name for attribute in attributes]
    size = mpi.run_on_root(task.comm, doing, lambda: plain_size(path))
    begin, end = task.share(size - first)
    lines = lines_of(task, path, first + begin, first + end, BLOCK)
    blocks = iter(lambda: list(islice(lines, BATCH)), [])
    if indicators := mpi.run_on_root(task.comm, doing, lambda: _label_attributes(task, names, of_relation)):
        task.log(f"{path}: {plural(len(indicators), 'label')} by {task.options.label_xml or '-C of the relation'}")
        task = replace(task, options=replace(task.options, indicators=tuple(indicators)))
    if task.options.text or task.options.fields or (like is not None and like.text is not None):

        def batches(roles: Roles, _: Sequence[str]) -> Iterator[Batch]:
            for some in blocks:
                found = task.bad.divided(some, lambda lines: _batch(*_decode(lines, attributes), attributes, roles, ()))
                yield from (batch for batch in found if batch.n_rows)  # not only comments

        return read_table(task, [names], batches)
    roles = Roles.of(task.options, names)
    with reading(task):
        roles.check(str(path), names)
        if not roles.labels and not roles.indicators and like is None:
            raise ConfigError(f"{path}: name the attributes that are labels, with --labels, --indicators or --label-xml")
        features, reasons = choose_features(task, roles, {each.name: each.features for each in attributes if each.kind != "DATE"})
        dates = {each.name for each in attributes if each.kind == "DATE"} - {name for _, name in roles.named()}
        if not roles.features:
            reasons |= dict.fromkeys(sorted(dates), "date")
        expansion = _Expansion(path, attributes, features, () if like is None else like.feature_names or ())
        number_rows = NumberRows(task, expansion.names, len(expansion.names), with_ids=roles.id is not None, others=names)
        search = RowNumberSearch(task, roles, [name for name in features if name in expansion.names_of_numbers])

        def add(lines: Sequence[tuple[Place, bytes]]) -> Batch:
            places, rows = _decode(lines, attributes)
            block = expansion.rows_of(rows, places, task.options)
            batch = _batch(places, rows, attributes, roles, search.names)
            describe_rows(number_rows, batch, roles, task.options)
            number_rows.add(block)
            return batch

        for some in blocks:
            for batch in task.bad.divided(some, add):
                if batch.n_rows:
                    search.add(batch)
    leave_out_columns(task, number_rows, search, reasons)
    task.log.detail(f"{path}: read")
    return finish(task, number_rows)


def _batch(
    places: Sequence[Place], rows: Sequence[Row], attributes: Sequence[Attribute], roles: Roles, numbers: Collection[str]
) -> Batch:
    """Return the columns of the attributes that have a role, and of `numbers` as arrays."""
    columns: dict[str, Any] = {}
    used = {name for option, name in roles.named() if option != "--features"}
    for number, attribute in enumerate(attributes):
        if attribute.name not in used and attribute.name not in numbers:
            continue
        # A value that a sparse row leaves out is 0, or the first of nominal values.
        left_out = 0.0 if attribute.values is None and attribute.is_number else (attribute.values or [""])[0]
        column = [row.get(number, left_out) for row in rows]
        columns[attribute.name] = np.array([_as_number(value) for value in column]) if attribute.name in numbers else column
    return Batch(len(rows), columns, places.__getitem__)


def _decode(lines: Sequence[tuple[Place, bytes]], attributes: Sequence[Attribute]) -> tuple[list[Place], list[Row]]:
    """Return the rows of lines. Raises DataError that names the line."""
    # Of each attribute the values of a nominal one, no value of a number, None of a text.
    kinds = [set(each.values or ()) if each.is_number or each.values else None for each in attributes]
    places: list[Place] = []
    rows: list[Row] = []
    for place, line in lines:
        with placed(place):
            text = decoded(line).strip()
            if not text or text.startswith("%"):
                continue
            row = parse_row(text, len(attributes))
            as_number = float if text.isascii() and "_" not in text else _plain_number
            for number, value in row.items():
                known = kinds[number]
                if value is None or known is None or value in known:
                    continue
                try:
                    row[number] = as_number("" if known else value)
                except ValueError:
                    expected = f"one of {', '.join(attributes[number].values[:6])}" if known else "a number"
                    raise ValueError(f"attribute {attributes[number].name!r}: {value!r}, but expected {expected}") from None
        places.append(place)
        rows.append(row)
    return places, rows


def _plain_number(value: str) -> float:
    """Return `float(value)`, but not of underscores and the digits of other scripts. Raises ValueError."""
    if "_" in value or not value.isascii():
        raise ValueError(value)
    return float(value)


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
                    "others with --features, or texts with --text"
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
