"""JSON lines: {"id", "title", "text", "labels": [...], "split"}; and BioASQ articles.

Title or text is required. With --fields, the named keys replace title and text; the value of a field is a string or a list of
strings.

A BioASQ file is {"articles": [{"pmid", "title", "abstractText", "year", "meshMajor"}, ...]}. Test files have "documents" and
"abstract" and no meshMajor. A file of all articles has tens of gigabytes and one article per line, so its lines are distributed
over the ranks. A file of at most WHOLE_BYTES may have any layout; each rank reads all of it.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from hpcml import mpi
from hpcml.conversion.conversion import Conversion, error_location, lines_of, reading
from hpcml.conversion.part import Part
from hpcml.conversion.split import check_split_name, conflicting_splits_error, no_splits_error
from hpcml.conversion.text import Corpus, vectorise
from hpcml.conversion.vocabulary import OTHER_KEYS, PLAIN, Field
from hpcml.data.descriptors import Descriptors
from hpcml.errors import DataError, nearest, repeated
from hpcml.files.lines import BYTE_ORDER_MARK, byte_range, open_decompressed, read_lines, uncompressed_size
from hpcml.files.opening import decoded
from hpcml.log import is_unicode, named

WHOLE_BYTES = 1 << 25  # uncompressed
LISTS = ("articles", "documents")
BEGIN = re.compile(rb'\s*\{\s*"(articles|documents)"\s*:\s*\[')
CLOSING = re.compile(rb"\]?\s*\}?")  # on its own line; also matches an empty line
END = re.compile(rb"\]\s*\}\s*$")
ARTICLE_KEYS = ("pmid", "abstractText", "abstract", "meshMajor", "split")  # not copied to the document
EXPECTED = '{"articles": [...]} or {"documents": [...]}'
MAX_KEYS = 100  # keys of documents kept for error messages


def read_bioasq(task: Conversion) -> Part:
    (path,) = task.inputs
    comm, unknown = task.comm, set[str]()
    closed: list[bool] = []
    corpus = Corpus(task)
    is_small = mpi.run_on_root(task.comm, f"reading {task.input_name}", lambda: uncompressed_size(path)) <= WHOLE_BYTES
    begin, end = (0, 0) if is_small else byte_range(comm, path)
    with reading(task):
        for where, article in _read_whole_file(path, task) if is_small else _read_lines(task, path, begin, end, closed):
            with task.bad.at(where):
                document = parse_document(_to_document(article, task.descriptors, unknown), corpus.fields)
                if not document.row_id:
                    raise ValueError("no pmid; expected the PubMed identifier")
                corpus.add(*document[:4])
    if not is_small and not mpi.agreed_any(comm, bool(closed)):
        raise DataError(f"{path}: ends within its list of articles; download it again")
    missing = sorted(set().union(*comm.allgather(unknown)))
    if missing:
        first = f"such as {named(missing[0])!r}"
        task.log(f"note: {len(missing):,} headings are not in {task.options.descriptors}, {first}; they keep their names")
    return vectorise(task, corpus)


def _to_document(article: Any, descriptors: Descriptors | None, unknown: set[str]) -> Any:
    if not isinstance(article, dict):
        return article
    document = {key: value for key, value in article.items() if key not in ARTICLE_KEYS}
    abstract = article.get("abstractText") if article.get("abstractText") is not None else article.get("abstract")
    year = article.get("year")
    document |= {"id": article.get("pmid"), "text": abstract, "year": str(year) if isinstance(year, int) else year}
    labels = article.get("meshMajor")
    if descriptors is not None and isinstance(labels, list):
        known = descriptors.identifiers
        unknown.update(label for label in labels if isinstance(label, str) and label not in known)
        labels = [known.get(label, label) if isinstance(label, str) else label for label in labels]
    return document | {"labels": labels}


def _read_whole_file(path: Path, task: Conversion) -> Iterator[tuple[object, Any]]:
    with open_decompressed(path) as file:
        content = file.read(WHOLE_BYTES + 1)
    with error_location(path):
        value = parse_json(content.removeprefix(BYTE_ORDER_MARK), f"expected {EXPECTED}")
    name = next((name for name in LISTS if isinstance(value, dict) and isinstance(value.get(name), list)), None)
    if name is None:
        raise DataError(f"{path}: no list of articles; expected {EXPECTED}")
    begin, end = task.share(len(value[name]))
    for number, article in enumerate(value[name][begin:end], begin + 1):
        yield f"{path}: article {number}", article


def _read_lines(task: Conversion, path: Path, first: int, last: int, closed: list[bool]) -> Iterator[tuple[object, Any]]:
    """Append to `closed` at the end of the list."""
    for location, line in lines_of(task, path, first, last):
        text = line.strip()
        if location.block.offset == 0 and location.in_block == 0:
            opened = BEGIN.match(text)
            if opened is None:
                raise DataError(f"{location}: expected {EXPECTED}, with one article per line")
            text = text[opened.end() :].strip()
        if CLOSING.fullmatch(text):
            closed += [True] * bool(text)
            continue
        text = text.removesuffix(b",").strip()
        expected = "expected one article per line (or a file below 32 MiB)"
        with task.bad.at(location):
            try:
                article = parse_json(text, expected)
            except RepeatedKeyError:
                raise
            except ValueError:
                shorter = END.sub(b"", text)  # the list may end after the article
                if shorter == text:
                    raise
                article = parse_json(shorter, expected)
                closed.append(True)
            yield location, article


class Document(NamedTuple):
    """`row_id` and `split`: "" for none; `labels` None: unlabelled."""

    row_id: str
    values: list[list[str]]
    labels: list[str] | None
    split: str
    group: str = ""


class RepeatedKeyError(ValueError):
    """An object has the same key twice."""


def _to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        key = repeated([key for key, _ in pairs])
        raise RepeatedKeyError(f"the key {key!r} is repeated; expected each key once")
    return members


DECODER = json.JSONDecoder(object_pairs_hook=_to_object)


def parse_json(text: bytes, expected: str = "expected one object per line") -> Any:
    content, hint = decoded(text), f"; {expected}" if expected else ""
    try:
        return DECODER.decode(content)
    except RepeatedKeyError:
        raise
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column" if error.lineno > 1 and expected else "column"
        raise ValueError(f"not JSON: {error.msg} at {where} {error.colno}{hint}") from None
    except RecursionError:
        raise ValueError(f"JSON is nested too deeply{hint}") from None
    except ValueError:  # Python's limit for int
        raise ValueError(f"a number of more than {sys.get_int_max_str_digits():,} digits; write it as a string") from None


def parse_document(value: Any, fields: Sequence[Field] = PLAIN, group: str | None = None) -> Document:
    if not isinstance(value, dict):
        expected = "text or title" if fields == PLAIN else " or ".join(field.name for field in fields)
        raise ValueError(f"{_kind(value)}, but expected an object with the key {expected}")
    if all(value.get(field.name) is None for field in fields):
        missing = "neither text nor title" if fields == PLAIN else f"none of {', '.join(field.name for field in fields)}"
        raise ValueError(f"{missing}; expected at least one of them")
    if "label" in value and "labels" not in value and "label" not in (field.name for field in fields):
        raise ValueError('key label; labels belong under the key labels: "labels": ["Sea", "Trade"]')
    labels = value.get("labels")
    if labels is not None and not isinstance(labels, list):
        raise ValueError(f"labels is {_kind(labels)}, but expected a list of strings")
    for label in labels or ():
        if not check_string(label, "a label").strip():
            raise ValueError("a label is empty; expected a name")
    split = check_split_name(check_string(value.get("split"), "split"))
    values = [read_field_values(value.get(field.name), field) for field in fields]
    names = []  # of the row and its group: strings or whole numbers
    for key in ("id", group):
        name = None if key is None else value.get(key)
        names.append(check_string(str(name) if isinstance(name, int) and not isinstance(name, bool) else name, str(key)))
    return Document(names[0], values, labels, split, names[1])


def read_field_values(value: object, field: Field) -> list[str]:
    if isinstance(value, list) and field.tag:
        return [check_string(each, f"a value of {field.name}", field.whole) for each in value]
    if field.tag and not isinstance(value, str | None):
        raise ValueError(f"{field.name} is {_kind(value)}, but expected a string or a list of strings")
    text = check_string(value, field.name, field.whole)
    return [text] if text else []


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def check_string(value: object, key: str, stored: bool = True) -> str:
    """Return a string ("" if missing). Raises ValueError for other values and, if `stored`, for characters not storable."""
    if value is None and not key.startswith("a "):
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{key} is {_kind(value)}, but expected a string")
    if stored and ("\0" in value or not is_unicode(value)):
        raise ValueError(f"{key} {value!r} contains a character that cannot be stored; remove it")
    return value


def check_first(task: Conversion) -> None:
    """Refuse --test-share at the first document with a split, before all input is read. Local."""
    share, value = task.options.test_share, None
    with suppress(DataError, OSError, ValueError, StopIteration):  # the reader reports other errors
        value = parse_json(next(read_lines(task.inputs[0], task.max_line))[1].encode())
    name = value.get("split") if isinstance(value, dict) and not task.options.ignore_splits else None
    if share is not None and name and isinstance(name, str):
        raise conflicting_splits_error(share, name)


def read_jsonl(task: Conversion) -> Part:
    (path,) = task.inputs
    share, ignores_splits, has_splits = task.options.test_share, task.options.ignore_splits, False
    corpus = Corpus(task)
    corpus.n_lines = 0
    begin, end = byte_range(task.comm, path)
    with reading(task):
        for location, line in lines_of(task, path, begin, end):
            corpus.n_lines += 1
            if line.isspace():
                continue
            with task.bad.at(location):
                value = parse_json(line.removesuffix(b"\n"))
                if ignores_splits and isinstance(value, dict):
                    has_splits |= bool(value.pop("split", None))
                document = parse_document(value, corpus.fields, task.options.group)
                if document.labels is None and task.options.empty_labels == "none":
                    document = document._replace(labels=[])
                if share is not None and document.split:
                    raise conflicting_splits_error(share, document.split)
                corpus.add(*document[:4], line=location.on_rank, group=document.group)
                if len(corpus.keys_seen) < MAX_KEYS:
                    corpus.keys_seen.update(value)
    if ignores_splits and not mpi.agreed_any(task.comm, has_splits):
        raise no_splits_error()
    check_fields(task, corpus)
    return vectorise(task, corpus)


def check_fields(task: Conversion, corpus: Corpus) -> None:
    if corpus.fields == PLAIN:
        return
    _, (n_documents, *counts) = mpi.exclusive_sum(task.comm, [corpus.n_rows, *corpus.has_values])
    missing = [field.name for field, count in zip(corpus.fields, counts, strict=True) if not count]
    if missing and n_documents:
        known = set().union(*task.comm.allgather(corpus.keys_seen)) - set(OTHER_KEYS) - set(missing)
        hint = nearest(missing[0], sorted(known)[:MAX_KEYS])
        what = f"no document has a value for it; {hint}".rstrip("; ")
        if task.like is None:
            raise DataError(f"{task.input_name}: --fields {missing[0]}: {what}")
        task.log(f"warning: {task.input_name}: field {missing[0]} of --like {task.like.path}: {what}")
