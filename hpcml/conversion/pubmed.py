"""NLM's PubMed files: citations with MeSH headings; baseline and update files form one dataset.

Each rank reads consecutive whole files, one record at a time, so memory is bounded by one record. Rows are the latest citations in
file order: of several versions the highest, and of that version the last record, unless it is deleted.

The elements are those of NLM's PubMed DTD; files of the older MEDLINE DTD, with the root MedlineCitationSet, have the same records.
"""

import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import BadRecords, Conversion, reading
from hpcml.conversion.part import Part
from hpcml.conversion.split import check_sizes, draw_test_rows
from hpcml.conversion.text import Corpus, vectorise
from hpcml.errors import ConfigError, DataError, OptionError
from hpcml.files.lines import DAMAGE, open_decompressed
from hpcml.log import Progress, plural

ROOTS = ("PubmedArticleSet", "MedlineCitationSet")
RECORD, BOOK, DELETED = "MedlineCitation", "PubmedBookArticle", "DeleteCitation"
WITHOUT_LABEL = ("UNLABELLED", "UNLABELED")  # label of abstract sections without a label
BLOCK = 1 << 16  # bytes parsed at a time
MAX_PMID, MAX_VERSION = 1 << 40, 1 << 20
YEAR = re.compile(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)")
WRONG_ROOT = "expected a PubMed file of NLM with the root <PubmedArticleSet>"
# Headings that indexers check for every article (NLM's indexing course).
# fmt: off
CHECK_TAGS = frozenset((
    "Humans", "Animals", "Male", "Female", "Pregnancy", "Infant, Newborn", "Infant", "Child, Preschool", "Child",
    "Adolescent", "Young Adult", "Adult", "Middle Aged", "Aged", "Aged, 80 and over", "Cats", "Cattle", "Chick Embryo",
    "Cricetinae", "Dogs", "Guinea Pigs", "Mice", "Rabbits", "Rats",
))
# fmt: on
FIELDS = ("title", "abstract", "journal", "year")
ABSTRACT = ("abstract", "text")  # the second name is that of JSON lines
INDEXING = ("", "Curated", "Automated")  # values of IndexingMethod; the dataset stores their positions
OTHER_METHOD = len(INDEXING)
AUTOMATED, UNINDEXED = "automated", "unindexed"  # splits
TEST_SPLITS = {"train": "test", AUTOMATED: f"test-{AUTOMATED}", UNINDEXED: UNINDEXED}
VERSION_BITS = 20
YEARS = re.compile(r"(\d{4})(?:(-)(\d{4})?)?")


class Key(NamedTuple):
    pmid: int
    version: int


class MeshHeading(NamedTuple):
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


def entries(path: Path, limit: int, bad: BadRecords) -> Iterator[Record | list[Key] | None]:
    """Yield the records, without bad ones, the keys of each deletion, and None for a book. An entry has at most `limit` bytes."""
    try:
        from lxml.etree import XMLPullParser, XMLSyntaxError
    except ImportError:
        raise ConfigError(f"{path}: reading XML needs lxml; pip install 'hpcml[pubmed]'") from None
    tags = (*ROOTS, RECORD, BOOK, DELETED, "PubmedArticle")
    secure: dict[str, Any] = {"resolve_entities": "internal", "load_dtd": False, "no_network": True}
    parser = XMLPullParser(events=("start", "end"), tag=tags, remove_comments=True, remove_pis=True, **secure)
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
                        yield [_key(each) for each in element.iterchildren("PMID")]
                    elif element.tag == BOOK:
                        yield None
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


def parse_record(citation: Any) -> Record:
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


def _key(element: Any) -> Key:
    if element is None:
        raise ValueError("no <PMID>; expected one in each <MedlineCitation>")
    pmid, version = (_text(element).strip(), element.get("Version", "1").strip())
    for what, number, limit in (("PMID", pmid, MAX_PMID), ("Version", version, MAX_VERSION)):
        if not (number.isascii() and number.isdigit() and len(number) < 20 and 0 < int(number) < limit):
            raise ValueError(f"{what} {number[:20]!r}; expected a number from 1 to {limit - 1:,}")
    return Key(int(pmid), int(version))


def _text(element: Any) -> str:
    if element is None:
        return ""
    return "".join(element.itertext()) if len(element) else element.text or ""


def parse_years(values: Collection[str]) -> list[range]:
    """Parse "2019", "2017-2019", or "2019-" (and later)."""
    year_ranges = []
    for text in (part.strip() for value in values for part in value.split(",")):
        match = YEARS.fullmatch(text)
        first, last = (int(match[1]), int(match[3] or (9999 if match[2] else match[1]))) if match else (1, 0)
        if first > last:
            raise OptionError("test_years", text, "expected a year or a range, such as 2019, 2017-2019 or 2019-")
        year_ranges.append(range(first, last + 1))
    return year_ranges


def record_key(pmid: int, version: int, deleted: bool = False) -> int:
    return (pmid << VERSION_BITS | version) << 1 | deleted


def is_latest(keys: np.ndarray) -> np.ndarray:
    """Flag the last record of the highest version of each PMID, unless it is deleted."""
    order = np.argsort(keys >> 1, kind="stable")
    ordered = keys[order]
    last = np.diff(ordered >> 1, append=-1) != 0
    alive = order[last & (ordered & 1 == 0)]  # ascending by PMID, then by version
    pmids = keys[alive] >> (VERSION_BITS + 1)
    flags = np.zeros(keys.size, dtype=bool)
    flags[alive[np.diff(pmids, append=-1) != 0]] = True
    return flags


