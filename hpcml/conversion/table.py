"""Tables: options name their columns; rows become texts or numbers, with labels.

An index of pandas, a row number or an identifier says nothing about other rows, but in a sorted file it
determines the labels. So such columns are no features. The row number and identifiers are known only after the last row.
Their values are compared while they are read: a rank keeps the first row number of each file, and the values of
identifiers. Then the ranks compare what they have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.fields import PLAIN
from hpcml.conversion.number_rows import ZERO_COLUMNS, NumberRows, finish
from hpcml.conversion.part import Part
from hpcml.conversion.table_rows import Batch, Roles, add_numbers, add_texts, describe_rows
from hpcml.conversion.text import Corpus, new_corpus, vectorise
from hpcml.errors import ConfigError
from hpcml.files.spool import Spool
from hpcml.log import named
from hpcml.mpi.routing import Routing

PANDAS_INDEX = re.compile(r"(Unnamed: 0(\.\d+)?|__index_level_\d+__)?")
ID_NAMES = ("id", "index")
LEAST_ROWS = 3  # a column of fewer rows may hold 0, 1 or 1, 2 by chance
EXACT = 2.0**53  # from here on float64 does not tell all whole numbers apart
FEW = 6  # columns that the log names


def choose_features(
    task: Conversion, roles: Roles, columns: Mapping[str, Iterable[str]], index: Iterable[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """Return the columns of numbers that are features, and why other columns are not.

    `columns` maps each column to the features that it becomes; `index` are those that the file calls an index.
    """
    if roles.is_text or roles.features:
        return list(roles.features or ()), {}
    taken = {name for _, name in roles.named()}
    known = None if task.like is None or task.like.feature_names is None else set(task.like.feature_names)
    features: list[str] = []
    reasons: dict[str, str] = {}
    for name, made in columns.items():
        if known is not None and not known.isdisjoint(made) and (name not in taken or name == roles.id):
            features.append(name)
        elif name == roles.id:
            reasons[name] = "names the rows"
        elif name in taken:
            continue
        elif PANDAS_INDEX.fullmatch(name.strip()) or name in index:
            reasons[name] = "index of pandas"
        elif known is not None:
            reasons[name] = "not in --like"
        else:
            features.append(name)
    return features, reasons


class RowNumberSearch:
    """The columns of numbers that so far go up by 1, and the values of possible identifiers.

    With --features or --like there are none: the option or the file says which columns are features.
    """

    def __init__(self, task: Conversion, roles: Roles, names: Sequence[str]) -> None:
        self.all = () if roles.features or task.like is not None else tuple(names)
        self.pieces: list[tuple[int, int]] = []  # file and number of rows of each batch
        self.first: dict[str, list[float]] = {name: [] for name in self.all}  # the first value of each batch
        self.ids = {name: Spool(task.scratch, np.float64) for name in self.all if name.strip().casefold() in ID_NAMES}

    @property
    def names(self) -> set[str]:
        """The columns whose values are still needed."""
        return {*self.first, *self.ids}

    def add(self, batch: Batch) -> None:
        """Compare the values of rows. Raises OSError."""
        self.pieces.append((batch.file, batch.n_rows))
        for name in list(self.first):
            values = batch.columns[name]
            self.first[name].append(float(values[0]))
            if not np.array_equal(values, values[0] + np.arange(batch.n_rows)):
                del self.first[name]
        for name, spool in list(self.ids.items()):
            values = batch.columns[name]
            if np.array_equal(values, np.floor(values)):
                spool.append(values)
            else:
                del self.ids[name]

    def reasons(self, comm: mpi.Comm) -> dict[str, str]:
        """Return why columns are not features, by name, in the order of the columns. Collective over `comm`."""
        parts = comm.allgather((self.pieces, self.first, list(self.ids)))
        pieces = [piece for own, *_ in parts for piece in own]
        found: dict[str, str] = {}
        for name in self.all:
            if all(name in first for _, first, _ in parts) and _is_row_number(
                pieces, [value for _, first, _ in parts for value in first[name]]
            ):
                found[name] = "row number"
            elif all(name in ids for *_, ids in parts) and _is_unique(comm, self.ids[name]):
                found[name] = "unique whole numbers"
        return found


def _is_row_number(pieces: Sequence[tuple[int, int]], first: Sequence[float]) -> bool:
    """Return whether a column counts rows, from 0 or 1, over all files or in each.

    `pieces` are the files and numbers of consecutive rows in which it goes up by 1, from the values `first` on.
    """
    if not pieces:
        return False
    files, sizes = np.array(pieces).T
    before = np.cumsum(sizes) - sizes
    in_file = before - before[np.searchsorted(files, files)]
    counts = ((before, sizes.sum()), (in_file, np.bincount(files, sizes).max()))
    return any(n_rows >= LEAST_ROWS and np.array_equal(first, count + base) for count, n_rows in counts for base in (0, 1))


def _is_unique(comm: mpi.Comm, spool: Spool) -> bool:
    """Return whether no whole number occurs twice on any ranks; from EXACT on all count as unique. Collective over `comm`."""
    with mpi.agreed(comm, "comparing identifiers"):
        values = spool[:]
        values = values[np.abs(values) < EXACT].astype(np.int64)
    received = Routing(comm, values % comm.size).send(values)
    return not mpi.agreed_any(comm, np.unique(received).size < received.size)


def leave_out_columns(task: Conversion, rows: NumberRows, search: RowNumberSearch, reasons: Mapping[str, str]) -> None:
    """Remove the features that only number or name the rows. Log which columns are not features. Collective.

    `reasons` are those of columns that are no features of `rows`. Raises ConfigError if no feature is left.
    """
    found = search.reasons(task.comm)
    reasons = {**reasons, **found}
    if reasons:
        few = ", ".join(f"{named(name)!r} ({why})" for name, why in list(reasons.items())[:FEW])
        more = f" and {len(reasons) - FEW} more" if len(reasons) > FEW else ""
        task.log(f"{task.what}: not used as features: {few}{more}; --features names the columns to use")
    with task.reading():
        if found:
            rows.leave_out(found)
        if found and not rows.n_features:
            raise ConfigError(f"{task.what}: no column is left for features; name the columns to use with --features")


def corpus_and_roles(task: Conversion) -> tuple[Corpus | None, Roles]:
    """Collective. Where texts go (None: numbers), and the roles. Raises ConfigError."""
    options, like = task.options, task.like
    text_like = None if like is None else like.text
    if not options.text and not options.fields and text_like is None:
        return None, Roles.of(options, PLAIN)
    if options.features:
        raise ConfigError(f"--features {','.join(options.features)}: rows are made from texts or from numbers; leave one out")
    for flag, given in {"--missing-as-zero": options.missing_as_zero, ZERO_COLUMNS: options.missing_columns_as_zero}.items():
        if given and like is not None:
            raise ConfigError(f"{flag} is for numbers, but --like {like.path} was made from texts; leave it out")
    if text_like is not None and text_like.fields == PLAIN and not options.text:
        raise ConfigError(f"--like {like.path}: was made from texts that are not told apart; name the columns of texts with --text")
    if text_like is not None and text_like.fields != PLAIN and options.text:
        names = ", ".join(field.name for field in text_like.fields)
        raise ConfigError(f"--text does not go with --like {like.path}, which tells the columns {names} apart; leave it out")
    corpus = new_corpus(task)
    return corpus, Roles.of(options, corpus.fields)


def read_table(
    task: Conversion, names: Sequence[str], batches: Callable[[Roles, list[str]], Iterator[Batch]], index: Sequence[str] = ()
) -> Part:
    """Collective. This rank's rows of a table with these columns. Raises ConfigError, DataError.

    `batches` gives them, when it knows the columns' roles and which of them are features; `index` are the columns that the
    file calls an index.
    """
    what = str(task.what)
    corpus, roles = corpus_and_roles(task)
    with task.reading():
        roles.check(what, names)
        features, reasons = choose_features(task, roles, {name: (name,) for name in names}, index)
        if "split" in names and "split" not in (name for _, name in roles.named()) and task.options.test_share is None:
            task.log(f"warning: {what}: the column split is not taken for the splits of the rows; --split-column split takes it")
        with_ids = roles.id is not None
        rows = None if corpus is not None else NumberRows(task, features, len(features), with_ids, others=names)
        if corpus is None and not features:
            raise ConfigError(f"{what}: no column is left for features; name columns of texts (--text) or of numbers (--features)")
        search = RowNumberSearch(task, roles, features)
        for batch in batches(roles, features):
            if corpus is not None:
                add_texts(corpus, batch, roles, task.options)
            else:
                add_numbers(rows, batch, features, task.options)
                describe_rows(rows, batch, roles, task.options)
                search.add(batch)
    if rows is not None:
        leave_out_columns(task, rows, search, reasons)
    task.log(f"{what}: read; making rows")
    return finish(task, rows) if corpus is None else vectorise(task, corpus)


def wanted(roles: Roles, features: Sequence[str]) -> tuple[list[str], list[str]]:
    """The columns that are read: those of numbers, and the others."""
    numbers = dict.fromkeys([*features, *roles.indicators])
    return list(numbers), list(dict.fromkeys(name for _, name in roles.named() if name not in numbers))
