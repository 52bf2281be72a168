"""A folder of text files: each file is a document, and its folder is its label."""

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
from hpcml.files.opening import read_at_most
from hpcml.log import is_unicode, named, plural

DEFAULT_ENCODING = "utf-8"


def find_files(folder: Path, encoding: str) -> list[tuple[str, int]]:
    """Return (relative path, bytes), sorted, without hidden files."""
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
    task.log.detail(f"{folder}: {plural(len(files), 'file')} read; computing features")
    return vectorise(task, corpus)
