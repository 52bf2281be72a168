"""The most wrong rows of each label, missed or wrongly given, farthest beyond its threshold.

How far is a difference of scores, or of log-odds where the model has probabilities, so that labels can be compared (`comparable`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import DataError
from hpcml.evaluation.comparable import BY_PROBABILITY, BY_SCORE
from hpcml.evaluation.evaluate import evaluate
from hpcml.evaluation.explain import labels_to_show
from hpcml.evaluation.judged import UNSCORED, Counts, JudgedRows, ScoreObserver
from hpcml.evaluation.titles import names_of_rows, titles_of
from hpcml.files.report import ReportedResult
from hpcml.files.table import table
from hpcml.log import Log, named, plural
from hpcml.measures import Ranking
from hpcml.model.trained import Trained

NOBODY = -1  # the number of no row
KINDS = ("missed", "given")  # true labels at or below their threshold, false ones above
UNITS = {
    BY_SCORE: "how far the score is beyond the label's threshold",
    BY_PROBABILITY: "how far the log-odds of the probability are beyond those at the label's threshold",
}
TITLES = {"missed": "true labels that are not given", "given": "labels that are given and not true"}
OF_ONE = {"missed": "rows that have it and are not given it", "given": "rows that are given it and do not have it"}


@dataclass(frozen=True)
class WrongRow:
    """A row of a dataset and a label (its place among the evaluated) missed or wrongly given."""

    row: int
    label: int
    beyond: float  # how far the score, or its log-odds, are beyond the threshold, on the wrong side
    score: float


class _Table:
    """Each label's `size` rows farthest beyond the threshold; of equal ones the lower numbers."""

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
        for kept, values in ((self.rows, rows), (self.beyond, beyond), (self.scores, scores)):
            kept[labels[order], places] = values[order]


class WrongRows(ScoreObserver):
    """A `ScoreObserver` that keeps the most wrong rows: 48 bytes for each, and the true pairs."""

    def __init__(self, thresholds: np.ndarray, size: int) -> None:
        """`thresholds` (n_labels) are those of all labels of the model."""
        self._of_model, self.size = thresholds, size
        self.thresholds = thresholds[:0]
        self._tables: dict[str, _Table] = {}

    def begin(self, judged: JudgedRows) -> None:
        """Collective. Take the pairs that are missed."""
        self._judged, self.thresholds = judged, self._of_model[judged.numbers]
        self._tables = {kind: _Table(self.thresholds.size, self.size) for kind in KINDS}
        beyond = self.thresholds[judged.labels] - judged.positives
        wrong = (beyond >= 0) & (judged.positives > UNSCORED)
        rows = judged.row_numbers(judged.rows[wrong])
        self._tables["missed"].take(judged.labels[wrong], rows, beyond[wrong], judged.positives[wrong])

    def add(self, row: int, scores: np.ndarray, begin: int, ascending: np.ndarray) -> None:
        """Take a block's scores (n, B) above thresholds that are of no true pair."""
        judged, table, end = self._judged, self._tables["given"], begin + scores.shape[1]
        beyond = scores - self.thresholds[begin:end]
        first, last = np.searchsorted(judged.labels, [begin, end])
        rows, labels = judged.rows[first:last], judged.labels[first:last]
        mine = (rows >= row) & (rows < row + scores.shape[0])
        beyond[rows[mine] - row, labels[mine] - begin] = -np.inf
        # rows come in ascending order, so one that is as far beyond as the last that is kept comes too late
        rows, lanes = np.nonzero(beyond > np.maximum(table.beyond[begin:end, -1], 0.0))
        if rows.size:
            table.take(begin + lanes, judged.row_numbers(row + rows), beyond[rows, lanes], scores[rows, lanes])

    def end(self, pool: Counts, ranking: Ranking) -> None:
        """Collective. Join what the ranks have found."""
        for kind, mine in self._tables.items():
            joined = _Table(self.thresholds.size, self.size)
            labels = np.repeat(np.arange(self.thresholds.size), self.size)
            columns: list[np.ndarray] = [labels, mine.rows.ravel(), mine.beyond.ravel(), mine.scores.ravel()]
            chosen = columns[1] != NOBODY
            joined.take(*(np.concatenate(mpi.allgather_arrays(self._judged.comm, column[chosen])) for column in columns))
            self._tables[kind] = joined

    def worst(self, kind: str, n: int, label: int | None = None) -> list[WrongRow]:
        """The n most wrong pairs of all labels, or of one, the worst first; of equal ones those of lower rows, then labels.

        `kind` is one of KINDS.
        """
        table = self._tables[kind]
        labels, places = np.nonzero(table.rows != NOBODY)
        if label is not None:
            labels, places = labels[labels == label], places[labels == label]
        beyond = self._judged.comparable.distances(table.beyond[labels, places], labels)
        rows = table.rows[labels, places]
        order = np.lexsort((labels, rows, -beyond) if label is None else (places,))[:n]
        columns = (rows, labels, beyond, table.scores[labels, places])
        return [WrongRow(*values) for values in zip(*(column[order].tolist() for column in columns), strict=True)]


