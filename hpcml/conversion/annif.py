"""Annif's document corpora: lines of short texts, or folders of full texts, and their subjects.

All inputs are one corpus, in the order given. Each rank reads consecutive documents of it, about as
many bytes as others. The forms are those of Annif 1.4 (annif/corpus, annif/schemas/document.json). A
damaged document, which Annif passes over with a warning, is an error.

A vocabulary is TSV: `<URI> TAB label [TAB notation]`, in one language; or CSV: the columns uri, label_XX for each language XX, and
notation. A subject without any label is deprecated: no document has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from hpcml import mpi
from hpcml.conversion.conversion import Conversion, lines_of, reading
from hpcml.conversion.csv_file import Dialect, Segment, divide, read_header, read_rows
from hpcml.conversion.folder import read_text
from hpcml.conversion.jsonl import SOME_KEYS, check_fields, loaded, string_of, values_of
from hpcml.conversion.part import Part
from hpcml.conversion.text import Corpus, vectorise
from hpcml.errors import ConfigError, DataError, OptionError, nearest
from hpcml.files.lines import plain_name, plain_size, read_lines
from hpcml.files.opening import decoded
from hpcml.log import is_unicode, named, plural
from hpcml.partition import bounds_in_items

DOCUMENTS = (".txt", ".json")  # endings of files that are one document each
SUBJECT_FILES = (".tsv", ".key")  # beside a text, the first that there is
UTF_8 = "utf-8"
LABEL = "label_"  # how the names of columns of labels of a vocabulary begin
DIALECT = Dialect()
TEXT, SUBJECTS, NAME = "text", "subject_uris", "document_id"  # columns of CSV; the others are metadata


class AnnifDocument(NamedTuple):
    """Its subjects are (URI, label), one of which may be ""; `metadata` holds other fields."""

    text: str
    subjects: list[tuple[str, str]]
    metadata: dict[str, str]
    name: str = ""


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
    found = []
    for subject in subjects:
        if not isinstance(subject, dict) or not (subject.get("uri") or subject.get("label")):
            raise ValueError('a subject must be {"uri": …} or {"label": …}')
        found.append((_string(subject, "uri"), _string(subject, "label")))
    return AnnifDocument(_string(value, "text"), found, metadata, _string(value, "document_id"))


def _string(value: dict[str, Any], key: str) -> str:
    """The string of a key, "" without it. Raises ValueError."""
    found = value.get(key, "")
    if not isinstance(found, str):
        raise ValueError(f"{key} must be a string")
    return found


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


def bare(uri: str) -> str:
    """A URI without the angle brackets around it, if there are any."""
    return uri[1:-1] if uri.startswith("<") and uri.endswith(">") else uri


def read_subjects(path: Path, language: str | None, max_line: int) -> tuple[dict[str, str], dict[str, str]]:
    """Return a file's labels by URI, and URIs by label, the last of two. Local; raises ConfigError, DataError."""
    titles, uris = dict[str, str](), dict[str, str]()
    for number, uri, label in _subject_lines(path, language, max_line):
        if not uri or "\0" in uri + label or not is_unicode(uri + label):
            raise DataError(f"{path}: line {number}: {uri!r} is no URI that can be stored; expected <URI> and a label")
        if label:
            titles[uri], uris[label] = label, uri
        else:
            titles.pop(uri, None)
    if not titles:
        raise DataError(f"{path}: no subject with a label; expected lines <URI>, a tab, and the label")
    return titles, uris


def _subject_lines(path: Path, language: str | None, max_line: int) -> Iterator[tuple[int, str, str]]:
    """Yield (number of the line, URI, label or ""). Raises ConfigError, DataError."""
    if ".csv" not in map(str.lower, Path(plain_name(path)).suffixes[-2:]):
        if language is not None:
            raise OptionError("language", language, f"{path} has one language; remove it")
        for number, line in read_lines(path, max_line):
            if line.strip():
                uri, label, *_ = [*line.strip().split("\t", 2), ""]
                yield number, bare(uri), label
        return
    table = read_header(path, DIALECT, max_line)
    languages = [name.removeprefix(LABEL) for name in table.names if name.startswith(LABEL)]
    if "uri" not in table.names or not languages:
        raise DataError(f"{path}: line 1: no column uri or no column {LABEL}en; expected both in a vocabulary as CSV")
    if language is None and len(languages) > 1:
        raise ConfigError(f"{path}: labels in {', '.join(languages)}; choose one with --language")
    if language is not None and language not in languages:
        raise OptionError("language", language, f"{path} has no labels in it; {nearest(language, languages)}")
    all_rows = Segment(path, table.begin, plain_size(path), table.lines)
    for _, number, values in read_rows(all_rows, table.names, DIALECT, max_line):
        if isinstance(values, DataError):
            raise values
        row = dict(zip(table.names, values, strict=True))
        uri, label = bare(row["uri"]), row[LABEL + (language or languages[0])]
        if not label and any(row[LABEL + each] for each in languages):  # in use, without a label in this language
            label = uri
        yield number, uri, label


class Piece(NamedTuple):
    """The lines or rows of a file that one rank reads, or a whole document."""

    kind: str  # .tsv, .jsonl, .csv, .txt, .json
    segment: Segment
    names: Sequence[str] = ()  # of a CSV file, its columns


