"""Columns of a table that are features, and those that only number or name the rows.

An index of pandas, a row number or an identifier says nothing about other rows, but in a sorted file it
determines the labels. The row number and identifiers are known only after the last row. So their
values are compared while they are read: a rank keeps the first row number of each file, and the values of
identifiers. Then the ranks compare what they have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.number_rows import NumberRows
from hpcml.conversion.table_rows import Batch, Roles
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
    """The columns of numbers that so far are equal to the row number, and the values of possible identifiers.

    With --features or --like there are none: the option or the file says which columns are features.
    """

    def __init__(self, task: Conversion, roles: Roles, names: Sequence[str]) -> None:
        names = () if roles.features or task.like is not None else names
        self.order = list(names)
        self.rows: dict[int, int] = {}  # by file
        self.first: dict[str, dict[int, float]] = {name: {} for name in names}  # first value by file
        self.ids = {name: Spool(task.scratch, np.float64) for name in names if name.strip().casefold() in ID_NAMES}

    @property
    def names(self) -> set[str]:
        """The columns whose values are still needed."""
        return {*self.first, *self.ids}

    def add(self, batch: Batch) -> None:
        """Compare the values of rows. Raises OSError."""
        before = self.rows.get(batch.file, 0)
        self.rows[batch.file] = before + batch.n_rows
        places = np.arange(before, before + batch.n_rows, dtype=np.float64)
        for name, first in list(self.first.items()):
            values = batch.columns[name]
            if not np.array_equal(values, first.setdefault(batch.file, float(values[0])) + places):
                del self.first[name]
        for name, spool in list(self.ids.items()):
            values = batch.columns[name]
            if np.array_equal(values, np.floor(values)):
                spool.append(values)
            else:
                del self.ids[name]

    def reasons(self, comm: mpi.Comm) -> dict[str, str]:
        """Return why columns are not features, by name, in the order of the columns. Collective over `comm`."""
        parts = comm.allgather((self.rows, self.first, list(self.ids)))
        found: dict[str, str] = {}
        for name in self.order:
            if all(name in first for _, first, _ in parts) and _is_row_number(
                [(file, n, first[name][file]) for rows, first, _ in parts for file, n in rows.items()]
            ):
                found[name] = "row number"
            elif all(name in ids for *_, ids in parts) and _is_unique(comm, self.ids[name]):
                found[name] = "unique whole numbers"
        return found


def _is_row_number(pieces: Sequence[tuple[int, int, float]]) -> bool:
    """Return whether a column counts rows, from 0 or 1, over all files or in each.

    `pieces` are (file, number of rows, first value) of consecutive rows in which it goes up by 1.
    """
    if not pieces:
        return False
    files, sizes, first = (np.array(values) for values in zip(*pieces, strict=True))
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