@dataclass
class MostWrong(ReportedResult):
    """The most wrong rows of a split: of the labels that were named, or of all together."""

    model: str
    data: str
    split: str
    n_rows: int
    ordered_by: str  # `beyond` is a difference of scores, or of log-odds
    wrong: list[dict[str, Any]]  # of each label named, or once for all: label (or None), and for each of KINDS its rows by name
    n_rows_without_features: int = 0  # they have no score and are not listed

    def describe(self) -> Iterator[str]:
        """Return a table for each label and kind."""
        yield f"{self.model} on {self.data}, split {self.split}: {plural(self.n_rows, 'row')}"
        yield f"beyond: {UNITS[self.ordered_by]}, on the wrong side"
        if self.n_rows_without_features:
            empty = plural(self.n_rows_without_features, "row")
            yield f"note: {empty} without any known feature: they get no labels, and are not listed"
        for by_kind in self.wrong:
            label = by_kind["label"]
            for kind in KINDS:
                heading, rows = TITLES[kind] if label is None else f"{named(label)}: {OF_ONE[kind]}", by_kind[kind]
                titled = any(each["title"] for each in rows)
                cells = [[heading, *(["label"] if label is None else []), "beyond", "score", *(["title"] if titled else [])]]
                for each in rows:
                    name = f"row {each['row']}" if each["id"] is None else each["id"]
                    title = [named(each["title"] or "")] if titled else []
                    of_label = [each["label"]] if label is None else []
                    cells.append([f"  {name}", *of_label, f"{each['beyond']:.4g}", f"{each['score']:.4g}", *title])
                yield from ["", *(table(cells) if rows else [f"{heading}: none"])]


def with_names(each: WrongRow, labels: Sequence[str], ids: Mapping[int, str], titles: Mapping[str, str]) -> dict[str, Any]:
    """Return a wrong row with its id and title, if there are any, and the name of its label."""
    row_id = ids.get(each.row)
    names = {"row": each.row, "id": row_id, "title": titles.get(row_id or ""), "label": labels[each.label]}
    return {**names, "beyond": each.beyond, "score": each.score}


def most_wrong(
    comm: mpi.Comm,
    model: Trained,
    dataset: DataFile,
    split: str,
    wanted: Sequence[str],
    n: int,
    log: Log,
    titles: Path | None = None,
) -> MostWrong:
    """Collective over `comm`. The n most wrong rows of a split, for each label named or for all.

    `titles`: JSON lines with those of the rows. The same on all ranks. Raises ConfigError for a
    label that the model lacks, DataError if model and data do not fit.
    """
    with mpi.agreed(comm, f"reading {model.path}"):
        labels = labels_to_show(model, wanted).tolist() if wanted else None
    watch = WrongRows(model.thresholds, n)
    evaluation = evaluate(comm, model, dataset, split, log, labels, [watch])
    places = {label: place for place, label in enumerate(evaluation.labels.tolist())}
    if labels is None:
        found = [(None, {kind: watch.worst(kind, n) for kind in KINDS})]
    else:
        for label in labels:
            if label not in places:
                raise DataError(f"{dataset.path}: it has no label {model.label_names[label]!r}, so no row of it is wrong")
        found = [(model.label_names[label], {kind: watch.worst(kind, n, places[label]) for kind in KINDS}) for label in labels]
    with mpi.agreed(comm, f"reading {dataset.path}"):
        ids = names_of_rows(dataset, (each.row for _, by in found for some in by.values() for each in some))
    read, names = titles_of(comm, titles, ids.values()), evaluation.label_names
    wrong = [
        {"label": label, **{kind: [with_names(each, names, ids, read) for each in rows] for kind, rows in by_kind.items()}}
        for label, by_kind in found
    ]
    about = (str(model.path), str(dataset.path), split, evaluation.n_rows, evaluation.compared_by)
    return MostWrong(*about, wrong, evaluation.n_empty)
