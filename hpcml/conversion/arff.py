"""ARFF files of Weka, OpenML, MULAN and MEKA, dense or sparse.

A nominal attribute becomes labels, or features `name=value` of 1; one with the values 0 and 1 is a number. The grammar is that of
Weka's reader: values are separated by commas or white space, may be quoted with ' or ", and quoted values may contain backslash
escapes. Unlike in Weka, `%` begins a comment only where a value could begin, so 50% is a value.
"""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion import table
from hpcml.conversion.conversion import Conversion, LineLocation, error_location, lines_of, reading
from hpcml.conversion.number_rows import NumberRows, NumberSlice, find_non_finite, finish
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Part
from hpcml.conversion.table import Batch, Roles
from hpcml.errors import ConfigError, DataError, OptionError
from hpcml.files.lines import BYTE_ORDER_MARK, open_decompressed, uncompressed_size
from hpcml.files.opening import decoded, read_small
from hpcml.log import named, plural
from hpcml.partition import offsets

HEADER_BYTES = 1 << 28  # up to @DATA
BLOCK = 1 << 21
BATCH = 4096  # rows
KINDS = ("NUMERIC", "REAL", "INTEGER", "STRING", "DATE")
QUOTED = r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*\""""
VALUE = rf"(?:{QUOTED}|[^\s,{{}}'\"%][^\s,{{}}'\"]*)"
# A value, a punctuation mark, or the rest of a line: a comment or an invalid value.
TOKEN = re.compile(rf"{VALUE}(?=[\s,{{}}%]|$)|[,{{}}]|\S.*", re.ASCII)
SOUND = re.compile(rf"{VALUE}|[,{{}}]", re.ASCII)
PLAIN = re.compile(r"""[^\s'"{}%]*""")  # a row that can be split at commas
# Unlike in Weka, a name may contain unescaped quotation marks, as in don't and 'don't'.
NAME = rf"(?:{QUOTED})(?=[\s{{])|'.*?'(?=[\s{{])|[^\s,{{}}'\"%][^\s,{{}}]*"
ATTRIBUTE = re.compile(rf"@attribute\s+({NAME})\s*(.*)", re.ASCII | re.IGNORECASE)
MEKA = re.compile(r"@relation\s[^%:]*:(?:|[^%]*?\s)-C\s+(-?\d+)", re.ASCII | re.IGNORECASE)
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([0-7]{1,3})|(.))")
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
Row = dict[int, Any]  # values by attribute number, without those omitted from a sparse row


class Attribute(NamedTuple):
    name: str
    kind: str
    values: list[str] | None

    @property
    def is_number(self) -> bool:
        """Also true for nominal values 0 and 1."""
        return self.kind in ("NUMERIC", "REAL", "INTEGER") or (self.values is not None and set(self.values) <= {"0", "1"})

    @property
    def features(self) -> list[str]:
        return [self.name] if self.is_number or self.values is None else [f"{self.name}={value}" for value in self.values]


def read_header(path: Path, max_line: int) -> tuple[list[Attribute], list[str], int]:
    attributes: dict[str, Attribute] = {}
    n_labels, number, begin, is_data = 0, 0, 0, False
    with open_decompressed(path) as file:
        while not is_data and (line := file.readline(max_line + 1)):
            number += 1
            where = f"{path}: line {number}"
            if len(line) > max_line or begin > HEADER_BYTES:
                raise DataError(f"{where}: the header is too long; expected lines with @ATTRIBUTE, then @DATA")
            begin += len(line)
            with error_location(where):
                text = decoded(line.removeprefix(BYTE_ORDER_MARK if number == 1 else b"")).strip()
                keyword = text[:10].upper()
                is_data = keyword.startswith("@DATA")
                if text[:1] not in ("", "%", "@"):
                    raise ValueError(f"{text[:60]!r}, but expected @RELATION, @ATTRIBUTE or @DATA")
                if (relation := MEKA.match(text)) is not None:
                    n_labels = int(relation[1])
                if keyword == "@ATTRIBUTE":
                    attribute = parse_attribute(text)
                    if attributes.setdefault(attribute.name, attribute) is not attribute:
                        raise ValueError(f"two attributes have the name {attribute.name!r}; rename one")
    if not number:
        raise DataError(f"{path}: the file is empty; expected an ARFF file with @RELATION, @ATTRIBUTE and @DATA")
    if not is_data or not attributes:
        raise DataError(f"{path}: no line {'@ATTRIBUTE' if is_data else '@DATA'}; it is truncated, or no ARFF file")
    if abs(n_labels) > len(attributes):
        raise DataError(f"{path}: -C {n_labels} in @RELATION, but there are {plural(len(attributes), 'attribute')}")
    return [*attributes.values()], [*attributes][:n_labels] if n_labels >= 0 else [*attributes][n_labels:], begin


