"""Documents as Annif's corpora have them: a text, metadata, and subjects by URI or by label.

The forms are those of Annif 1.4 (annif/corpus, annif/schemas/document.json). A damaged document,
which Annif passes over with a warning, is an error.

A vocabulary is TSV: `<URI> TAB label [TAB notation]`, in one language; or CSV: the columns uri,
label_XX for each language XX, and notation. A subject without any label is deprecated: no document
has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hpcml.conversion.csv_rows import Dialect, Segment, read_header, read_rows
from hpcml.conversion.jsonl import loaded
from hpcml.conversion.source_lines import decoded, placed
from hpcml.errors import ConfigError, DataError, nearest
from hpcml.files.lines import BYTE_ORDER_MARK, open_plain, plain_size
from hpcml.log import is_unicode

LABEL = "label_"  # how the names of columns of labels of a vocabulary begin
DIALECT = Dialect()
TEXT, SUBJECTS, NAME = "text", "subject_uris", "document_id"  # columns of CSV; the others are metadata


class AnnifDocument(NamedTuple):
    """Its subjects are (URI, label), one of which may be ""; `metadata` holds other fields."""

    text: str
    subjects: list[tuple[str, str]]
    metadata: dict[str, str]
    name: str = ""


def of_tsv(line: str) -> AnnifDocument:
    """The document on a line: `text TAB <URI> <URI> …`."""
    text, _, uris = line.partition("\t")
    return AnnifDocument(text, [(bare(uri), "") for uri in uris.split()], {})


def of_csv(names: Sequence[str], values: Sequence[str]) -> AnnifDocument:
    """The document in a row of CSV: text, subject_uris, document_id, others."""
    row = dict(zip(names, values, strict=True))
    subjects = [(bare(uri), "") for uri in row.pop(SUBJECTS, "").split()]
    return AnnifDocument(row.pop(TEXT, ""), subjects, row, row.pop(NAME, ""))


def of_json(content: bytes) -> AnnifDocument:
    """Return the document that a JSON object describes. Raises ValueError with the reason."""
    return document(loaded(content, ""))


def document(value: object) -> AnnifDocument:
    """Return the document of {"text", "metadata", "subjects", "document_id"}. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError("no object, but expected one with the key text or metadata")
    if "text" not in value and "metadata" not in value:
        raise ValueError("neither text nor metadata; expected at least one of them")
    metadata = value.get("metadata", {})
    if not isinstance(metadata, dict) or not all(isinstance(each, str) for each in metadata.values()):
        raise ValueError("metadata must be an object whose values are strings")
    subjects = value.get("subjects", [])
    if not isinstance(subjects, list):
        raise ValueError('subjects must be a list of {"uri": …} or {"label": …}')
    return AnnifDocument(_string(value, "text"), [_subject(each) for each in subjects], metadata, _string(value, "document_id"))


def _string(value: dict[str, Any], key: str) -> str:
    """The string of a key, "" without it. Raises ValueError."""
    found = value.get(key, "")
    if not isinstance(found, str):
        raise ValueError(f"{key} must be a string")
    return found


def _subject(value: object) -> tuple[str, str]:
    """(URI, label) of an element of `subjects`. Raises ValueError."""
    if not isinstance(value, dict) or not (value.get("uri") or value.get("label")):
        raise ValueError('a subject must be {"uri": …} or {"label": …}')
    return _string(value, "uri"), _string(value, "label")


def of_key_file(text: str) -> list[tuple[str, str]]:
    """The subjects beside a text (.key, .tsv): a label, or `<URI> TAB label`, on each line."""
    found = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split("\t")]
        uri, label = "", ""
        for value in values:
            if value.startswith("<") and value.endswith(">"):
                uri = bare(value)
            elif value:
                label = value
                break
        if uri or label:
            found.append((uri, label))
    return found


@dataclass
class Subjects:
    """`titles`: the subjects' labels by URI; `uris`: the labels' URIs, the last of two."""

    titles: dict[str, str] = field(default_factory=dict)
    uris: dict[str, str] = field(default_factory=dict)


def bare(uri: str) -> str:
    """A URI without the angle brackets around it, if there are any."""
    return uri[1:-1] if uri.startswith("<") and uri.endswith(">") else uri


def read_subjects(path: Path, language: str | None, max_line: int) -> Subjects:
    """Return the subjects in a file. Local; raises ConfigError, DataError."""
    is_csv = ".csv" in path.suffixes[-2:] or ".CSV" in path.suffixes[-2:]
    if language is not None and not is_csv:
        raise ConfigError(f"--language {language}: {path} has one language; leave it out")
    subjects = Subjects()
    for number, uri, label in _csv_lines(path, language, max_line) if is_csv else _tsv_lines(path):
        if not uri or "\0" in uri + label or not is_unicode(uri + label):
            raise DataError(f"{path}: line {number}: {uri!r} is no URI that can be stored; expected <URI> and a label")
        if label:
            subjects.titles[uri], subjects.uris[label] = label, uri
        else:
            subjects.titles.pop(uri, None)
    if not subjects.titles:
        raise DataError(f"{path}: no subject with a label; expected lines <URI>, a tab, and the label")
    return subjects


def _tsv_lines(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (number of the line, URI, label or "")."""
    with open_plain(path) as file:
        for number, text in enumerate(file, 1):
            with placed(f"{path}: line {number}"):
                line = decoded(text.removeprefix(BYTE_ORDER_MARK)).strip()
            if line:
                uri, label, *_ = [*line.split("\t", 2), ""]
                yield number, bare(uri), label


def _csv_lines(path: Path, language: str | None, max_line: int) -> Iterator[tuple[int, str, str]]:
    """Yield (number of the line, URI, label or "")."""
    table = read_header(path, DIALECT, max_line)
    languages = [name.removeprefix(LABEL) for name in table.names if name.startswith(LABEL)]
    if "uri" not in table.names or not languages:
        raise DataError(f"{path}: line 1: no column uri or no column {LABEL}en; expected both in a vocabulary as CSV")
    if language is None and len(languages) > 1:
        raise ConfigError(f"{path}: labels in {', '.join(languages)}; choose one with --language")
    if language is not None and language not in languages:
        raise ConfigError(f"--language {language}: {path} has no labels in it; {nearest(language, languages)}")
    all_rows = Segment(path, table.begin, plain_size(path), table.lines)
    for _, line, values in read_rows(all_rows, table.names, DIALECT, max_line):
        row = dict(zip(table.names, values, strict=True))
        uri, labels = bare(row["uri"]), [row[LABEL + each] for each in languages]
        yield (
            line,
            uri,
            row[LABEL + (language or languages[0])] or (uri if any(labels) else ""),
        )  # in use, without a label in this language
