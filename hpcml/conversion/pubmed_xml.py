"""PubMed XML: records and deletions, one at a time. Memory is bounded by one record.

The elements are those of NLM's PubMed DTD; a file of MEDLINE's older DTD, whose root is
MedlineCitationSet, has the same records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hpcml.errors import ConfigError, DataError
from hpcml.files.lines import DAMAGE, open_plain

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

ROOTS = ("PubmedArticleSet", "MedlineCitationSet")
RECORD, BOOK, DELETED = "MedlineCitation", "PubmedBookArticle", "DeleteCitation"
WITHOUT_LABEL = ("UNLABELLED", "UNLABELED")  # what a section of an abstract is called that has no label
BLOCK = 1 << 16  # bytes that are parsed together
MAX_PMID, MAX_VERSION = 1 << 40, 1 << 20
YEAR = re.compile(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)")
WRONG_ROOT = "expected the files of NLM's PubMed, whose root is <PubmedArticleSet>"


class Key(NamedTuple):
    """The name of a version of a citation."""

    pmid: int
    version: int


class MeshHeading(NamedTuple):
    """A descriptor of a record: its UI ("": not given), its name, whether it is a major topic."""

    ui: str
    name: str
    major: bool


class Record(NamedTuple):
    """A citation; `year` 0: none; `indexing` is the attribute IndexingMethod, "" without it."""

    key: Key
    title: str
    abstract: list[str]
    journal: str
    year: int
    headings: list[MeshHeading]
    indexing: str


class Deletion(NamedTuple):
    """The citations that a file takes back."""

    keys: list[Key]


class Book(NamedTuple):
    """A chapter or a book, which has no headings and no citation of MEDLINE's."""


def entries(path: Path, limit: int) -> Iterator[Record | Deletion | Book]:
    """The entries of a file, of at most `limit` bytes each. Raises ConfigError, DataError."""
    try:
        from lxml.etree import XMLPullParser, XMLSyntaxError
    except ImportError:
        raise ConfigError(f"{path}: reading XML needs lxml; pip install 'hpcml[pubmed]'") from None
    parser = XMLPullParser(
        events=("start", "end"),
        tag=(*ROOTS, RECORD, BOOK, DELETED, "PubmedArticle"),
        remove_comments=True,
        remove_pis=True,
        resolve_entities="internal",
        load_dtd=False,
        no_network=True,
    )
    done = _Progress(path)
    with open_plain(path) as file:
        while True:
            error, root, block = None, None, _read(file, done)
            try:
                if block:
                    parser.feed(block)
                else:
                    root = parser.close()
            except XMLSyntaxError as failure:
                error = failure
            done.unread += len(block)
            for event, element in parser.read_events():  # also those before an error
                yield from _entry(event, element, done)
            if error is not None:
                raise DataError(f"{done}: {_reason(error, done)}")
            if not block:
                if not done.has_root:
                    raise DataError(f"{path}: the root is <{root.tag}>, but {WRONG_ROOT}")
                return
            if done.unread > limit:
                what = f"an entry of more than {limit >> 20} MiB; mend it, or raise --max-line-mb" if done.has_root else WRONG_ROOT
                raise DataError(f"{done}: {what}")


class _Progress:
    """How far a file has been read: its records, and the bytes since an entry ended."""

    def __init__(self, path: Path) -> None:
        self.path, self.n_records, self.unread, self.has_root = path, 0, 0, False

    def __str__(self) -> str:
        return f"{self.path}: record {self.n_records + 1:,}" if self.has_root else f"{self.path}"


def _read(file: object, done: _Progress) -> bytes:
    """The next bytes. Raises as `open_plain`, with the record."""
    try:
        return file.read(BLOCK)  # type: ignore[attr-defined]
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise type(error)(f"{error}, behind record {done.n_records:,}") from None


def _reason(error: SyntaxError, done: _Progress) -> str:
    if not done.has_root and not done.unread:
        return f"the file is empty; {WRONG_ROOT}"
    return f"not XML that can be read: {error.msg}; get or make the file again"


