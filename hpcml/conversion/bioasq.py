"""BioASQ articles: {"articles": [{"pmid", "title", "abstractText", "year", "meshMajor"}, ...]}.

Test files have "documents" and "abstract" and no meshMajor. A file of all articles has tens of gigabytes and one article per line,
so its lines are distributed over the ranks. A file of at most WHOLE_BYTES may have any layout; each rank reads all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hpcml import mpi
from hpcml.conversion.conversion import Conversion, error_location, lines_of, reading
from hpcml.conversion.jsonl import RepeatedKeyError, parse_document, parse_json
from hpcml.conversion.part import Part
from hpcml.conversion.text import Corpus, vectorise
from hpcml.data.descriptors import Descriptors, read_descriptors
from hpcml.errors import DataError
from hpcml.files.lines import BYTE_ORDER_MARK, byte_range, open_decompressed, uncompressed_size
from hpcml.log import named

WHOLE_BYTES = 1 << 25  # uncompressed
LISTS = ("articles", "documents")
BEGIN = re.compile(rb'\s*\{\s*"(articles|documents)"\s*:\s*\[')
CLOSING = re.compile(rb"\]?\s*\}?")  # on its own line; also matches an empty line
END = re.compile(rb"\]\s*\}\s*$")
EXPECTED = '{"articles": [...]} or {"documents": [...]}'


def read_bioasq(task: Conversion) -> Part:
    (path,) = task.inputs
    comm, names = task.comm, task.options.descriptors
    descriptors = None if names is None else mpi.run_on_root(comm, f"reading {names}", lambda: read_descriptors(names))
    unknown: set[str] = set()
    closed: list[bool] = []
    corpus = Corpus(task)
    is_small = mpi.run_on_root(task.comm, f"reading {task.input_name}", lambda: uncompressed_size(path)) <= WHOLE_BYTES
    begin, end = (0, 0) if is_small else byte_range(comm, path)
    with reading(task):
        for where, article in _read_whole_file(path, task) if is_small else _read_lines(task, path, begin, end, closed):
            with task.bad.at(where):
                document = parse_document(_to_document(article, descriptors, unknown), corpus.fields)
                if not document.row_id:
                    raise ValueError("no pmid; expected the PubMed identifier")
                corpus.add(*document[:4])
    if not is_small and not mpi.agreed_any(comm, bool(closed)):
        raise DataError(f"{path}: ends within its list of articles; download it again")
    missing = sorted(set().union(*comm.allgather(unknown)))
    if missing:
        task.log(f"note: {len(missing):,} headings are not in {names}, such as {named(missing[0])!r}; they keep their names")
    task.log.detail(f"{path}: all articles read; computing features")
    part = vectorise(task, corpus)
    if descriptors is not None:
        part.label_titles = descriptors.titles(part.labels["Y"])
    return part


def _to_document(article: Any, descriptors: Descriptors | None, unknown: set[str]) -> Any:
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


def _read_whole_file(path: Path, task: Conversion) -> Iterator[tuple[object, Any]]:
    with open_decompressed(path) as file:
        content = file.read(WHOLE_BYTES + 1)
    with error_location(path):
        value = parse_json(content.removeprefix(BYTE_ORDER_MARK), f"expected {EXPECTED}")
    name = next((name for name in LISTS if isinstance(value, dict) and isinstance(value.get(name), list)), None)
    if name is None:
        raise DataError(f"{path}: no list of articles; expected {EXPECTED}")
    begin, end = task.share(len(value[name]))
    for number, article in enumerate(value[name][begin:end], begin + 1):
        yield f"{path}: article {number}", article


def _read_lines(task: Conversion, path: Path, first: int, last: int, closed: list[bool]) -> Iterator[tuple[object, Any]]:
    """Append to `closed` at the end of the list."""
    for location, line in lines_of(task, path, first, last):
        text = line.strip()
        if location.block.offset == 0 and location.in_block == 0:
            opened = BEGIN.match(text)
            if opened is None:
                raise DataError(f"{location}: expected {EXPECTED}, with one article per line")
            text = text[opened.end() :].strip()
        if CLOSING.fullmatch(text):
            closed += [True] * bool(text)
            continue
        text = text.removesuffix(b",").strip()
        expected = "expected one article per line (or a file below 32 MiB)"
        with task.bad.at(location):
            try:
                article = parse_json(text, expected)
            except RepeatedKeyError:
                raise
            except ValueError:
                shorter = END.sub(b"", text)  # the list may end after the article
                if shorter == text:
                    raise
                article = parse_json(shorter, expected)
                closed.append(True)
            yield location, article
