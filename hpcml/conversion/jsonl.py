"""JSON lines: {"id", "title", "text", "labels": [...], "split"}, of which title or text must be.

With --fields, these keys replace title and text; the value of a field is a string or a list of strings.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from hpcml import mpi
from hpcml.conversion.conversion import Conversion, lines_of, reading
from hpcml.conversion.part import Part
from hpcml.conversion.split import check_split_name, no_splits_to_ignore, two_kinds_of_splits
from hpcml.conversion.text import Corpus, vectorise
from hpcml.conversion.vocabulary import OTHER_KEYS, PLAIN, Field
from hpcml.errors import DataError, nearest, repeated
from hpcml.files.lines import byte_range, read_lines
from hpcml.files.opening import decoded
from hpcml.log import is_unicode

SOME_KEYS = 100  # of documents, for a hint


class Document(NamedTuple):
    """A document; `row_id` may be empty, and the values of a field (`fields` say which) none; labels None: nobody labelled it."""

    row_id: str
    values: list[list[str]]
    labels: list[str] | None
    split: str
    group: str = ""


class RepeatedKeyError(ValueError):
    """A key stands twice in an object."""


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises RepeatedKeyError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        key = repeated([key for key, _ in pairs])
        raise RepeatedKeyError(f"the key {key!r} stands twice in an object; expected each key once")
    return found


DECODER = json.JSONDecoder(object_pairs_hook=_object_of)


def loaded(text: bytes, expected: str = "expected one object a line") -> Any:
    """The value of a JSON text. Raises ValueError with the reason and what is expected."""
    content, hint = decoded(text), f"; {expected}" if expected else ""
    try:
        return DECODER.decode(content)
    except RepeatedKeyError:
        raise
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column" if error.lineno > 1 and expected else "column"
        raise ValueError(f"not JSON: {error.msg} at {where} {error.colno}{hint}") from None
    except RecursionError:
        raise ValueError(f"not JSON that can be read: nested too deeply{hint}") from None
    except ValueError:  # of Python's int
        raise ValueError(f"a number of more than {sys.get_int_max_str_digits():,} digits; write it as a string") from None


def document_of(value: Any, fields: Sequence[Field] = PLAIN, group: str | None = None) -> Document:
    """The document that a value of JSON is; `group` is the key of its group. Raises ValueError with the reason."""
    if not isinstance(value, dict):
        expected = "text or title" if fields == PLAIN else " or ".join(field.name for field in fields)
        raise ValueError(f"{_kind(value)}, but expected an object with the key {expected}")
    if all(value.get(field.name) is None for field in fields):
        missing = "neither text nor title" if fields == PLAIN else f"none of {', '.join(field.name for field in fields)}"
        raise ValueError(f"{missing}; expected at least one of them")
    if "label" in value and "labels" not in value and "label" not in (field.name for field in fields):
        raise ValueError('it has a key label, but labels stand under labels: "labels": ["Sea", "Trade"]; rename it')
    labels = value.get("labels")
    if labels is not None and not isinstance(labels, list):
        raise ValueError(f"labels is {_kind(labels)}, but expected a list of strings")
    for label in labels or ():
        if not string_of(label, "a label").strip():
            raise ValueError("a label is empty; expected a name")
    split = check_split_name(string_of(value.get("split"), "split"))
    values = [values_of(value.get(field.name), field) for field in fields]
    names = []  # of the row and of its group: strings or whole numbers
    for key in ("id", group):
        found = None if key is None else value.get(key)
        names.append(string_of(str(found) if isinstance(found, int) and not isinstance(found, bool) else found, str(key)))
    return Document(names[0], values, labels, split, names[1])


def values_of(value: object, field: Field) -> list[str]:
    """The strings of a field; only one where fields are not told apart. Raises ValueError."""
    if isinstance(value, list) and field.tag:
        return [string_of(each, f"a value of {field.name}", field.whole) for each in value]
    if field.tag and not isinstance(value, str | None):
        raise ValueError(f"{field.name} is {_kind(value)}, but expected a string or a list of strings")
    text = string_of(value, field.name, field.whole)
    return [text] if text else []


def _kind(value: object) -> str:
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


def check_first(task: Conversion) -> None:
    """Raise OptionError if the first document has a split beside --test-share, before the input is unpacked and read. Local."""
    share, value = task.options.test_share, None
    with suppress(DataError, OSError, ValueError, StopIteration):  # whatever is wrong is for the reader to say
        value = loaded(next(read_lines(task.inputs[0], task.max_line))[1].encode())
    name = value.get("split") if isinstance(value, dict) and not task.options.ignore_splits else None
    if share is not None and name and isinstance(name, str):
        raise two_kinds_of_splits(share, name)


def read_jsonl(task: Conversion) -> Part:
    """Collective. Read this rank's lines. Raises DataError with the line."""
    (path,) = task.inputs
    share, ignores_splits, has_splits = task.options.test_share, task.options.ignore_splits, False
    corpus = Corpus(task)
    corpus.n_lines = 0
    begin, end = byte_range(task.comm, path)
    with reading(task):
        for place, line in lines_of(task, path, begin, end):
            corpus.n_lines += 1
            if line.isspace():
                continue
            with task.bad.at(place):
                value = loaded(line.removesuffix(b"\n"))
                if ignores_splits and isinstance(value, dict):
                    has_splits |= bool(value.pop("split", None))
                document = document_of(value, corpus.fields, task.options.group)
                if document.labels is None and task.options.empty_labels == "none":
                    document = document._replace(labels=[])
                if share is not None and document.split:
                    raise two_kinds_of_splits(share, document.split)
                corpus.add(*document[:4], line=place.of_rank, group=document.group)
                if len(corpus.keys) < SOME_KEYS:
                    corpus.keys.update(value)
    if ignores_splits and not mpi.agreed_any(task.comm, has_splits):
        raise no_splits_to_ignore()
    check_fields(task, corpus)
    task.log.detail(f"{path}: read; making rows")
    return vectorise(task, corpus)


def check_fields(task: Conversion, corpus: Corpus) -> None:
    """Collective. Raises DataError for a field that no document has. With --like, warns: a key of a document may be missing."""
    if corpus.fields == PLAIN:
        return
    _, (n_documents, *counts) = mpi.exclusive_sum(task.comm, [corpus.n_rows, *corpus.has_values])
    missing = [field.name for field, count in zip(corpus.fields, counts, strict=True) if not count]
    if missing and n_documents:
        known = set().union(*task.comm.allgather(corpus.keys)) - set(OTHER_KEYS) - set(missing)
        hint = nearest(missing[0], sorted(known)[:SOME_KEYS])
        what = f"no document has a value of it; {hint}".rstrip("; ")
        if task.like is None:
            raise DataError(f"{task.what}: --fields {missing[0]}: {what}")
        task.log(f"warning: {task.what}: field {missing[0]} of --like {task.like.path}: {what}")
