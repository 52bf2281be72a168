"""Annif document corpora (lines of short texts or folders of full texts, with their subjects), and folders of labelled texts.

In a folder of the source `folder`, each file is a document, and its folder is its label.

All inputs of a corpus form one corpus, in the given order. Each rank reads consecutive documents of about equal total size. The
formats are those of Annif 1.4 (annif/corpus, annif/schemas/document.json). A damaged document, which Annif skips with a warning, is
an error.

A vocabulary is TSV, `<URI> TAB label [TAB notation]` in one language, or CSV with the columns uri, label_XX for each language XX,
and notation. A subject without a label in any language is deprecated and removed from documents.
"""

import codecs
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from hpcml import mpi
from hpcml.conversion.conversion import Conversion, lines_of, reading
from hpcml.conversion.csv_file import Dialect, Segment, divide, read_header, read_rows
from hpcml.conversion.jsonl import MAX_KEYS, check_fields, check_string, parse_json, read_field_values
from hpcml.conversion.part import Part
from hpcml.conversion.split import check_split_name
from hpcml.conversion.text import Corpus, vectorise
from hpcml.errors import ConfigError, DataError, OptionError, nearest
from hpcml.files.lines import plain_name, read_lines, uncompressed_size
from hpcml.files.opening import decoded, read_at_most
from hpcml.log import is_unicode, named, plural
from hpcml.partition import bounds_in_items

DEFAULT_ENCODING = "utf-8"
DOCUMENTS = (".txt", ".json")  # endings of files with one document each
SUBJECT_FILES = (".tsv", ".key")  # of a text file; the first existing one is read
LABEL = "label_"  # prefix of the label columns of a vocabulary
DIALECT = Dialect()
TEXT, SUBJECTS, NAME = "text", "subject_uris", "document_id"  # CSV columns; other columns are metadata


def find_files(folder: Path, encoding: str) -> list[tuple[str, int]]:
    try:
        codecs.lookup(encoding)
        b"a".decode(encoding)
    except (LookupError, UnicodeDecodeError, ValueError):
        raise OptionError("encoding", encoding, "unknown encoding; expected one such as utf-8, latin-1 or cp1252") from None
    file_sizes: list[tuple[str, int]] = []

    def refuse(error: OSError) -> None:
        raise error

    for folder_path, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            if not name.startswith("."):
                path = Path(folder_path) / name
                file_sizes.append((path.relative_to(folder).as_posix(), path.stat().st_size))
                if not is_unicode(file_sizes[-1][0]):
                    raise DataError(f"{folder}: the file name {named(file_sizes[-1][0])!r} is not UTF-8; rename it")
    if not file_sizes:
        raise DataError(f"{folder}: no files; expected one per document")
    return sorted(file_sizes)


def read_text(path: Path, encoding: str, limit: int) -> str:
    content = read_at_most(path, limit)
    if len(content) > limit:
        raise DataError(f"{path}: longer than {limit / 2**20:g} MiB; shorten it, or raise --max-line-mb")
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        is_default = encoding == DEFAULT_ENCODING
        hint = "save the file as UTF-8 or set --encoding, such as latin-1" if is_default else "choose another"
        raise DataError(f"{path}: line {line}: byte {error.start + 1} is not {encoding.upper()}; {hint}") from None


def read_folder(task: Conversion) -> Part:
    (folder,) = task.inputs
    encoding = task.options.encoding or DEFAULT_ENCODING
    files = mpi.run_on_root(task.comm, f"reading {task.input_name}", lambda: find_files(folder, encoding))
    corpus = Corpus(task)
    begin, end = task.share_by_weight([size + 1 for _, size in files])
    with reading(task):
        for name, _ in files[begin:end]:
            folders, split = PurePosixPath(name).parts[:-1], ""
            with task.bad.at(folder / name):
                if task.options.folder_splits:
                    if not folders:
                        raise ValueError("not in a folder; with --folder-splits, the top folder of each file names its split")
                    split, folders = check_split_name(folders[0]), folders[1:]
                labels = ["/".join(folders)] if folders else []
                text = read_text(folder / name, encoding, task.max_line)
                values = [[text] if field.name == "text" else [] for field in corpus.fields]
                corpus.add(name, values, labels, split)
    return vectorise(task, corpus)


class AnnifDocument(NamedTuple):
    """A document; subjects are (URI, label), one of which may be ""."""

    text: str
    subjects: list[tuple[str, str]]
    metadata: dict[str, str]
    name: str = ""