def parse_attribute(text: str) -> Attribute:
    declaration = ATTRIBUTE.fullmatch(text)
    if declaration is None:
        raise ValueError(f"{text[:60]!r}, but expected @ATTRIBUTE, a name and a type; quote names with spaces, commas or braces")
    name, tokens = _unquoted(declaration[1]), _without_weight(split_line(declaration[2]))
    if tokens[:1] == ["{"]:
        values = tokens[1:-1]
        if not values or tokens[-1] != "}" or {*values[1::2]} - {","} or {",", "{", "}"} & {*values[::2]}:
            raise ValueError(f"attribute {name!r}: expected {{value, ...}} separated by commas; quote values with spaces")
        return Attribute(name, "NOMINAL", [_unquoted(value) for value in values[::2]])
    kind, type_text = tokens[0].upper() if tokens else "", " ".join(tokens)[:60]
    if kind not in KINDS or len(tokens) > 1 + (kind == "DATE"):
        raise ValueError(f"attribute {name!r} is of type {type_text!r}, but expected numeric, string, date or {{value, ...}}")
    return Attribute(name, kind, None)


def split_line(text: str) -> list[str]:
    tokens: list[str] = TOKEN.findall(text)
    if tokens and tokens[-1].startswith("%"):
        tokens.pop()
    elif tokens and not SOUND.fullmatch(tokens[-1]):
        raise ValueError(f"{tokens[-1][:60]!r} is not a value; quote values with spaces or quotation marks, as in 'it\\'s'")
    return tokens


def _unquoted(token: str) -> str:
    if token[0] not in "'\"":
        return token
    return ESCAPE.sub(
        lambda of: chr(int(of[1] or of[2], 16 if of[1] else 8)) if of[3] is None else ESCAPED.get(of[3], of[3]), token[1:-1]
    )


def _without_weight(tokens: list[str]) -> list[str]:
    if len(tokens) < 4 or tokens[-3] != "{" or tokens[-1] != "}":
        return tokens
    if _as_number(tokens[-2]) != 1:
        raise ValueError(f"weight {{{tokens[-2]}}}, but weights are not supported; remove it")
    return tokens[: -4 if tokens[-4] == "," else -3]


def parse_row(text: str, n_attributes: int) -> Row:
    """Return the raw values of a row, None for a missing one. Raises ValueError."""
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
        raise ValueError(f"{text[:60]!r}, but expected {n_attributes} comma-separated values; quote values with spaces")
    return dict(enumerate(values))


def _sparse_row(text: str, tokens: Sequence[str], n_attributes: int) -> Row:
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
        raise ValueError(f"two values of attribute {twice} (from 0); expected one")
    if row and max(row) >= n_attributes:
        raise ValueError(f"attribute {max(row)}, but expected 0 to {n_attributes - 1}")
    return row


def read_label_xml(path: Path) -> list[str]:
    from xml.etree import ElementTree

    try:
        if "<!ENTITY" in (text := read_small(path)):
            raise DataError(f"{path}: entities are not supported; expected <labels> with <label name=...>")
        labels = [each for each in ElementTree.fromstring(text).iter() if each.tag.rpartition("}")[2] == "label"]
    except ElementTree.ParseError as error:
        raise DataError(f"{path}: line {error.position[0]}: invalid XML ({error})") from None
    names = [each.get("name") for each in labels]
    if not names or None in names:
        raise DataError(f"{path}: no labels, or a label without a name; expected <labels> with <label name=...>")
    return names


