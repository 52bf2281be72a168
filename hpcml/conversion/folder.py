"""A folder of text files: each is a document, and the folder that it lies in is its label."""

from __future__ import annotations

import codecs
import os
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.part import Part
from hpcml.conversion.source_lines import placed
from hpcml.conversion.split import check_split_name
from hpcml.conversion.text import new_corpus, vectorise
from hpcml.errors import ConfigError, DataError
from hpcml.files.opening import read_beginning
from hpcml.log import is_unicode, named, plural

DEFAULT_ENCODING = "utf-8"


class _FolderFile(NamedTuple):
    """A file by its name below the folder, with / between the parts, and its bytes."""

    name: str
    size: int


def find_files(folder: Path, encoding: str) -> list[_FolderFile]:
    """The files below a folder by name, but those with a dot. Raises ConfigError, DataError."""
    try:
        codecs.lookup(encoding)
        b"a".decode(encoding)
    except (LookupError, UnicodeDecodeError, ValueError):
        raise ConfigError(f"--encoding {encoding}: no encoding of text that Python has; as in utf-8, latin-1, cp1252") from None
    found: list[_FolderFile] = []

    def refuse(error: OSError) -> None:
        raise error

    for place, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            if not name.startswith("."):
                path = Path(place) / name
                found.append(_FolderFile(path.relative_to(folder).as_posix(), path.stat().st_size))
                if not is_unicode(found[-1].name):
                    raise DataError(f"{folder}: a file has the name {named(found[-1].name)!r}, which is not UTF-8; rename it")
    if not found:
        raise DataError(f"{folder}: no files; expected one for each text")
    return sorted(found)


def label_and_split(name: str, splits: bool) -> tuple[list[str], str]:
    """The labels and the split of a file, by its name below the folder. Raises ValueError."""
    folders = PurePosixPath(name).parts[:-1]
    if splits and not folders:
        raise ValueError("lies in no folder; with --folder-splits every file is in one that names its split")
    split = check_split_name(folders[0]) if splits else ""
    label = "/".join(folders[1:] if splits else folders)
    return [label] if label else [], split


def read_text(path: Path, encoding: str, limit: int) -> str:
    """The text of a file of at most `limit` bytes. Raises DataError, OSError."""
    content = read_beginning(path, limit)
    if len(content) > limit:
        raise DataError(f"{path}: longer than {limit / 2**20:g} MiB; shorten it, or raise --max-line-mb")
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        hint = (
            "save the file as UTF-8, or name its encoding, as in --encoding latin-1"
            if encoding == DEFAULT_ENCODING
            else "choose another"
        )
        raise DataError(f"{path}: line {line}: byte {error.start + 1} is not {encoding.upper()}; {hint}") from None


def read_folder(task: Conversion) -> Part:
    """Collective. Read this rank's files, by name. Raises ConfigError, DataError."""
    (folder,) = task.inputs
    encoding = task.options.encoding or DEFAULT_ENCODING
    files = mpi.run_on_root(task.comm, f"reading {task.what}", lambda: find_files(folder, encoding))
    corpus = new_corpus(task)
    begin, end = task.share_by_weight([file.size + 1 for file in files])
    with task.reading():
        for file in files[begin:end]:
            with placed(folder / file.name):
                labels, split = label_and_split(file.name, task.options.folder_splits)
            text = read_text(folder / file.name, encoding, task.max_line)
            values = [[text] if field.name == "text" else [] for field in corpus.fields]
            corpus.add(file.name, values, labels, split)
    task.log(f"{folder}: {plural(len(files), 'file')} read; making rows")
    return vectorise(task, corpus)