def _entry(event: str, element: Element, done: _Progress) -> Iterator[Record | Deletion | Book]:
    """The entry that an event ends; what was read leaves the tree. Raises DataError."""
    if not done.has_root:
        root = element.getroottree().getroot().tag
        if root not in ROOTS:
            raise DataError(f"{done.path}: the root is <{root}>, but {WRONG_ROOT}")
        done.has_root = True
    if event == "start" or element.tag in ROOTS:
        return
    try:
        if element.tag == RECORD:
            yield record_of(element)
            done.n_records += 1
        elif element.tag == DELETED:
            yield Deletion([_key(each) for each in element.iterchildren("PMID")])
        elif element.tag == BOOK:
            yield Book()
    except ValueError as error:
        pmid = element.findtext("PMID")
        raise DataError(f"{done}{f' (PMID {pmid.strip()[:20]!r})' if pmid else ''}: {error}") from None
    done.unread = 0
    element.clear(keep_tail=False)
    while element.getprevious() is not None:
        del element.getparent()[0]


def record_of(citation: Element) -> Record:
    """The record that a MedlineCitation holds. Raises ValueError with the reason."""
    article = citation.find("Article")
    if article is None:
        raise ValueError("no <Article>; expected one in each <MedlineCitation>")
    journal = article.find("Journal")
    return Record(
        key=_key(citation.find("PMID")),
        title=_text(article.find("ArticleTitle")),
        abstract=[text for each in article.iterfind("Abstract/AbstractText") if (text := _section(each))],
        journal="" if journal is None else _text(journal.find("Title")) or _text(journal.find("ISOAbbreviation")),
        year=_year(article, journal),
        headings=[_heading(each) for each in citation.iterfind("MeshHeadingList/MeshHeading")],
        indexing=citation.get("IndexingMethod", ""),
    )


def _key(element: Element | None) -> Key:
    """The PMID and its version (1 if it says none). Raises ValueError."""
    if element is None:
        raise ValueError("no <PMID>; expected one in each <MedlineCitation>")
    pmid, version = (_text(element).strip(), element.get("Version", "1").strip())
    for what, number, limit in (("PMID", pmid, MAX_PMID), ("Version", version, MAX_VERSION)):
        if not (number.isascii() and number.isdigit() and len(number) < 20 and 0 < int(number) < limit):
            raise ValueError(f"{what} {number[:20]!r}; expected a number from 1 to {limit - 1:,}")
    return Key(int(pmid), int(version))


def _text(element: Element | None) -> str:
    """All text in an element, that of its markup (<i>, <sup>, MathML) included."""
    if element is None:
        return ""
    return "".join(element.itertext()) if len(element) else element.text or ""


def _section(element: Element) -> str:
    text, label = _text(element), element.get("Label", "").strip()
    return f"{label}: {text}" if label and text.strip() and label.upper() not in WITHOUT_LABEL else text.strip() and text


def _year(article: Element, journal: Element | None) -> int:
    """The year of the issue, or else of the article; 0 without one."""
    date = None if journal is None else journal.find("JournalIssue/PubDate")
    found = [] if date is None else [date.find("Year"), date.find("MedlineDate")]
    for element in (*found, article.find("ArticleDate/Year")):
        if element is not None and (year := YEAR.search(_text(element))):
            return int(year[0])
    return 0


def _heading(element: Element) -> MeshHeading:
    """A heading; a major topic if it or a qualifier is marked as one. Raises ValueError."""
    descriptor = element.find("DescriptorName")
    if descriptor is None:
        raise ValueError("a <MeshHeading> without <DescriptorName>")
    ui, name = descriptor.get("UI", "").strip(), " ".join(_text(descriptor).split())
    if not ui and not name:
        raise ValueError("a heading has neither a UI nor a name")
    return MeshHeading(ui, name, any(each.get("MajorTopicYN") == "Y" for each in element))