def divide_inputs(inputs: Sequence[Path], n_ranks: int, max_line: int) -> list[list[Piece]]:
    """Return the pieces that each rank reads. Local; raises DataError, and as `open_plain`.

    The ending says the kind of a file, as for Annif: .csv, .jsonl, else .tsv. The files of a folder are taken by name, texts first.
    """
    files: list[tuple[str, Path, int]] = []  # kind, path, bytes
    for path in inputs:
        if path.is_dir():
            found = [file for file in path.iterdir() if not file.name.startswith(".") and file.suffix in DOCUMENTS]
            if not found:
                raise DataError(f"{path}: no documents; expected .txt files, with a .tsv or .key file for each, or .json files")
            for file in found:
                if not is_unicode(file.name):
                    raise DataError(f"{path}: a file has the name {named(file.name)!r}, which is not UTF-8; rename it")
            found.sort(key=lambda file: (DOCUMENTS.index(file.suffix), file))
            files += [(file.suffix, file, file.stat().st_size + 1) for file in found]
            continue
        ending = Path(plain_name(path)).suffix.lower()
        size = plain_size(path)
        if size == 0:
            raise DataError(f"{path}: the file is empty; expected at least one document")
        files.append((ending if ending in (".csv", ".jsonl") else ".tsv", path, size))
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
    """Yield (place for messages, document), without bad ones. Raises DataError, OSError."""
    path, begin, end, _ = piece.segment
    if piece.kind in DOCUMENTS:
        with task.bad.at(path):
            text = read_text(path, UTF_8, task.max_line)
            beside = next((file for ending in SUBJECT_FILES if (file := path.with_suffix(ending)).exists()), None)
            if piece.kind == ".json":
                found = document(loaded(text.encode(), ""))
            else:
                found = AnnifDocument(text, of_key_file(read_text(beside, UTF_8, task.max_line)) if beside else [], {})
            yield path, found if found.name else found._replace(name=path.name)
    elif piece.kind == ".csv":
        for _, number, values in read_rows(piece.segment, piece.names, DIALECT, task.max_line):
            with task.bad.at(f"{path}: line {number}"):
                if isinstance(values, DataError):
                    raise values
                if not is_unicode("".join(values)):
                    raise ValueError("a value is not UTF-8; save the file as UTF-8")
                row = dict(zip(piece.names, values, strict=True))
                subjects = [(bare(uri), "") for uri in row.pop(SUBJECTS, "").split()]
                yield f"{path}: line {number}", AnnifDocument(row.pop(TEXT, ""), subjects, row, row.pop(NAME, ""))
    else:
        for place, line in lines_of(task, path, begin, end):
            if line.isspace():
                continue
            with task.bad.at(place):
                if piece.kind == ".jsonl":
                    found = document(loaded(line, ""))
                else:
                    text, _, uris = decoded(line).partition("\t")
                    found = AnnifDocument(text, [(bare(uri), "") for uri in uris.split()], {})
                yield place, found


def read_annif(task: Conversion) -> Part:
    """Collective. Read this rank's documents. Raises ConfigError, DataError."""
    options, comm = task.options, task.comm
    titles, uris, path = dict[str, str](), dict[str, str](), options.vocabulary
    if path is not None:
        titles, uris = mpi.run_on_root(comm, f"reading {path}", lambda: read_subjects(path, options.language, task.max_line))
    corpus = Corpus(task)
    parts = mpi.run_on_root(task.comm, f"reading {task.what}", lambda: divide_inputs(task.inputs, comm.size, task.max_line))
    n_left_out, n_unknown = 0, 0
    with reading(task):
        for place, document in (each for piece in parts[comm.rank] for each in documents_of(piece, task)):
            with task.bad.at(place):
                if path is None:
                    found = [string_of(uri or label, "a subject") for uri, label in document.subjects]
                else:
                    found = []
                    for uri, label in document.subjects:
                        found.append((uri if uri in titles else "") if uri else uris.get(label, ""))
                labels = [label for label in found if label]
                n_unknown += len(document.subjects) - len(labels)
                if not labels and not options.unindexed:
                    n_left_out += 1
                    continue
                content = {"text": document.text, **document.metadata}
                values = [values_of(content.get(field.name), field) for field in corpus.fields]
                if len(corpus.keys) < SOME_KEYS:
                    corpus.keys.update(content)
                group = "" if options.group is None else string_of(content.get(options.group), options.group)
                corpus.add(string_of(document.name, "document_id"), values, labels if document.subjects else None, "", group=group)
    _, (left_out, unknown) = mpi.exclusive_sum(comm, [n_left_out, n_unknown])
    check_fields(task, corpus)
    if left_out:
        task.log(f"left out: {plural(left_out, 'document')} without subjects (--unindexed keeps them)")
    if unknown:
        task.log(f"warning: left out: {plural(unknown, 'entry', 'entries')} of subjects that {options.vocabulary} does not have")
    task.log.detail(f"{task.what}: read; making rows")
    part = vectorise(task, corpus)
    if path is not None:
        part.label_titles = [titles.get(name, "") for name in part.labels["Y"]]
    return part