def parse_annif_document(value: object) -> AnnifDocument:
    if not isinstance(value, dict):
        raise ValueError("expected an object with the key text or metadata")
    if "text" not in value and "metadata" not in value:
        raise ValueError("neither text nor metadata; expected at least one of them")
    metadata = value.get("metadata", {})
    if not isinstance(metadata, dict) or not all(isinstance(each, str) for each in metadata.values()):
        raise ValueError("metadata must be an object whose values are strings")
    subjects = value.get("subjects", [])
    if not isinstance(subjects, list):
        raise ValueError('subjects must be a list of {"uri": …} or {"label": …}')
    pairs = []
    for subject in subjects:
        if not isinstance(subject, dict) or not (subject.get("uri") or subject.get("label")):
            raise ValueError('a subject must be {"uri": …} or {"label": …}')
        pairs.append((check_string(subject.get("uri"), "uri", False), check_string(subject.get("label"), "label", False)))
    text, name = (check_string(value.get(key), key, False) for key in ("text", "document_id"))
    return AnnifDocument(text, pairs, metadata, name)


def parse_key_file(text: str) -> list[tuple[str, str]]:
    subjects = []
    for line in text.splitlines():
        uri, label = "", ""
        for value in map(str.strip, line.split("\t")):
            if value.startswith("<") and value.endswith(">"):
                uri = strip_brackets(value)
            elif value:
                label = value
                break
        if uri or label:
            subjects.append((uri, label))
    return subjects


def strip_brackets(uri: str) -> str:
    return uri[1:-1] if uri.startswith("<") and uri.endswith(">") else uri


def read_subjects(path: Path, language: str | None, max_line: int) -> tuple[dict[str, str], dict[str, str]]:
    titles, uris = dict[str, str](), dict[str, str]()
    for number, uri, label in _subject_lines(path, language, max_line):
        if not uri or "\0" in uri + label or not is_unicode(uri + label):
            raise DataError(f"{path}: line {number}: {uri!r} is not a valid URI; expected <URI> and a label")
        if label:
            titles[uri], uris[label] = label, uri
        else:
            titles.pop(uri, None)
    if not titles:
        raise DataError(f"{path}: no subject with a label; expected lines of <URI>, a tab, and the label")
    return titles, uris


def _subject_lines(path: Path, language: str | None, max_line: int) -> Iterator[tuple[int, str, str]]:
    if ".csv" not in map(str.lower, Path(plain_name(path)).suffixes[-2:]):
        if language is not None:
            raise OptionError("language", language, f"a TSV vocabulary ({path}) has one language; remove it")
        for number, line in read_lines(path, max_line):
            if line.strip():
                uri, label, *_ = [*line.strip().split("\t", 2), ""]
                yield number, strip_brackets(uri), label
        return
    table = read_header(path, DIALECT, max_line)
    languages = [name.removeprefix(LABEL) for name in table.names if name.startswith(LABEL)]
    if "uri" not in table.names or not languages:
        raise DataError(f"{path}: line 1: no column uri or no column {LABEL}en; expected both in a vocabulary as CSV")
    if language is None and len(languages) > 1:
        raise ConfigError(f"{path}: labels in {', '.join(languages)}; choose one with --language")
    if language is not None and language not in languages:
        raise OptionError("language", language, f"{path} has no labels in this language; {nearest(language, languages)}")
    for _, number, values in read_rows(table, DIALECT, max_line):
        if isinstance(values, DataError):
            raise values
        row = dict(zip(table.names, values, strict=True))
        uri, label = strip_brackets(row["uri"]), row[LABEL + (language or languages[0])]
        if not label and any(row[LABEL + each] for each in languages):  # in use, but without a label in this language
            label = uri
        yield number, uri, label


class Piece(NamedTuple):
    kind: str  # .tsv, .jsonl, .csv, .txt, .json
    segment: Segment


def divide_inputs(inputs: Sequence[Path], n_ranks: int, max_line: int) -> list[list[Piece]]:
    """Files are .csv, .jsonl, otherwise .tsv, as in Annif; files of a folder are sorted by name, texts first. Local."""
    files: list[tuple[str, Path, int]] = []  # kind, path, bytes
    for path in inputs:
        if path.is_dir():
            documents = [file for file in path.iterdir() if not file.name.startswith(".") and file.suffix in DOCUMENTS]
            if not documents:
                raise DataError(f"{path}: no documents; expected .txt files, with a .tsv or .key file for each, or .json files")
            for file in documents:
                if not is_unicode(file.name):
                    raise DataError(f"{path}: the file name {named(file.name)!r} is not UTF-8; rename it")
            documents.sort(key=lambda file: (DOCUMENTS.index(file.suffix), file))
            files += [(file.suffix, file, file.stat().st_size + 1) for file in documents]
            continue
        ending = Path(plain_name(path)).suffix.lower()
        size = uncompressed_size(path)
        if size == 0:
            raise DataError(f"{path}: the file is empty; expected at least one document")
        files.append((ending if ending in (".csv", ".jsonl") else ".tsv", path, size))
    parts: list[list[Piece]] = [[] for _ in range(n_ranks)]
    for (kind, path, _), bounds in zip(files, bounds_in_items([size for *_, size in files], n_ranks), strict=True):
        segments = [Segment(path, begin, end) for begin, end in pairwise(bounds)]
        if kind == ".csv":
            table = read_header(path, DIALECT, max_line)
            if TEXT not in table.names:
                raise DataError(f"{path}: line 1: no column {TEXT!r}; expected {TEXT} and {SUBJECTS}")
            segments = divide(table, [max(0, bound - table.begin) for bound in bounds], DIALECT, max_line)
        for part, segment in zip(parts, segments, strict=True):
            if segment.begin < segment.end and (segment.begin == 0 or kind not in DOCUMENTS):
                part.append(Piece(kind, segment))
    return parts


