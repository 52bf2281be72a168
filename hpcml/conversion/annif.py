"""Annif's document corpora: lines of short texts, or folders of full texts, and their subjects.

All inputs are one corpus, in the order given. Each rank reads consecutive documents of it, about as
many bytes as others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.annif_documents import (
    SUBJECTS,
    TEXT,
    AnnifDocument,
    Subjects,
    of_csv,
    of_json,
    of_key_file,
    of_tsv,
    read_subjects,
)
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.csv_rows import Dialect, Segment, divide, read_header, read_rows
from hpcml.conversion.folder import read_text
from hpcml.conversion.jsonl import Seen, check_fields, check_group, string_of, values_of
from hpcml.conversion.part import Part
from hpcml.conversion.source_lines import decoded, lines_of, placed
from hpcml.conversion.text import Corpus, new_corpus, vectorise
from hpcml.errors import ConfigError, DataError
from hpcml.files.lines import plain_size
from hpcml.log import is_unicode, named, plural
from hpcml.partition import even_bounds

DIALECT = Dialect()
SUBJECT_FILES = (".tsv", ".key")  # beside a text, the first that there is
UTF_8 = "utf-8"
Take = Callable[[AnnifDocument], None]  # what is done with a document; raises ValueError for what it may not hold


class Piece(NamedTuple):
    """What one rank reads of an input: bytes of a file of lines or rows, or a whole file."""

    kind: str  # tsv, jsonl, csv, txt, json
    path: Path
    begin: int
    end: int
    lines: int = 0  # of a CSV file, newlines before them
    names: tuple[str, ...] = ()  # of a CSV file, its columns


def kind_of_input(path: Path) -> str:
    """The kind of an input, as Annif tells it: folder, or by its ending csv, jsonl, else tsv."""
    if path.is_dir():
        return "folder"
    suffixes = [suffix.lower() for suffix in path.suffixes]
    ending = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] in (".gz", ".bz2", ".xz") else (suffixes or [""])[-1]
    return {".csv": "csv", ".jsonl": "jsonl"}.get(ending, "tsv")


def files_of(folder: Path) -> list[Path]:
    """The texts in a folder, then its JSON documents, each by name. Raises DataError, OSError."""
    found = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".") and path.suffix in (".txt", ".json")]
    if not found:
        raise DataError(f"{folder}: no documents; expected .txt files, with a .tsv or .key file for each, or .json files")
    for path in found:
        if not is_unicode(path.name):
            raise DataError(f"{folder}: a file has the name {named(path.name)!r}, which is not UTF-8; rename it")
    return [*(path for path in found if path.suffix == ".txt"), *(path for path in found if path.suffix == ".json")]


def divided(inputs: Sequence[Path], n_ranks: int, max_line: int) -> list[list[Piece]]:
    """The pieces that each rank reads. Local; raises DataError, and as `open_plain`."""
    whole = [(path, kind_of_input(path)) for path in inputs]
    each = [(path, kind) for path, kind in whole if kind != "folder"]
    tables = {path: read_header(path, DIALECT, max_line) for path, kind in each if kind == "csv"}
    for path, table in tables.items():
        if TEXT not in table.names:
            raise DataError(f"{path}: line 1: no column {TEXT!r}; expected {TEXT} and {SUBJECTS}")
    sizes = {path: plain_size(path) for path, _ in each}
    files = {path: files_of(path) for path, kind in whole if kind == "folder"}
    sizes |= {file: file.stat().st_size + 1 for some in files.values() for file in some}
    lengths = [sum(sizes[file] for file in files[path]) if kind == "folder" else sizes[path] for path, kind in whole]
    bounds, before = even_bounds(sum(lengths), n_ranks), 0
    parts: list[list[Piece]] = [[] for _ in range(n_ranks)]
    for (path, kind), length in zip(whole, lengths, strict=True):
        if length == 0:
            raise DataError(f"{path}: the file is empty; expected at least one document")
        targets = [min(max(0, int(bound) - before), length) for bound in bounds]
        if kind == "folder":
            starts = np.cumsum([0, *(sizes[file] for file in files[path])])[:-1]
            for part, (begin, end) in zip(parts, pairwise(np.searchsorted(starts, targets).tolist()), strict=True):
                part += [Piece(file.suffix[1:], file, 0, sizes[file] - 1) for file in files[path][begin:end]]
        elif kind == "csv":
            table = tables[path]
            places = divide(table, length, DIALECT, [max(0, target - table.begin) for target in targets], max_line)
            for part, ((begin, lines), (end, _)) in zip(parts, pairwise(places), strict=True):
                part += [Piece(kind, path, begin, end, lines, tuple(table.names))] if begin < end else []
        else:
            for part, (begin, end) in zip(parts, pairwise(targets), strict=True):
                part += [Piece(kind, path, begin, end)] if begin < end else []
        before += length
    return parts


def read_piece(piece: Piece, take: Take, task: Conversion) -> None:
    """Give each document of a piece to `take`. Raises DataError that names the line, OSError."""
    if piece.kind in ("txt", "json"):
        text = read_text(piece.path, UTF_8, task.max_line)
        with placed(piece.path):
            take(_of_file(piece.path, text, task.max_line))
    elif piece.kind == "csv":
        _read_rows(piece, take, task.max_line)
    else:
        _read_lines(piece, take, task)


def _of_file(path: Path, text: str, max_line: int) -> AnnifDocument:
    """The document in a file of its own. Raises ValueError, DataError, OSError."""
    if path.suffix == ".json":
        found = of_json(text.encode())
        return found if found.name else found._replace(name=path.name)
    subjects = next((beside for ending in SUBJECT_FILES if (beside := path.with_suffix(ending)).exists()), None)
    return AnnifDocument(text, of_key_file(read_text(subjects, UTF_8, max_line)) if subjects else [], {}, path.name)


def _read_rows(piece: Piece, take: Take, max_line: int) -> None:
    segment = Segment(piece.path, piece.begin, piece.end, piece.lines)
    for _, line, values in read_rows(segment, piece.names, DIALECT, max_line):
        with placed(f"{piece.path}: line {line}"):
            if not is_unicode("".join(values)):
                raise ValueError("a value is not UTF-8; save the file as UTF-8")
            take(of_csv(piece.names, values))


def _read_lines(piece: Piece, take: Take, task: Conversion) -> None:
    for place, line in lines_of(task, piece.path, piece.begin, piece.end):
        if line.isspace():
            continue
        with placed(place):
            take(of_json(line) if piece.kind == "jsonl" else of_tsv(decoded(line)))


class Documents:
    """Takes this rank's documents into a corpus, and counts what it leaves out."""

    def __init__(self, corpus: Corpus, subjects: Subjects | None, unindexed: bool, group: str | None) -> None:
        self.corpus, self.subjects, self.unindexed, self.group = corpus, subjects, unindexed, group
        self.seen = Seen(corpus.fields)
        self.n_left_out = self.n_unknown = 0

    def add(self, document: AnnifDocument) -> None:
        """Raises ValueError for what cannot be stored, OSError."""
        labels = [label for label in map(self._label, document.subjects) if label]
        self.n_unknown += len(document.subjects) - len(labels)
        if not labels and not self.unindexed:
            self.n_left_out += 1
            return
        content = {"text": document.text, **document.metadata}
        values = [values_of(content.get(field.name), field) for field in self.corpus.fields]
        self.seen.add(content, values)
        group = "" if self.group is None else string_of(content.get(self.group), self.group)
        self.corpus.add(string_of(document.name, "document_id"), values, labels, "", self.corpus.n_rows, group)

    def _label(self, subject: tuple[str, str]) -> str:
        """The label of a subject (URI, label): its URI; "" if the vocabulary lacks it."""
        uri, label = subject
        if self.subjects is None:
            return string_of(uri or label, "a subject")
        return (uri if uri in self.subjects.titles else "") if uri else self.subjects.uris.get(label, "")


