"""Annif's document corpora: lines of short texts, or folders of full texts, and their subjects.

All inputs are one corpus, in the order given. Each rank reads consecutive documents of it, about as
many bytes as others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from hpcml import mpi
from hpcml.conversion.annif_documents import (
    DIALECT,
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
from hpcml.conversion.csv_rows import Segment, divide, read_header, read_rows
from hpcml.conversion.folder import read_text
from hpcml.conversion.jsonl import Seen, check_fields, string_of, values_of
from hpcml.conversion.part import Part
from hpcml.conversion.source_lines import decoded, lines_of, placed
from hpcml.conversion.text import new_corpus, vectorise
from hpcml.errors import ConfigError, DataError
from hpcml.files.lines import plain_size
from hpcml.log import is_unicode, named, plural
from hpcml.partition import bounds_in_items

DOCUMENTS = (".txt", ".json")  # endings of files that are one document each
SUBJECT_FILES = (".tsv", ".key")  # beside a text, the first that there is
UTF_8 = "utf-8"


class Piece(NamedTuple):
    """The lines or rows of a file that one rank reads, or a whole document."""

    kind: str  # .tsv, .jsonl, .csv, .txt, .json
    segment: Segment
    names: Sequence[str] = ()  # of a CSV file, its columns


def files_of(path: Path) -> list[tuple[str, Path, int]]:
    """Return (kind, path, bytes) of the files of an input, those of a folder by name, texts first. Raises DataError, OSError.

    The ending says the kind of a file, as for Annif: .csv, .jsonl, else .tsv.
    """
    if not path.is_dir():
        ending = next((suffix for suffix in map(str.lower, path.suffixes[::-1]) if suffix not in (".gz", ".bz2", ".xz")), "")
        size = plain_size(path)
        if size == 0:
            raise DataError(f"{path}: the file is empty; expected at least one document")
        return [(ending if ending in (".csv", ".jsonl") else ".tsv", path, size)]
    files = [file for file in path.iterdir() if not file.name.startswith(".") and file.suffix in DOCUMENTS]
    if not files:
        raise DataError(f"{path}: no documents; expected .txt files, with a .tsv or .key file for each, or .json files")
    for file in files:
        if not is_unicode(file.name):
            raise DataError(f"{path}: a file has the name {named(file.name)!r}, which is not UTF-8; rename it")
    files.sort(key=lambda file: (DOCUMENTS.index(file.suffix), file))
    return [(file.suffix, file, file.stat().st_size + 1) for file in files]


def divide_inputs(inputs: Sequence[Path], n_ranks: int, max_line: int) -> list[list[Piece]]:
    """Return the pieces that each rank reads. Local; raises DataError, and as `open_plain`."""
    files = [file for path in inputs for file in files_of(path)]
    parts: list[list[Piece]] = [[] for _ in range(n_ranks)]
    for (kind, path, _), bounds in zip(files, bounds_in_items([size for *_, size in files], n_ranks), strict=True):
        names: Sequence[str] = ()
        segments = [Segment(path, begin, end, 0) for begin, end in pairwise(bounds)]
        if kind == ".csv":
            table = read_header(path, DIALECT, max_line)
            names = table.names
            if TEXT not in names:
                raise DataError(f"{path}: line 1: no column {TEXT!r}; expected {TEXT} and {SUBJECTS}")
            segments = divide(table, [max(0, bound - table.begin) for bound in bounds], DIALECT, max_line)
        for part, segment in zip(parts, segments, strict=True):
            if segment.begin < segment.end and (segment.begin == 0 or kind not in DOCUMENTS):
                part.append(Piece(kind, segment, names))
    return parts


def documents_of(piece: Piece, task: Conversion) -> Iterator[tuple[object, AnnifDocument]]:
    """Yield (place for messages, document). Raises DataError that names the place, OSError."""
    path, begin, end, _ = piece.segment
    if piece.kind in DOCUMENTS:
        text = read_text(path, UTF_8, task.max_line)
        with placed(path):
            document = of_json(text.encode()) if piece.kind == ".json" else AnnifDocument(text, _subjects_beside(path, task), {})
        yield path, document if document.name else document._replace(name=path.name)
    elif piece.kind == ".csv":
        for _, number, values in read_rows(piece.segment, piece.names, DIALECT, task.max_line):
            if not is_unicode("".join(values)):
                raise DataError(f"{path}: line {number}: a value is not UTF-8; save the file as UTF-8")
            yield f"{path}: line {number}", of_csv(piece.names, values)
    else:
        for place, line in lines_of(task, path, begin, end):
            if not line.isspace():
                with placed(place):
                    document = of_json(line) if piece.kind == ".jsonl" else of_tsv(decoded(line))
                yield place, document


def _subjects_beside(path: Path, task: Conversion) -> list[tuple[str, str]]:
    """Return the subjects (URI, label) in the file beside a text. Raises DataError, OSError."""
    file = next((beside for ending in SUBJECT_FILES if (beside := path.with_suffix(ending)).exists()), None)
    return of_key_file(read_text(file, UTF_8, task.max_line)) if file else []


def label_of(subject: tuple[str, str], subjects: Subjects | None) -> str:
    """Return the URI of a subject (URI, label), "" if the vocabulary lacks it. Raises ValueError for what cannot be stored."""
    uri, label = subject
    if subjects is None:
        return string_of(uri or label, "a subject")
    return (uri if uri in subjects.titles else "") if uri else subjects.uris.get(label, "")


def read_annif(task: Conversion) -> Part:
    """Collective. Read this rank's documents. Raises ConfigError, DataError."""
    options, comm = task.options, task.comm
    if options.language is not None and options.vocabulary is None:
        raise ConfigError(f"--language {options.language} has no effect without --vocabulary; leave it out")
    subjects, path = None, options.vocabulary
    if path is not None:
        subjects = mpi.run_on_root(comm, f"reading {path}", lambda: read_subjects(path, options.language, task.max_line))
    corpus = new_corpus(task)
    parts = mpi.run_on_root(task.comm, f"reading {task.what}", lambda: divide_inputs(task.inputs, comm.size, task.max_line))
    seen, n_left_out, n_unknown = Seen(corpus.fields), 0, 0
    with task.reading():
        for place, document in (each for piece in parts[comm.rank] for each in documents_of(piece, task)):
            with placed(place):
                labels = [label for subject in document.subjects if (label := label_of(subject, subjects))]
                n_unknown += len(document.subjects) - len(labels)
                if not labels and not options.unindexed:
                    n_left_out += 1
                    continue
                content = {"text": document.text, **document.metadata}
                values = [values_of(content.get(field.name), field) for field in corpus.fields]
                seen.add(content, values)
                group = "" if options.group is None else string_of(content.get(options.group), options.group)
                known = labels if document.subjects else None
                corpus.add(string_of(document.name, "document_id"), values, known, "", group=group)
    _, (left_out, unknown) = mpi.exclusive_sum(comm, [n_left_out, n_unknown])
    check_fields(task, corpus, seen)
    if left_out:
        task.log(f"left out: {plural(left_out, 'document')} without subjects (--unindexed keeps them)")
    if unknown:
        task.log(f"warning: left out: {plural(unknown, 'entry', 'entries')} of subjects that {options.vocabulary} does not have")
    task.log(f"{task.what}: read; making rows")
    part = vectorise(task, corpus)
    if subjects is not None:
        part.label_titles = [subjects.titles.get(name, "") for name in part.labels.names]
    return part
