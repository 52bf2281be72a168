"""BioASQ's articles: {"articles": [{"pmid", "title", "abstractText", "year", "meshMajor"}, ...]}.

The files of a test have "documents", "abstract" and no meshMajor. A file of all articles has tens of gigabytes and one article a
line, so its lines are shared out over ranks. One of at most WHOLE_BYTES may be laid out as it likes: each rank reads it whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hpcml import mpi
from hpcml.conversion.conversion import Conversion, lines_of, placed, reading
from hpcml.conversion.jsonl import RepeatedKeyError, document_of, loaded
from hpcml.conversion.part import Part
from hpcml.conversion.text import Corpus, vectorise
from hpcml.data.descriptors import Descriptors, read_descriptors
from hpcml.errors import DataError
from hpcml.files.lines import BYTE_ORDER_MARK, byte_range, open_plain, plain_size
from hpcml.log import named

WHOLE_BYTES = 1 << 25  # uncompressed
LISTS = ("articles", "documents")
BEGIN = re.compile(rb'\s*\{\s*"(articles|documents)"\s*:\s*\[')
CLOSING = re.compile(rb"\]?\s*\}?")  # alone on a line, as is nothing
END = re.compile(rb"\]\s*\}\s*$")
EXPECTED = '{"articles": [...]} or {"documents": [...]}'


def read_bioasq(task: Conversion) -> Part:
    """Collective. Read this rank's articles. Raises DataError that names article or line."""
    (path,) = task.inputs
    comm, names = task.comm, task.options.descriptors
    descriptors = None if names is None else mpi.run_on_root(comm, f"reading {names}", lambda: read_descriptors(names))
    unknown: set[str] = set()
    closed: list[bool] = []
    corpus = Corpus(task)
    is_small = mpi.run_on_root(task.comm, f"reading {task.what}", lambda: plain_size(path)) <= WHOLE_BYTES
    begin, end = (0, 0) if is_small else byte_range(comm, path)
    with reading(task):
        for where, article in _whole(path, task) if is_small else _by_line(task, path, begin, end, closed):
            with task.bad.at(where):
                document = document_of(_as_document(article, descriptors, unknown), corpus.fields)
                if not document.row_id:
                    raise ValueError("no pmid; expected the number of the article")
                corpus.add(*document[:4])
    if not is_small and not mpi.agreed_any(comm, bool(closed)):
        raise DataError(f"{path}: it ends before its list of articles does; get it again")
    missing = sorted(set().union(*comm.allgather(unknown)))
    if missing:
        task.log(f"note: {len(missing):,} headings are not in {names}, such as {named(missing[0])!r}; their names stay")
    task.log.detail(f"{path}: read; making rows")
    part = vectorise(task, corpus)
    if descriptors is not None:
        part.label_titles = descriptors.titles(part.labels["Y"])
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


def _whole(path: Path, task: Conversion) -> Iterator[tuple[object, Any]]:
    """(where, article) of this rank's share of a small file. Raises DataError."""
    with open_plain(path) as file:
        content = file.read(WHOLE_BYTES + 1)
    with placed(path):
        value = loaded(content.removeprefix(BYTE_ORDER_MARK), f"expected {EXPECTED}")
    name = next((name for name in LISTS if isinstance(value, dict) and isinstance(value.get(name), list)), None)
    if name is None:
        raise DataError(f"{path}: no list of articles; expected {EXPECTED}")
    begin, end = task.share(len(value[name]))
    for number, article in enumerate(value[name][begin:end], begin + 1):
        yield f"{path}: article {number}", article


def _by_line(task: Conversion, path: Path, first: int, last: int, closed: list[bool]) -> Iterator[tuple[object, Any]]:
    """(where, article) of lines; `closed` is told of the end of the list. Raises DataError."""
    for place, line in lines_of(task, path, first, last):
        text = line.strip()
        if place.block.offset == 0 and place.in_block == 0:
            opened = BEGIN.match(text)
            if opened is None:
                raise DataError(f"{place}: expected {EXPECTED}, with an article on each line")
            text = text[opened.end() :].strip()
        if CLOSING.fullmatch(text):
            closed += [True] * bool(text)
            continue
        text = text.removesuffix(b",").strip()
        expected = "expected one article on each line (or a file below 32 MiB)"
        with task.bad.at(place):
            try:
                article = loaded(text, expected)
            except RepeatedKeyError:
                raise
            except ValueError:
                shorter = END.sub(b"", text)  # the list may end behind the article
                if shorter == text:
                    raise
                article = loaded(shorter, expected)
                closed.append(True)
            yield place, article
