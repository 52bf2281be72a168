"""PubMed XML: records and deletions, one at a time. Memory is bounded by one record.

The elements are those of NLM's PubMed DTD; files of the older MEDLINE DTD, with the root MedlineCitationSet, have the same records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hpcml.conversion.records import BadRecords
from hpcml.errors import ConfigError, DataError
from hpcml.files.lines import DAMAGE, open_decompressed

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

ROOTS = ("PubmedArticleSet", "MedlineCitationSet")
RECORD, BOOK, DELETED = "MedlineCitation", "PubmedBookArticle", "DeleteCitation"
WITHOUT_LABEL = ("UNLABELLED", "UNLABELED")  # label of abstract sections without a label
BLOCK = 1 << 16  # bytes parsed at a time
MAX_PMID, MAX_VERSION = 1 << 40, 1 << 20
YEAR = re.compile(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)")
WRONG_ROOT = "expected a PubMed file of NLM with the root <PubmedArticleSet>"


class Key(NamedTuple):
    pmid: int
    version: int


class MeshHeading(NamedTuple):
    """`major`: the heading or a qualifier is a major topic."""

    ui: str
    name: str
    major: bool


class Record(NamedTuple):
    """`year` is that of the issue or else of the article (0: none)."""

    key: Key
    title: str
    abstract: list[str]
    journal: str
    year: int
    headings: list[MeshHeading]
    indexing: str


class Deletion(NamedTuple):
    keys: list[Key]


class Book(NamedTuple):
    """A book or chapter, which has no headings."""


def entries(path: Path, limit: int, bad: BadRecords) -> Iterator[Record | Deletion | Book]:
    """Yield the entries of a file, without bad records; an entry has at most `limit` bytes. Raises ConfigError, DataError."""
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
    n_records, unread, root, error, block = 0, 0, "", None, b"-"  # unread: bytes after the last entry
    with open_decompressed(path) as file:
        while block and error is None:
            try:
                block = file.read(BLOCK)
            except DAMAGE as failure:
                if isinstance(failure, OSError) and failure.errno is not None:
                    raise
                raise type(failure)(f"{failure}, after record {n_records:,}") from None
            unread += len(block)
            try:
                if block:
                    parser.feed(block)
                else:
                    root = parser.close().tag
            except XMLSyntaxError as failure:
                error = failure
            for event, element in parser.read_events():  # also those before an error
                root = root or element.getroottree().getroot().tag
                if root not in ROOTS:
                    break
                if event == "start" or element.tag in ROOTS:
                    continue
                try:
                    if element.tag == RECORD:
                        yield parse_record(element)
                    elif element.tag == DELETED:
                        yield Deletion([_key(each) for each in element.iterchildren("PMID")])
                    elif element.tag == BOOK:
                        yield Book()
                except ValueError as failure:
                    pmid = element.findtext("PMID")
                    name = f" (PMID {pmid.strip()[:20]!r})" if pmid else ""
                    error_there = DataError(f"{path}: record {n_records + 1:,}{name}: {failure}")
                    if element.tag != RECORD:
                        raise error_there from None
                    bad.add(error_there)
                n_records += element.tag == RECORD
                unread = 0
                element.clear(keep_tail=False)  # free memory
                while element.getprevious() is not None:
                    del element.getparent()[0]
            where = f"{path}: record {n_records + 1:,}" if root else f"{path}"
            if root and root not in ROOTS:
                raise DataError(f"{path}: the root is <{root}>, but {WRONG_ROOT}")
            if error is not None and not root and not unread:
                raise DataError(f"{path}: the file is empty; {WRONG_ROOT}")
            if error is not None:
                raise DataError(f"{where}: invalid XML: {error.msg}; download or create the file again")
            if unread > limit:
                what = f"an entry of more than {limit >> 20} MiB; shorten it or raise --max-line-mb" if root else WRONG_ROOT
                raise DataError(f"{where}: {what}")


def parse_record(citation: Element) -> Record:
    article = citation.find("Article")
    if article is None:
        raise ValueError("no <Article>; expected one in each <MedlineCitation>")
    journal = article.find("Journal")
    date = None if journal is None else journal.find("JournalIssue/PubDate")
    issue_dates = [] if date is None else [date.find("Year"), date.find("MedlineDate")]
    dates = [_text(element) for element in (*issue_dates, article.find("ArticleDate/Year"))]
    abstract = []
    for section in article.iterfind("Abstract/AbstractText"):
        text, label = _text(section), section.get("Label", "").strip()
        if text.strip():
            abstract.append(f"{label}: {text}" if label and label.upper() not in WITHOUT_LABEL else text)
    headings = []
    for heading in citation.iterfind("MeshHeadingList/MeshHeading"):
        descriptor = heading.find("DescriptorName")
        if descriptor is None:
            raise ValueError("a <MeshHeading> without <DescriptorName>")
        ui, name = descriptor.get("UI", "").strip(), " ".join(_text(descriptor).split())
        if not ui and not name:
            raise ValueError("a heading has neither a UI nor a name")
        headings.append(MeshHeading(ui, name, any(each.get("MajorTopicYN") == "Y" for each in heading)))
    return Record(
        key=_key(citation.find("PMID")),
        title=_text(article.find("ArticleTitle")),
        abstract=abstract,
        journal="" if journal is None else _text(journal.find("Title")) or _text(journal.find("ISOAbbreviation")),
        year=next((int(year[0]) for date in dates if (year := YEAR.search(date))), 0),
        headings=headings,
        indexing=citation.get("IndexingMethod", ""),
    )


def _key(element: Element | None) -> Key:
    if element is None:
        raise ValueError("no <PMID>; expected one in each <MedlineCitation>")
    pmid, version = (_text(element).strip(), element.get("Version", "1").strip())
    for what, number, limit in (("PMID", pmid, MAX_PMID), ("Version", version, MAX_VERSION)):
        if not (number.isascii() and number.isdigit() and len(number) < 20 and 0 < int(number) < limit):
            raise ValueError(f"{what} {number[:20]!r}; expected a number from 1 to {limit - 1:,}")
    return Key(int(pmid), int(version))


def _text(element: Element | None) -> str:
    if element is None:
        return ""
    return "".join(element.itertext()) if len(element) else element.text or ""