def _label_attributes(task: Conversion, names: Sequence[str], relation_labels: list[str]) -> list[str]:
    (path,), xml, roles = task.inputs, task.options.label_xml, Roles.from_options(task.options, names)
    named_attributes = {name for _, name in roles.named_columns()}
    labels = [] if roles.labels or roles.indicators else relation_labels if xml is None else read_label_xml(xml)
    if xml is not None and not labels:
        raise OptionError("label_xml", xml, "has no effect with", "labels", "indicators")
    if missing := {*labels} - {*names}:
        raise DataError(f"{xml}: label {named(min(missing))!r} is not an attribute of {path}")
    others = [name for name in relation_labels if name not in named_attributes and name not in labels]
    if others and not roles.features and not roles.texts and task.like is None:
        what = f"{named(others[0])!r} is a label by -C of the relation, but is used as a feature"
        count = plural(len(others), "such attribute")
        task.log(f"warning: {path}: {what} ({count} in all); choose features with --features")
    return [name for name in labels if name not in named_attributes]


def read_arff(task: Conversion) -> Part:
    (path,), doing, like = task.inputs, f"reading {task.input_name}", task.like
    attributes, relation_labels, first = mpi.run_on_root(task.comm, doing, lambda: read_header(path, task.max_line))
    names = [attribute.name for attribute in attributes]
    size = mpi.run_on_root(task.comm, doing, lambda: uncompressed_size(path))
    begin, end = task.share(size - first)
    lines = lines_of(task, path, first + begin, first + end, BLOCK)
    blocks = iter(lambda: list(islice(lines, BATCH)), [])
    if indicators := mpi.run_on_root(task.comm, doing, lambda: _label_attributes(task, names, relation_labels)):
        task.log(f"{path}: {plural(len(indicators), 'label')} by {task.options.label_xml or '-C of the relation'}")
        task = replace(task, options=replace(task.options, indicators=tuple(indicators)))
    if task.options.text or task.options.fields or (like is not None and like.text is not None):

        def batches(roles: Roles, _: Sequence[str]) -> Iterator[Batch]:
            for lines_of_block in blocks:
                parts = task.bad.divided(lines_of_block, lambda lines: _batch(*_decode(lines, attributes), attributes, roles, ()))
                yield from (batch for batch in parts if batch.n_rows)  # skip batches of comments

        return table.read_table(task, [names], batches)
    roles = Roles.from_options(task.options, names)
    with reading(task):
        roles.check(str(path), names)
        if not roles.labels and not roles.indicators and like is None:
            raise ConfigError(f"{path}: name the label attributes with --labels, --indicators or --label-xml")
        features_of = {each.name: each.features for each in attributes if each.kind != "DATE"}
        features, reasons = table.choose_features(task, roles, features_of)
        dates = {each.name for each in attributes if each.kind == "DATE"} - {name for _, name in roles.named_columns()}
        if not roles.features:
            reasons |= dict.fromkeys(sorted(dates), "date")
        expansion = _Expansion(path, attributes, features, () if like is None else like.feature_names or ())
        number_rows = NumberRows(task, expansion.names, len(expansion.names), with_ids=roles.id is not None, others=names)
        search = table.RowNumberSearch(task, roles, [name for name in features if name in expansion.names_of_numbers])

        def add(lines: Sequence[tuple[LineLocation, bytes]]) -> Batch:
            locations, rows = _decode(lines, attributes)
            block = expansion.expand(rows, locations, task.options)
            batch = _batch(locations, rows, attributes, roles, search.names)
            table.describe_rows(number_rows, batch, roles, task.options)
            number_rows.add(block)
            return batch

        for lines_of_block in blocks:
            for batch in task.bad.divided(lines_of_block, add):
                if batch.n_rows:
                    search.add(batch)
    table.leave_out_columns(task, number_rows, search, reasons)
    return finish(task, number_rows)


def _batch(
    locations: Sequence[LineLocation], rows: Sequence[Row], attributes: Sequence[Attribute], roles: Roles, numbers: Collection[str]
) -> Batch:
    columns: dict[str, Any] = {}
    used = {name for option, name in roles.named_columns() if option != "--features"}
    for number, attribute in enumerate(attributes):
        if attribute.name not in used and attribute.name not in numbers:
            continue
        # A value omitted from a sparse row is 0, or the first nominal value.
        left_out = 0.0 if attribute.values is None and attribute.is_number else (attribute.values or [""])[0]
        column = [row.get(number, left_out) for row in rows]
        columns[attribute.name] = np.array([_as_number(value) for value in column]) if attribute.name in numbers else column
    return Batch(len(rows), columns, locations.__getitem__)