def read_annif(task: Conversion) -> Part:
    """Collective. Read this rank's documents. Raises ConfigError, DataError."""
    options, comm = task.options, task.comm
    if options.language is not None and options.vocabulary is None:
        raise ConfigError(f"--language {options.language} has no effect without --vocabulary; leave it out")
    subjects, path = None, options.vocabulary
    if path is not None:
        subjects = mpi.run_on_root(comm, f"reading {path}", lambda: read_subjects(path, options.language))
    corpus = new_corpus(task)
    parts = mpi.run_on_root(task.comm, f"reading {task.what}", lambda: divided(task.inputs, comm.size, task.max_line))
    documents = Documents(corpus, subjects, options.unindexed, options.group)
    with task.reading():
        for piece in parts[comm.rank]:
            read_piece(piece, documents.add, task)
    (rows_above, *_), (_, left_out, unknown) = mpi.exclusive_sum(comm, [corpus.n_rows, documents.n_left_out, documents.n_unknown])
    corpus.row_ids.lines_above = int(rows_above)
    check_fields(task, corpus, documents.seen)
    check_group(task, corpus)
    if left_out:
        task.log(f"left out: {plural(left_out, 'document')} without subjects (--unindexed keeps them)")
    if unknown:
        task.log(f"warning: left out: {plural(unknown, 'entry', 'entries')} of subjects that {options.vocabulary} does not have")
    task.log(f"{task.what}: read; making rows")
    part = vectorise(task, corpus)
    if subjects is not None:
        part.label_titles = [subjects.titles.get(name, "") for name in part.labels.names]
    return part
