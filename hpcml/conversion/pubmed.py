"""NLM's PubMed files: citations with MeSH headings; baseline and update files form one dataset.

Each rank reads consecutive whole files. Rows are the latest citations in file order: of several versions the highest, and of that
version the last record, unless it is deleted.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion, reading
from hpcml.conversion.part import Part
from hpcml.conversion.pubmed_xml import Book, Deletion, Record, entries
from hpcml.conversion.split import check_sizes, draw_test_rows
from hpcml.conversion.text import Corpus, vectorise
from hpcml.data.descriptors import read_descriptors
from hpcml.errors import ConfigError, DataError, OptionError
from hpcml.log import Progress, plural
from hpcml.mpi.routing import Routing

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
RANGE_KEYS = 1 << 20  # keys per rank and round
YEARS = re.compile(r"(\d{4})(?:(-)(\d{4})?)?")


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
    """Return flags of the keys (n, in order) that are the last record of the highest version and not deleted."""
    order = np.argsort(keys >> 1, kind="stable")
    ordered = keys[order]
    last = np.diff(ordered >> 1, append=-1) != 0
    alive = order[last & (ordered & 1 == 0)]  # ascending by PMID, then by version
    pmids = keys[alive] >> (VERSION_BITS + 1)
    flags = np.zeros(keys.size, dtype=bool)
    flags[alive[np.diff(pmids, append=-1) != 0]] = True
    return flags


def select_latest(comm: mpi.Comm, keys: np.ndarray) -> np.ndarray:
    """Return whether each record of this rank's keys is the latest. Collective over `comm`."""
    _, (total,) = mpi.exclusive_sum(comm, [keys.size])
    n_rounds = math.ceil(max(1, int(total)) / RANGE_KEYS / comm.size)
    flags = np.zeros(keys.size, dtype=bool)
    for number in range(n_rounds):
        with mpi.agreed(comm, "searching for revisions"):
            pmids = keys >> (VERSION_BITS + 1)
            positions = np.flatnonzero(pmids % n_rounds == number)
            routing = Routing(comm, pmids[positions] // n_rounds % comm.size)
        flags[positions] = routing.answer(is_latest(routing.send(keys[positions])))
    return flags[keys & 1 == 0]


def read_pubmed(task: Conversion) -> Part:
    corpus, comm, names = Corpus(task), task.comm, task.options.descriptors
    for field in corpus.fields:
        if field.name not in (*FIELDS, *ABSTRACT):
            where = f"--fields {field.name}" if task.like is None else f"--like {task.like.path}"
            raise ConfigError(f"{where}: PubMed records have no field {field.name!r}; expected {', '.join(FIELDS)}")
    descriptors = None if names is None else mpi.run_on_root(comm, f"reading {names}", lambda: read_descriptors(names))
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
                elif isinstance(entry, Deletion):
                    counts["deletions"] += len(entry.keys)
                    keys.extend(record_key(*key, deleted=True) for key in entry.keys)
                elif isinstance(entry, Book):
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
        task.log(
            f"note: {n_other:,} citations have an IndexingMethod other than Curated and Automated; treated as indexed by people"
        )
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
    # Titles from --descriptors, otherwise from --like, otherwise from the last record.
    labels, known = part.labels["Y"], set(part.labels["Y"])
    titles: dict[str, str] = {}
    for rank_titles in comm.allgather({ui: name for ui, name in last_titles.items() if ui in known}):
        titles |= rank_titles
    if task.like is not None and (own := task.like.titles(len(labels))) is not None:
        titles |= {name: title for name, title in zip(labels, own, strict=True) if title}
    if descriptors is not None:
        by_file = {name: title for name, title in zip(labels, descriptors.titles(labels), strict=True) if title}
        if labels and not by_file:
            raise OptionError("descriptors", descriptors.path, f"contains none of the labels, such as {labels[0]!r}; remove it")
        titles |= by_file
    part.label_titles = [titles.get(name, "") for name in labels]
    return part