def _decode(lines: Sequence[tuple[LineLocation, bytes]], attributes: Sequence[Attribute]) -> tuple[list[LineLocation], list[Row]]:
    # Per attribute: its nominal values, an empty set for numbers, None for text.
    kinds = [set(each.values or ()) if each.is_number or each.values else None for each in attributes]
    locations: list[LineLocation] = []
    rows: list[Row] = []
    for location, line in lines:
        with error_location(location):
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
        locations.append(location)
        rows.append(row)
    return locations, rows


def _plain_number(value: str) -> float:
    if "_" in value or not value.isascii():
        raise ValueError(value)
    return float(value)


def _as_number(value: Any) -> float:
    try:
        return math.nan if value is None else float(value)
    except ValueError:
        return math.inf  # not NaN, which is a missing value


class _Expansion:
    """One feature for a number, one per value of a nominal attribute."""

    def __init__(self, path: Path, attributes: Sequence[Attribute], chosen: Sequence[str], known: Sequence[str]) -> None:
        """`known`: the features of --like; values declared only there are 0 in all rows."""
        self.attributes = attributes
        self.names: list[str] = []
        self.names_of_numbers: set[str] = set()
        self.first: dict[int, int] = {}  # first column of each attribute
        self.always: list[tuple[int, int]] = []  # (attribute, column) that is 1 in a row that omits the attribute
        self.value_numbers: dict[int, dict[str, int]] = {}  # of each nominal attribute
        chosen_names, declared = set(chosen), {name for attribute in attributes for name in attribute.features}
        undeclared = [name for name in known if name not in declared]
        for number, attribute in enumerate(attributes):
            if attribute.name not in chosen_names:
                continue
            self.first[number] = len(self.names)
            if attribute.is_number:
                self.names.append(attribute.name)
                self.names_of_numbers.add(attribute.name)
                if attribute.values is not None and float(attribute.values[0]):
                    self.always.append((number, self.first[number]))
            elif attribute.values is not None:
                self.value_numbers[number] = {value: position for position, value in enumerate(attribute.values)}
                self.names += attribute.features
                self.names += [name for name in undeclared if name.startswith(f"{attribute.name}=")]
                self.always.append((number, self.first[number]))
            else:
                kind = f"is {attribute.kind.lower()}, but features are numeric or nominal"
                advice = "choose features with --features, or text with --text"
                raise DataError(f"{path}: attribute {attribute.name!r} {kind}; {advice}")

    def expand(self, decoded_rows: Sequence[Row], locations: Sequence[LineLocation], options: ConvertOptions) -> NumberSlice:
        indices: list[int] = []
        data: list[float] = []
        lengths: list[int] = []
        for row, values in enumerate(decoded_rows):
            values_by_column = {column: 1.0 for number, column in self.always if number not in values}
            for number, value in values.items():
                if (column := self.first.get(number)) is None:
                    continue
                if value is None:
                    if not options.missing_as_zero:
                        name = self.attributes[number].name
                        raise DataError(f"{locations[row]}: attribute {name!r}: {table.invalid_number(math.nan)}")
                elif number in self.value_numbers:
                    values_by_column[column + self.value_numbers[number][value]] = 1.0
                else:
                    values_by_column[column] = float(value)
            columns = sorted(values_by_column)
            indices += columns
            data += [values_by_column[column] for column in columns]
            lengths.append(len(columns))
        array = np.array(data, dtype=np.float64)
        if (wrong := find_non_finite(array)) >= 0:
            row = int(np.searchsorted(offsets(lengths), wrong, side="right")) - 1
            why = table.invalid_number(float(array[wrong]))
            raise DataError(f"{locations[row]}: feature {self.names[indices[wrong]]!r}: {why}")
        return NumberSlice.of_csr(offsets(lengths), np.array(indices, dtype=np.int64), array)
