"""JSON lines: {"id", "title", "text", "labels": [...], "split"}, of which title or text must be.

Where fields are told apart they take the place of title and text; the values of one are a string or
a list of strings.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.fields import OTHER_KEYS, PLAIN, Field
from hpcml.conversion.like import Like
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Part
from hpcml.conversion.split import check_split_name
from hpcml.conversion.text import Corpus, new_corpus, vectorise
from hpcml.errors import DataError, nearest
from hpcml.files.lines import byte_range, line_blocks, line_limit, lines_before
from hpcml.log import Log, is_unicode

SOME_KEYS = 100  # of documents, for a hint


class Seen(NamedTuple):
    """How many of this rank's documents have each field, and some of the documents' keys."""

    counts: np.ndarray
    keys: set[str]


class Document(NamedTuple):
    """A document; `row_id` may be empty, and the values of a field (`fields` of `parse`) none."""

    row_id: str
    values: list[list[str]]
    labels: list[str]
    split: str


def loaded(text: bytes, expected: str = "expected one object a line") -> Any:
    """The value of a JSON text. Raises ValueError with the reason and what is expected."""
    try:
        return json.loads(text.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column" if error.lineno > 1 else "column"
        raise ValueError(f"not JSON: {error.msg} at {where} {error.colno}; {expected}") from None
    except RecursionError:
        raise ValueError(f"not JSON that can be read: nested too deeply; {expected}") from None
    except ValueError:  # of Python's int
        raise ValueError(f"a number of more than {sys.get_int_max_str_digits():,} digits; write it as a string") from None


def parse(line: bytes, fields: Sequence[Field] = PLAIN, keys: set[str] | None = None) -> Document:
    """The document on a line, whose keys are added to the first of `keys`. Raises ValueError."""
    return document_of(loaded(line.removesuffix(b"\n")), fields, keys)


def document_of(value: Any, fields: Sequence[Field] = PLAIN, keys: set[str] | None = None) -> Document:
    """The document that a value of JSON is, as `parse`."""
    if not isinstance(value, dict):
        expected = "text or title" if fields == PLAIN else " or ".join(field.name for field in fields)
        raise ValueError(f"{_kind(value)}, but expected an object with the key {expected}")
    if keys is not None and len(keys) < SOME_KEYS:
        keys.update(value)
    if all(value.get(field.name) is None for field in fields):
        missing = "neither text nor title" if fields == PLAIN else f"none of {', '.join(field.name for field in fields)}"
        raise ValueError(f"{missing}; expected at least one of them")
    row_id = value.get("id")
    if isinstance(row_id, int) and not isinstance(row_id, bool):
        row_id = str(row_id)
    if "label" in value and "labels" not in value and "label" not in (field.name for field in fields):
        raise ValueError('it has a key label, but labels stand under labels: "labels": ["Sea", "Trade"]; rename it')
    labels = [] if value.get("labels") is None else value["labels"]
    if not isinstance(labels, list):
        raise ValueError(f"labels is {_kind(labels)}, but expected a list of strings")
    for label in labels:
        if not string_of(label, "a label"):
            raise ValueError("a label is empty; expected a name")
    split = check_split_name(string_of(value.get("split"), "split"))
    values = [values_of(value.get(field.name), field) for field in fields]
    return Document(string_of(row_id, "id"), values, labels, split)


def values_of(value: object, field: Field) -> list[str]:
    """The strings of a field; only one where fields are not told apart. Raises ValueError."""
    if isinstance(value, list) and field.tag:
        return [string_of(each, f"a value of {field.name}", field.whole) for each in value]
    if field.tag and not isinstance(value, str | None):
        raise ValueError(f"{field.name} is {_kind(value)}, but expected a string or a list of strings")
    text = string_of(value, field.name, field.whole)
    return [text] if text else []


def _kind(value: object) -> str:
    """The type of a JSON value, in words."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def string_of(value: object, key: str, stored: bool = True) -> str:
    """A string ("" if missing) that, if `stored`, the file can hold. Raises ValueError."""
    if value is None and not key.startswith("a "):
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{key} is {_kind(value)}, but expected a string")
    if stored and ("\0" in value or not is_unicode(value)):
        raise ValueError(f"{key} {value!r} holds a character that cannot be stored; remove it")
    return value


@mpi.collective
def read_jsonl(comm: mpi.Comm, inputs: list[Path], options: ConvertOptions, like: Like | None, log: Log, scratch: Path) -> Part:
    """Collective over `comm`. Read this rank's lines. Raises DataError with the line."""
    (path,) = inputs
    max_line = line_limit(options.max_line_mb)
    corpus = new_corpus(comm, options, like, scratch)
    begin, end = byte_range(comm, path)
    n_lines, seen = 0, Seen(np.zeros(len(corpus.fields), dtype=np.int64), set())
    with mpi.agreed(comm, f"reading {path}"):
        for offset, block in line_blocks(path, begin, end, max_line=max_line):
            _add_block(corpus, path, offset, block, n_lines, seen)
            n_lines += block.count(b"\n")
    (lines_above,), _ = mpi.exclusive_sum(comm, [n_lines])
    corpus.row_ids.lines_above = int(lines_above)
    if like is None and corpus.fields != PLAIN:
        check_fields(comm, path, corpus, seen)
    log(f"{path}: read; making rows")
    return vectorise(comm, corpus, options, like)


@mpi.collective
def check_fields(comm: mpi.Comm, path: Path, corpus: Corpus, seen: Seen) -> None:
    """Collective over `comm`. Raises DataError for a field that no document has."""
    _, (n_documents, *counts) = mpi.exclusive_sum(comm, [corpus.n_rows, *seen.counts])
    missing = [field.name for field, count in zip(corpus.fields, counts, strict=True) if not count]
    if missing and n_documents:
        known = set().union(*comm.allgather(seen.keys)) - set(OTHER_KEYS) - set(missing)
        hint = nearest(missing[0], sorted(known)[:SOME_KEYS])
        raise DataError(f"{path}: --fields {missing[0]}: no document has a value of it; {hint}".rstrip("; "))


def _add_block(corpus: Corpus, path: Path, offset: int, block: bytes, first_line: int, seen: Seen) -> None:
    """Add the documents of a block of lines, the first of which is `first_line` of this rank's.
    Raises DataError, OSError.
    """
    for number, line in enumerate(BytesIO(block)):
        if not line or line.isspace():
            continue
        try:
            document = parse(line, corpus.fields, seen.keys)
        except ValueError as error:
            raise DataError(f"{path}: line {lines_before(path, offset) + number + 1}: {error}") from None
        corpus.add(*document, line=first_line + number)
        for place, values in enumerate(document.values):
            seen.counts[place] += bool(values)
