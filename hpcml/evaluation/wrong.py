"""The rows that a model is most wrong about: of each label those missed, and those wrongly given, farthest beyond its threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpcml import mpi
from hpcml.evaluation.counts import Counts
from hpcml.evaluation.evaluate import TruePairs
from hpcml.evaluation.ranking import Ranking

NOBODY = -1  # the number of no row
KINDS = ("missed", "given")  # true labels at or below their threshold, false ones above


@dataclass(frozen=True)
class WrongRow:
    """A row of a dataset and a label (its place among those evaluated) that it lacks, or has wrongly."""

    row: int
    label: int
    beyond: float  # how far the score is beyond the threshold, on the wrong side
    score: float


class _Table:
    """Of each label the `size` rows that are farthest beyond the threshold; of equal ones those of lower numbers."""

    def __init__(self, n_labels: int, size: int) -> None:
        self.rows = np.full((n_labels, size), NOBODY, dtype=np.int64)
        self.beyond = np.full((n_labels, size), -np.inf)
        self.scores = np.zeros((n_labels, size))

    def take(self, labels: np.ndarray, rows: np.ndarray, beyond: np.ndarray, scores: np.ndarray) -> None:
        """Take more pairs (n each), none of which is there already."""
        touched, size = np.unique(labels), self.rows.shape[1]
        there = self.rows[touched] != NOBODY
        labels = np.concatenate([np.repeat(touched, there.sum(axis=1)), labels])
        rows = np.concatenate([self.rows[touched][there], rows])
        beyond = np.concatenate([self.beyond[touched][there], beyond])
        scores = np.concatenate([self.scores[touched][there], scores])
        order = np.lexsort((rows, -beyond, labels))
        first = np.searchsorted(labels[order], touched)
        places = np.arange(order.size) - np.repeat(first, np.diff(np.append(first, order.size)))
        order, places = order[places < size], places[places < size]
        for table, values in ((self.rows, rows), (self.beyond, beyond), (self.scores, scores)):
            table[labels[order], places] = values[order]


class WrongRows:
    """A `Watch` that keeps the most wrong rows of each label: 48 bytes for each of `size` rows, and the true pairs."""

    def __init__(self, thresholds: np.ndarray, size: int) -> None:
        """`thresholds` (n_labels) are those of all labels of the model."""
        self._of_model, self.size = thresholds, size
        self.thresholds = thresholds[:0]
        self._tables: dict[str, _Table] = {}

    @mpi.collective
    def begin(self, comm: mpi.Comm, pairs: TruePairs) -> None:
        """Collective over `comm`. Take the pairs that are missed."""
        self.comm, self._pairs, self.thresholds = comm, pairs, self._of_model[pairs.evaluated]
        self._tables = {kind: _Table(self.thresholds.size, self.size) for kind in KINDS}
        beyond = self.thresholds[pairs.labels] - pairs.scores
        wrong = beyond >= 0
        rows = pairs.row_numbers[pairs.rows[wrong]]
        self._tables["missed"].take(pairs.labels[wrong], rows, beyond[wrong], pairs.scores[wrong])

    def add(self, row: int, scores: np.ndarray, begin: int) -> None:
        """Take those of a block's scores (n, B) that are above their thresholds and of no true pair. Local."""
        pairs, table, end = self._pairs, self._tables["given"], begin + scores.shape[1]
        beyond = scores - self.thresholds[begin:end]
        first, last = np.searchsorted(pairs.labels, [begin, end])
        rows, labels = pairs.rows[first:last], pairs.labels[first:last]
        mine = (rows >= row) & (rows < row + scores.shape[0])
        beyond[rows[mine] - row, labels[mine] - begin] = -np.inf
        # rows come in ascending order, so one that is as far beyond as the last that is kept comes too late
        rows, lanes = np.nonzero(beyond > np.maximum(table.beyond[begin:end, -1], 0.0))
        if rows.size:
            table.take(begin + lanes, pairs.row_numbers[row + rows], beyond[rows, lanes], scores[rows, lanes])

    def add_sorted(self, label: int, ascending: np.ndarray) -> None:
        """Nothing. Local."""

    @mpi.collective
    def end(self, pool: Counts, ranking: Ranking) -> None:
        """Collective. Join what the ranks have found."""
        for kind, mine in self._tables.items():
            joined = _Table(self.thresholds.size, self.size)
            columns = [np.repeat(np.arange(self.thresholds.size), self.size)]
            columns += [values.ravel() for values in (mine.rows, mine.beyond, mine.scores)]
            chosen = columns[1] != NOBODY
            joined.take(*(np.concatenate(mpi.allgather_arrays(self.comm, column[chosen])) for column in columns))
            self._tables[kind] = joined

    def of_label(self, kind: str, label: int) -> list[WrongRow]:
        """The most wrong rows of a label, the worst first; `kind` is one of KINDS."""
        table = self._tables[kind]
        columns = (table.rows[label].tolist(), table.beyond[label].tolist(), table.scores[label].tolist())
        return [WrongRow(row, label, beyond, score) for row, beyond, score in zip(*columns, strict=True) if row != NOBODY]

    def worst(self, kind: str, n: int) -> list[WrongRow]:
        """The n most wrong pairs of all labels; of equal ones those of lower rows, then labels."""
        table = self._tables[kind]
        labels, places = np.nonzero(table.rows != NOBODY)
        order = np.lexsort((labels, table.rows[labels, places], -table.beyond[labels, places]))[:n]
        found = []
        for label, place in zip(labels[order].tolist(), places[order].tolist(), strict=True):
            values = (float(table.beyond[label, place]), float(table.scores[label, place]))
            found.append(WrongRow(int(table.rows[label, place]), label, *values))
        return found
