"""NLM's PubMed files: citations with MeSH headings; baseline and updates make one dataset.

Each rank reads consecutive whole files. Rows are the citations that stay, in the order of the
files: of versions the highest, and of its records the last one, unless it is deleted.
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
from hpcml.conversion.split import check_sizes, drawn_test
from hpcml.conversion.text import Corpus, vectorise
from hpcml.data.descriptors import read_descriptors
from hpcml.errors import ConfigError, DataError, OptionError
from hpcml.log import Progress, plural
from hpcml.mpi.routing import Routing

# What indexers tick off for every article, by NLM's course for them.
# fmt: off
CHECK_TAGS = frozenset((
    "Humans", "Animals", "Male", "Female", "Pregnancy", "Infant, Newborn", "Infant", "Child, Preschool", "Child",
    "Adolescent", "Young Adult", "Adult", "Middle Aged", "Aged", "Aged, 80 and over", "Cats", "Cattle", "Chick Embryo",
    "Cricetinae", "Dogs", "Guinea Pigs", "Mice", "Rabbits", "Rats",
))
# fmt: on
FIELDS = ("title", "abstract", "journal", "year")
ABSTRACT = ("abstract", "text")  # as JSON lines call it
INDEXING = ("", "Curated", "Automated")  # values of IndexingMethod, by the number that the dataset has for them
OTHER_METHOD = len(INDEXING)
AUTOMATED, UNINDEXED = "automated", "unindexed"  # splits
TEST_SPLITS = {"train": "test", AUTOMATED: f"test-{AUTOMATED}", UNINDEXED: UNINDEXED}
VERSION_BITS = 20
RANGE_KEYS = 1 << 20  # that a rank decides about together
YEARS = re.compile(r"(\d{4})(?:(-)(\d{4})?)?")


def parse_years(given: Collection[str]) -> list[range]:
    """The years of --test-years: "2019", "2017-2019", "2019-" (and later). Raises ConfigError."""
    found = []
    for text in (part.strip() for value in given for part in value.split(",")):
        match = YEARS.fullmatch(text)
        first, last = (int(match[1]), int(match[3] or (9999 if match[2] else match[1]))) if match else (1, 0)
        if first > last:
            raise OptionError("test_years", text, "expected a year, a range or a beginning, as in 2019, 2017-2019 or 2019-")
        found.append(range(first, last + 1))
    return found


def key_of(pmid: int, version: int, deleted: bool = False) -> int:
    """Return the key of a record or a deletion."""
    return (pmid << VERSION_BITS | version) << 1 | deleted


def is_latest(keys: np.ndarray) -> np.ndarray:
    """Return flags of the keys (n, in order) that are the last of their version, not deleted, and of the highest version."""
    order = np.argsort(keys >> 1, kind="stable")
    ordered = keys[order]
    last = np.diff(ordered >> 1, append=-1) != 0
    alive = order[last & (ordered & 1 == 0)]  # ascending by PMID, then by version
    pmids = keys[alive] >> (VERSION_BITS + 1)
    flags = np.zeros(keys.size, dtype=bool)
    flags[alive[np.diff(pmids, append=-1) != 0]] = True
    return flags


def rows_that_stay(comm: mpi.Comm, keys: np.ndarray) -> np.ndarray:
    """Return a flag for each record (not deletion) among this rank's keys, in order. Collective over `comm`.

    A part of the PMIDs at a time is sent to the ranks that decide about them.
    """
    _, (total,) = mpi.exclusive_sum(comm, [keys.size])
    n_rounds = math.ceil(max(1, int(total)) / RANGE_KEYS / comm.size)
    flags = np.zeros(keys.size, dtype=bool)
    for number in range(n_rounds):
        with mpi.agreed(comm, "looking for revisions"):
            pmids = keys >> (VERSION_BITS + 1)
            places = np.flatnonzero(pmids % n_rounds == number)
            routing = Routing(comm, pmids[places] // n_rounds % comm.size)
        flags[places] = routing.answer(is_latest(routing.send(keys[places])))
    return flags[keys & 1 == 0]


def read_pubmed(task: Conversion) -> Part:
    """Collective. Read consecutive files, about as many bytes. Raises ConfigError, DataError."""
    corpus, comm, names = Corpus(task), task.comm, task.options.descriptors
    for field in corpus.fields:
        if field.name not in (*FIELDS, *ABSTRACT):
            where = f"--fields {field.name}" if task.like is None else f"--like {task.like.path}"
            raise ConfigError(f"{where}: PubMed's records have no field {field.name!r}, but {', '.join(FIELDS)}")
    descriptors = None if names is None else mpi.run_on_root(comm, f"reading {names}", lambda: read_descriptors(names))
    options, years = task.options, parse_years(task.options.test_years)
    keys = array("q")  # of records and deletions, in order
    row_year, indexing = array("h"), array("B")
    last_titles: dict[str, str] = {}  # of labels, by the last record that has them
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
                                hint = "name the descriptors of its year: --descriptors desc.xml"
                                hint = "that file has none" if descriptors else hint
                                raise ValueError(f"the heading {name[:60]!r} has no UI; {hint}")
                            last_titles[ui] = name
                            if (major or not options.major_topics) and not (options.no_check_tags and name in CHECK_TAGS):
                                labels.append(ui)
                        split = UNINDEXED if not entry.headings else AUTOMATED if entry.indexing == "Automated" else "train"
                        split = TEST_SPLITS[split] if any(entry.year in years for years in years) else split
                        # The abstract is called so by --fields, else text.
                        texts = {"title": entry.title, "journal": entry.journal, "year": str(entry.year or "")}
                        values = [
                            entry.abstract if field.name in ABSTRACT else [text] if (text := texts[field.name]) else []
                            for field in corpus.fields
                        ]
                        corpus.add(str(entry.key.pmid), values, labels if entry.headings else None, split)
                        keys.append(key_of(*entry.key))
                        row_year.append(entry.year)
                        indexing.append(INDEXING.index(entry.indexing) if entry.indexing in INDEXING else OTHER_METHOD)
                        counts["records"] += 1
                elif isinstance(entry, Deletion):
                    counts["deletions"] += len(entry.keys)
                    keys.extend(key_of(*key, deleted=True) for key in entry.keys)
                elif isinstance(entry, Book):
                    counts["books"] += 1
            progress.update(number + 1)
    progress.close()
    stays = rows_that_stay(comm, np.array(keys, dtype=np.int64))
    with mpi.agreed(comm, "leaving out what was replaced"):
        corpus.keep(stays)
    of_all = [*(counts[what] for what in ("records", "deletions", "books")), corpus.n_rows, indexing.count(OTHER_METHOD)]
    n_records, n_deletions, n_books, n_rows, n_other = mpi.exclusive_sum(comm, of_all)[1].tolist()
    read = f"{plural(n_records, 'citation')} and {plural(n_deletions, 'deletion')}"
    task.log(f"{plural(len(task.inputs), 'file')}: {read}; making {plural(n_rows, 'row')}")
    if n_books:
        task.log(f"note: {n_books:,} articles of books passed over, which have no headings")
    if n_other:
        task.log(f"note: {n_other:,} citations with an IndexingMethod other than Curated and Automated; taken as indexed by people")
    share = options.test_share
    if share is not None:  # the splits have names, of which some rows become test rows
        test = drawn_test(task.options.seed, share, corpus.row_keys(comm)[0])
        corpus.splits = [TEST_SPLITS[name] if chosen else name for name, chosen in zip(corpus.splits, test, strict=True)]
        task = replace(task, options=replace(task.options, test_share=None))
    of_split = Counter(corpus.splits)
    _, (n_train, n_test) = mpi.exclusive_sum(comm, [of_split["train"], of_split["test"]])
    if share is not None:
        check_sizes(int(n_test), int(n_test + n_train), share)
    if years and not n_test:
        raise OptionError("test_years", options.test_years, "no citation of these years that people indexed")
    if task.like is None and not n_train and n_rows:
        raise DataError(
            "no citation to train on: none that people indexed is outside of the test years; --like names a dataset to use"
        )
    part = vectorise(task, corpus)
    part.row_numbers = {
        "year": np.frombuffer(row_year, dtype=np.int16)[stays],
        "indexing": np.frombuffer(indexing, dtype=np.uint8)[stays],
    }
    # Titles: those of --descriptors, else of --like, else of the last record.
    labels, known = part.labels["Y"], set(part.labels["Y"])
    titles: dict[str, str] = {}
    for of_rank in comm.allgather({ui: name for ui, name in last_titles.items() if ui in known}):
        titles |= of_rank
    if task.like is not None and (own := task.like.titles(len(labels))) is not None:
        titles |= {name: title for name, title in zip(labels, own, strict=True) if title}
    if descriptors is not None:
        by_file = {name: title for name, title in zip(labels, descriptors.titles(labels), strict=True) if title}
        if labels and not by_file:
            raise OptionError("descriptors", descriptors.path, f"it has none of the labels, such as {labels[0]!r}; remove it")
        titles |= by_file
    part.label_titles = [titles.get(name, "") for name in labels]
    return part
