"""A folder of text files: each is a document, and the folder that it lies in is its label."""

from __future__ import annotations

import codecs
import os
from pathlib import Path, PurePosixPath

from hpcml import mpi
from hpcml.conversion.conversion import Conversion, reading
from hpcml.conversion.part import Part
from hpcml.conversion.split import check_split_name
from hpcml.conversion.text import Corpus, vectorise
from hpcml.errors import DataError, OptionError
from hpcml.files.opening import read_beginning
from hpcml.log import is_unicode, named, plural

DEFAULT_ENCODING = "utf-8"


def find_files(folder: Path, encoding: str) -> list[tuple[str, int]]:
    """Return (name, bytes) of the files below a folder, but those with a dot, by name. Raises ConfigError, DataError.

    A name has / between its parts.
    """
    try:
        codecs.lookup(encoding)
        b"a".decode(encoding)
    except (LookupError, UnicodeDecodeError, ValueError):
        raise OptionError("encoding", encoding, "no encoding of text that Python has; as in utf-8, latin-1, cp1252") from None
    found: list[tuple[str, int]] = []

    def refuse(error: OSError) -> None:
        raise error

    for place, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            if not name.startswith("."):
                path = Path(place) / name
                found.append((path.relative_to(folder).as_posix(), path.stat().st_size))
                if not is_unicode(found[-1][0]):
                    raise DataError(f"{folder}: a file has the name {named(found[-1][0])!r}, which is not UTF-8; rename it")
    if not found:
        raise DataError(f"{folder}: no files; expected one for each text")
    return sorted(found)


def read_text(path: Path, encoding: str, limit: int) -> str:
    """The text of a file of at most `limit` bytes. Raises DataError, OSError."""
    content = read_beginning(path, limit)
    if len(content) > limit:
        raise DataError(f"{path}: longer than {limit / 2**20:g} MiB; shorten it, or raise --max-line-mb")
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        is_default = encoding == DEFAULT_ENCODING
        hint = "save the file as UTF-8, or name its encoding, as in --encoding latin-1" if is_default else "choose another"
        raise DataError(f"{path}: line {line}: byte {error.start + 1} is not {encoding.upper()}; {hint}") from None


def read_folder(task: Conversion) -> Part:
    """Collective. Read this rank's files, by name. Raises ConfigError, DataError."""
    (folder,) = task.inputs
    encoding = task.options.encoding or DEFAULT_ENCODING
    files = mpi.run_on_root(task.comm, f"reading {task.what}", lambda: find_files(folder, encoding))
    corpus = Corpus(task)
    begin, end = task.share_by_weight([size + 1 for _, size in files])
    with reading(task):
        for name, _ in files[begin:end]:
            folders, split = PurePosixPath(name).parts[:-1], ""
            with task.bad.at(folder / name):
                if task.options.folder_splits:
                    if not folders:
                        raise ValueError("lies in no folder; with --folder-splits every file is in one that names its split")
                    split, folders = check_split_name(folders[0]), folders[1:]
                labels = ["/".join(folders)] if folders else []
                text = read_text(folder / name, encoding, task.max_line)
                values = [[text] if field.name == "text" else [] for field in corpus.fields]
                corpus.add(name, values, labels, split)
    task.log.detail(f"{folder}: {plural(len(files), 'file')} read; making rows")
    return vectorise(task, corpus)