def select_latest(comm: mpi.Comm, keys: np.ndarray) -> np.ndarray:
    routing = mpi.Routing(comm, (keys >> (VERSION_BITS + 1)) % comm.size)
    return routing.answer(is_latest(routing.send(keys)))[keys & 1 == 0]


def read_pubmed(task: Conversion) -> Part:
    corpus, comm, descriptors = Corpus(task), task.comm, task.descriptors
    for field in corpus.fields:
        if field.name not in (*FIELDS, *ABSTRACT):
            where = f"--fields {field.name}" if task.like is None else f"--like {task.like.path}"
            raise ConfigError(f"{where}: PubMed records have no field {field.name!r}; expected {', '.join(FIELDS)}")
    options, years = task.options, parse_years(task.options.test_years)
    keys = array("q")  # of records and deletions, in order
    row_year, indexing = array("h"), array("B")
    last_titles: dict[str, str] = {}  # of labels, from their last record
    counts: Counter[str] = Counter()
    sizes = mpi.run_on_root(comm, "looking for the files", lambda: [path.stat().st_size for path in task.inputs])
    begin, end = task.share_by_weight(sizes)
    progress = Progress(task.log, "reading files (rank 0)", end - begin)
    with reading(task):
        for number, path in enumerate(task.inputs[begin:end]):
            for entry in entries(path, task.max_line, task.bad):
                if isinstance(entry, Record):
                    with task.bad.at(f"{path}: PMID {entry.key.pmid}"):
                        labels = []
                        for ui, name, major in entry.headings:
                            if not ui:
                                ui = descriptors.identifiers.get(name, "") if descriptors else ""
                            if not ui:
                                hint = "give the descriptors of its year: --descriptors desc.xml"
                                hint = "the descriptors file does not have it either" if descriptors else hint
                                raise ValueError(f"the heading {name[:60]!r} has no UI; {hint}")
                            last_titles[ui] = name
                            if (major or not options.major_topics) and not (options.no_check_tags and name in CHECK_TAGS):
                                labels.append(ui)
                        split = UNINDEXED if not entry.headings else AUTOMATED if entry.indexing == "Automated" else "train"
                        split = TEST_SPLITS[split] if any(entry.year in years for years in years) else split
                        texts = {"title": entry.title, "journal": entry.journal, "year": str(entry.year or "")}
                        values = [
                            entry.abstract if field.name in ABSTRACT else [text] if (text := texts[field.name]) else []
                            for field in corpus.fields
                        ]
                        corpus.add(str(entry.key.pmid), values, labels if entry.headings else None, split)
                        keys.append(record_key(*entry.key))
                        row_year.append(entry.year)
                        indexing.append(INDEXING.index(entry.indexing) if entry.indexing in INDEXING else OTHER_METHOD)
                        counts["records"] += 1
                elif entry is not None:
                    counts["deletions"] += len(entry)
                    keys.extend(record_key(*key, deleted=True) for key in entry)
                else:
                    counts["books"] += 1
            progress.update(number + 1)
    progress.close()
    is_latest_record = select_latest(comm, np.array(keys, dtype=np.int64))
    with mpi.agreed(comm, "removing replaced citations"):
        corpus.keep(is_latest_record)
    counts_of_rank = [*(counts[what] for what in ("records", "deletions", "books")), corpus.n_rows, indexing.count(OTHER_METHOD)]
    n_records, n_deletions, n_books, n_rows, n_other = mpi.exclusive_sum(comm, counts_of_rank)[1].tolist()
    read = f"{plural(n_records, 'citation')} and {plural(n_deletions, 'deletion')}"
    task.log(f"{plural(len(task.inputs), 'file')}: {read}; computing features of {plural(n_rows, 'row')}")
    if n_books:
        task.log(f"note: {n_books:,} book articles skipped; they have no headings")
    if n_other:
        others = f"{n_other:,} citations have an IndexingMethod other than Curated and Automated"
        task.log(f"note: {others}; treated as indexed by people")
    share = options.test_share
    if share is not None:
        test = draw_test_rows(task.options.seed, share, corpus.row_keys(comm)[0])
        corpus.splits = [TEST_SPLITS[name] if chosen else name for name, chosen in zip(corpus.splits, test, strict=True)]
        task = replace(task, options=replace(task.options, test_share=None))
    split_sizes = Counter(corpus.splits)
    _, (n_train, n_test) = mpi.exclusive_sum(comm, [split_sizes["train"], split_sizes["test"]])
    if share is not None:
        check_sizes(int(n_test), int(n_test + n_train), share)
    if years and not n_test:
        raise OptionError("test_years", options.test_years, "no citation of these years was indexed by people")
    if task.like is None and not n_train and n_rows:
        raise DataError("no training citation: expected one indexed by people outside the test years (or use --like)")
    part = vectorise(task, corpus)
    part.row_numbers = {
        "year": np.frombuffer(row_year, dtype=np.int16)[is_latest_record],
        "indexing": np.frombuffer(indexing, dtype=np.uint8)[is_latest_record],
    }
    part.titles = last_titles
    return part
