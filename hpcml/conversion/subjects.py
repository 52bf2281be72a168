"""Subject vocabularies as Annif has them: which subjects there are, and what they are called.

TSV: `<URI> TAB label [TAB notation]`, in one language. CSV: the columns uri, label_XX for each
language XX, and notation. A subject without any label is deprecated: no document has it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hpcml import mpi
from hpcml.conversion.conversion import from_root
from hpcml.errors import ConfigError, DataError, nearest
from hpcml.files.lines import open_plain
from hpcml.log import is_unicode

LABEL = "label_"  # how the names of columns of labels begin


@dataclass
class Subjects:
    """`titles`: the subjects' labels by URI; `uris`: the labels' URIs, the last of two."""

    titles: dict[str, str] = field(default_factory=dict)
    uris: dict[str, str] = field(default_factory=dict)


def bare(uri: str) -> str:
    """A URI without the angle brackets around it, if there are any."""
    return uri[1:-1] if uri.startswith("<") and uri.endswith(">") else uri


@mpi.collective
def read_subjects(comm: mpi.Comm, path: Path | None, language: str | None) -> Subjects | None:
    """Collective over `comm`. The subjects in a file, if given. Raises ConfigError, DataError."""
    return None if path is None else from_root(comm, f"reading {path}", lambda: _read(path, language))


def _read(path: Path, language: str | None) -> Subjects:
    """See `read_subjects`. Local."""
    is_csv = ".csv" in path.suffixes[-2:] or ".CSV" in path.suffixes[-2:]
    if language is not None and not is_csv:
        raise ConfigError(f"--language {language}: {path} has one language; leave it out")
    subjects = Subjects()
    try:
        with open_plain(path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="" if is_csv else None) as text:
            for number, uri, label in _csv_lines(path, text, language) if is_csv else _tsv_lines(text):
                if not uri or "\0" in uri + label or not is_unicode(uri + label):
                    raise DataError(f"{path}: line {number}: {uri!r} is no URI that can be stored; expected <URI> and a label")
                if label:
                    subjects.titles[uri], subjects.uris[label] = label, uri
                else:
                    subjects.titles.pop(uri, None)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error.reason}); save the file as UTF-8") from None
    except csv.Error as error:
        raise DataError(f"{path}: not a CSV file ({error}); expected the columns uri and {LABEL}en") from None
    if not subjects.titles:
        raise DataError(f"{path}: no subject with a label; expected lines <URI>, a tab, and the label")
    return subjects


def _tsv_lines(text: io.TextIOBase) -> Iterator[tuple[int, str, str]]:
    """(number of the line, URI, label or "")."""
    for number, line in enumerate(text, 1):
        if line.strip():
            uri, label, *_ = [*line.strip().split("\t", 2), ""]
            yield number, bare(uri), label


def _csv_lines(path: Path, text: io.TextIOBase, language: str | None) -> Iterator[tuple[int, str, str]]:
    """(number of the line, URI, label or ""). Raises ConfigError, DataError."""
    rows = csv.reader(text)
    names = next(rows, [])
    languages = [name.removeprefix(LABEL) for name in names if name.startswith(LABEL)]
    if "uri" not in names or not languages:
        raise DataError(f"{path}: line 1: no column uri or no column {LABEL}en; expected both in a vocabulary as CSV")
    if language is None and len(languages) > 1:
        raise ConfigError(f"{path}: labels in {', '.join(languages)}; choose one with --language")
    if language is not None and language not in languages:
        raise ConfigError(f"--language {language}: {path} has no labels in it; {nearest(language, languages)}")
    of_uri, of_label = names.index("uri"), names.index(LABEL + (language or languages[0]))
    for row in rows:
        if not row:
            continue
        if len(row) != len(names):
            raise DataError(f"{path}: line {rows.line_num}: {len(row)} values, but the header names {len(names)} columns")
        others = [value for name, value in zip(names, row, strict=True) if name.startswith(LABEL)]
        uri = bare(row[of_uri])
        yield rows.line_num, uri, row[of_label] or (uri if any(others) else "")  # it is in use, but has no label in this language
