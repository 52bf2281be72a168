"""BioASQ's articles: {"articles": [{"pmid", "title", "abstractText", "year", "meshMajor"}, ...]}.

The files of a test have "documents", "abstract" and no meshMajor. A file of all articles has tens
of gigabytes and one article a line, so its lines are shared out over ranks. One of at most
WHOLE_BYTES may be laid out as it likes: each rank reads it whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from hpcml import mpi
from hpcml.conversion.jsonl import document_of, loaded
from hpcml.conversion.like import Like
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Part
from hpcml.conversion.text import new_corpus, vectorise
from hpcml.data.descriptors import Descriptors, share_descriptors
from hpcml.errors import DataError
from hpcml.files.lines import BYTE_ORDER_MARK, byte_range, line_blocks, line_limit, lines_before, open_plain, plain_size
from hpcml.log import Log, named
from hpcml.partition import even_bounds

WHOLE_BYTES = 1 << 25  # uncompressed
LISTS = ("articles", "documents")
BEGIN = re.compile(rb'\s*\{\s*"(articles|documents)"\s*:\s*\[')
CLOSING = re.compile(rb"\]?\s*\}?")  # alone on a line, as is nothing
END = re.compile(rb"\]\s*\}\s*$")
EXPECTED = '{"articles": [...]} or {"documents": [...]}'


@mpi.collective
def read_bioasq(comm: mpi.Comm, inputs: list[Path], options: ConvertOptions, like: Like | None, log: Log, scratch: Path) -> Part:
    """Collective over `comm`. Read this rank's articles. Raises DataError with the article or line.

    With --descriptors labels are identifiers instead of names.
    """
    (path,) = inputs
    descriptors = None if options.descriptors is None else share_descriptors(comm, options.descriptors)
    unknown: set[str] = set()
    closed: list[bool] = []
    corpus, size = new_corpus(comm, options, like, scratch), 0
    with mpi.agreed(comm, f"reading {path}"):
        if comm.rank == 0:
            size = plain_size(path)
    is_small = comm.bcast(size) <= WHOLE_BYTES
    begin, end = (0, 0) if is_small else byte_range(comm, path)
    with mpi.agreed(comm, f"reading {path}"):
        found = (
            _whole(path, comm.rank, comm.size) if is_small else _by_line(path, begin, end, line_limit(options.max_line_mb), closed)
        )
        for where, article in found:
            try:
                document = document_of(_as_document(article, descriptors, unknown), corpus.fields)
            except ValueError as error:
                raise DataError(f"{path}: {where()}: {error}") from None
            if not document.row_id:
                raise DataError(f"{path}: {where()}: no pmid; expected the number of the article")
            corpus.add(*document)
    if not is_small and not mpi.agreed_any(comm, bool(closed)):
        raise DataError(f"{path}: it ends before its list of articles does; get it again")
    missing = sorted(set().union(*comm.allgather(unknown)))
    if missing:
        log(f"note: {len(missing):,} headings are not in {options.descriptors}, such as {named(missing[0])!r}; their names stay")
    log(f"{path}: read; making rows")
    part = vectorise(comm, corpus, options, like)
    if descriptors is not None:
        part.label_titles = descriptors.titles(part.labels.names)
    return part


def _as_document(article: Any, descriptors: Descriptors | None, unknown: set[str]) -> Any:
    """An article as one of JSON lines; headings without an identifier are added to `unknown`."""
    if not isinstance(article, dict):
        return article
    document = {
        key: value for key, value in article.items() if key not in ("pmid", "abstractText", "abstract", "meshMajor", "split")
    }
    abstract = article.get("abstractText") if article.get("abstractText") is not None else article.get("abstract")
    year = article.get("year")
    document |= {"id": article.get("pmid"), "text": abstract, "year": str(year) if isinstance(year, int) else year}
    labels = article.get("meshMajor")
    if descriptors is not None and isinstance(labels, list):
        known = descriptors.identifiers
        unknown.update(label for label in labels if isinstance(label, str) and label not in known)
        labels = [known.get(label, label) if isinstance(label, str) else label for label in labels]
    return document | {"labels": labels}


def _whole(path: Path, rank: int, size: int) -> Iterator[tuple[Any, Any]]:
    """(where, article) of this rank's share of a small file. Raises DataError."""
    with open_plain(path) as file:
        content = file.read(WHOLE_BYTES + 1)
    try:
        value = loaded(content.removeprefix(BYTE_ORDER_MARK), f"expected {EXPECTED}")
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None
    name = next((name for name in LISTS if isinstance(value, dict) and isinstance(value.get(name), list)), None)
    if name is None:
        raise DataError(f"{path}: no list of articles; expected {EXPECTED}")
    begin, end = even_bounds(len(value[name]), size)[rank : rank + 2].tolist()
    for place, article in enumerate(value[name][begin:end], begin + 1):
        yield lambda place=place: f"article {place}", article


def _by_line(path: Path, first: int, last: int, max_line: int, closed: list[bool]) -> Iterator[tuple[Any, Any]]:
    """(where, article) of lines; `closed` is told of the end of the list. Raises DataError."""
    for offset, block in line_blocks(path, first, last, max_line=max_line):
        for number, line in enumerate(BytesIO(block)):

            def where(offset: int = offset, number: int = number) -> str:
                return f"line {lines_before(path, offset) + number + 1}"

            text = line.strip()
            if offset == 0 and number == 0:
                opened = BEGIN.match(text)
                if opened is None:
                    raise DataError(f"{path}: line 1: expected {EXPECTED}, with an article on each line")
                text = text[opened.end() :].strip()
            if CLOSING.fullmatch(text):
                closed += [True] * bool(text)
                continue
            text = text.removesuffix(b",").strip()
            try:
                yield where, _article(text, closed)
            except ValueError as error:
                raise DataError(f"{path}: {where()}: {error}") from None


def _article(text: bytes, closed: list[bool]) -> Any:
    """The article on a line, behind which the list may end: `closed` is told. Raises ValueError."""
    expected = "expected one article on each line (or a file below 32 MiB)"
    try:
        return loaded(text, expected)
    except ValueError:
        shorter = END.sub(b"", text)
        if shorter == text:
            raise
    found = loaded(shorter, expected)
    closed.append(True)
    return found
