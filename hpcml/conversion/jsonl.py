"""JSON lines: one document a line, {"id", "title", "text", "labels": [...], "split"}; all keys but title or text may be missing."""

from __future__ import annotations

import json
import sys
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from hpcml import mpi
from hpcml.conversion.like import Like
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Part
from hpcml.conversion.text import Corpus, new_corpus, vectorise
from hpcml.errors import DataError
from hpcml.files.lines import byte_range, line_blocks, line_limit, lines_before
from hpcml.log import Log, is_unicode


class Document(NamedTuple):
    """A document; `row_id` may be empty."""

    row_id: str
    title: str
    text: str
    labels: list[str]
    split: str


def parse(line: bytes) -> Document:
    """The document on a line. Raises ValueError with the reason."""
    try:
        value = json.loads(line.removesuffix(b"\n").decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}; expected one object a line") from None
    except RecursionError:
        raise ValueError("not JSON that can be read: nested too deeply; expected one object a line") from None
    except ValueError:  # of Python's int
        raise ValueError(f"a number of more than {sys.get_int_max_str_digits():,} digits; write it as a string") from None
    if not isinstance(value, dict):
        raise ValueError(f"{_kind(value)}, but expected an object with the key text or title")
    if value.get("title") is None and value.get("text") is None:
        raise ValueError("neither text nor title; expected at least one of them")
    row_id = value.get("id")
    if isinstance(row_id, int) and not isinstance(row_id, bool):
        row_id = str(row_id)
    labels = [] if value.get("labels") is None else value["labels"]
    if not isinstance(labels, list):
        raise ValueError(f"labels is {_kind(labels)}, but expected a list of strings")
    for label in labels:
        if not _string(label, "a label"):
            raise ValueError("a label is empty; expected a name")
    split = _string(value.get("split"), "split")
    if split in ("all", ".", "..") or "/" in split:
        raise ValueError(f"split {split!r} cannot be used; choose another name, without / and not all")
    title, text = (_string(value.get(key), key, stored=False) for key in ("title", "text"))
    return Document(_string(row_id, "id"), title, text, labels, split)


def _kind(value: object) -> str:
    """What a JSON value is, in words."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _string(value: object, key: str, stored: bool = True) -> str:
    """A value that must be a string ("" if missing) and, if `stored`, one that the file can hold. Raises ValueError."""
    if value is None and not key.startswith("a "):
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{key} is {_kind(value)}, but expected a string")
    if stored and ("\0" in value or not is_unicode(value)):
        raise ValueError(f"{key} {value!r} holds a character that cannot be stored; remove it")
    return value


@mpi.collective
def read_jsonl(comm: mpi.Comm, inputs: list[Path], options: ConvertOptions, like: Like | None, log: Log, scratch: Path) -> Part:
    """Collective over `comm`. Read this rank's lines and make rows of them.

    Raises DataError that names file and line.
    """
    (path,) = inputs
    max_line = line_limit(options.max_line_mb)
    corpus = new_corpus(comm, options, like, scratch)
    begin, end = byte_range(comm, path)
    n_lines = 0
    with mpi.agreed(comm, f"reading {path}"):
        for offset, block in line_blocks(path, begin, end, max_line=max_line):
            _add_block(corpus, path, offset, block, n_lines)
            n_lines += block.count(b"\n")
    (lines_above,), _ = mpi.exclusive_sum(comm, [n_lines])
    corpus.row_ids.lines_above = int(lines_above)
    log(f"{path}: read; making rows")
    return vectorise(comm, corpus, options, like)


def _add_block(corpus: Corpus, path: Path, offset: int, block: bytes, first_line: int) -> None:
    """Add the documents of a block of lines, the first of which is `first_line` of this rank's. Raises DataError, OSError."""
    for number, line in enumerate(BytesIO(block)):
        if not line or line.isspace():
            continue
        try:
            document = parse(line)
        except ValueError as error:
            raise DataError(f"{path}: line {lines_before(path, offset) + number + 1}: {error}") from None
        corpus.add(*document, line=first_line + number)