def read_documents(piece: Piece, task: Conversion) -> Iterator[tuple[object, AnnifDocument]]:
    path, begin, end, _, names = piece.segment
    if piece.kind in DOCUMENTS:
        with task.bad.at(path):
            text = read_text(path, DEFAULT_ENCODING, task.max_line)
            subject_file = next((file for ending in SUBJECT_FILES if (file := path.with_suffix(ending)).exists()), None)
            if piece.kind == ".json":
                document = parse_annif_document(parse_json(text.encode(), ""))
            else:
                subject_text = read_text(subject_file, DEFAULT_ENCODING, task.max_line) if subject_file else ""
                document = AnnifDocument(text, parse_key_file(subject_text), {})
            yield path, document if document.name else document._replace(name=path.name)
    elif piece.kind == ".csv":
        for _, number, values in read_rows(piece.segment, DIALECT, task.max_line):
            with task.bad.at(f"{path}: line {number}"):
                if isinstance(values, DataError):
                    raise values
                if not is_unicode("".join(values)):
                    raise ValueError("a value is not UTF-8; save the file as UTF-8")
                row = dict(zip(names, values, strict=True))
                subjects = [(strip_brackets(uri), "") for uri in row.pop(SUBJECTS, "").split()]
                yield f"{path}: line {number}", AnnifDocument(row.pop(TEXT, ""), subjects, row, row.pop(NAME, ""))
    else:
        for location, line in lines_of(task, path, begin, end):
            if line.isspace():
                continue
            with task.bad.at(location):
                if piece.kind == ".jsonl":
                    document = parse_annif_document(parse_json(line, ""))
                else:
                    text, _, uris = decoded(line).partition("\t")
                    document = AnnifDocument(text, [(strip_brackets(uri), "") for uri in uris.split()], {})
                yield location, document


def read_annif(task: Conversion) -> Part:
    options, comm = task.options, task.comm
    titles, uris, path = dict[str, str](), dict[str, str](), options.vocabulary
    if path is not None:
        titles, uris = mpi.run_on_root(comm, f"reading {path}", lambda: read_subjects(path, options.language, task.max_line))
    corpus = Corpus(task)
    parts = mpi.run_on_root(task.comm, f"reading {task.input_name}", lambda: divide_inputs(task.inputs, comm.size, task.max_line))
    n_left_out, n_unknown = 0, 0
    with reading(task):
        for location, document in (each for piece in parts[comm.rank] for each in read_documents(piece, task)):
            with task.bad.at(location):
                if path is None:
                    subjects = [check_string(uri or label, "a subject") for uri, label in document.subjects]
                else:
                    subjects = []
                    for uri, label in document.subjects:
                        subjects.append((uri if uri in titles else "") if uri else uris.get(label, ""))
                labels = [label for label in subjects if label]
                n_unknown += len(document.subjects) - len(labels)
                if not labels and not options.unindexed:
                    n_left_out += 1
                    continue
                content = {"text": document.text, **document.metadata}
                values = [read_field_values(content.get(field.name), field) for field in corpus.fields]
                if len(corpus.keys_seen) < MAX_KEYS:
                    corpus.keys_seen.update(content)
                group = "" if options.group is None else check_string(content.get(options.group), options.group)
                name = check_string(document.name, "document_id")
                corpus.add(name, values, labels if document.subjects else None, "", group=group)
    _, (left_out, unknown) = mpi.exclusive_sum(comm, [n_left_out, n_unknown])
    check_fields(task, corpus)
    if left_out:
        task.log(f"skipped: {plural(left_out, 'document')} without subjects (use --unindexed to keep them)")
    if unknown:
        task.log(f"warning: skipped: {plural(unknown, 'entry', 'entries')} of subjects that are not in {options.vocabulary}")
    part = vectorise(task, corpus)
    if path is not None:
        part.label_titles = [titles.get(name, "") for name in part.labels["Y"]]
    return part
