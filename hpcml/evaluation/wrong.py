"""The worst errors of each label: missed and wrongly predicted rows, farthest beyond the label's threshold.

The distance is a difference of scores, or of log-odds if the model has probabilities, so labels are comparable (`comparable`).
"""

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
from hpcml.evaluation.explain import select_labels
from hpcml.evaluation.scored_rows import UNSCORED, Counts, ScoredRows, ScoreObserver
from hpcml.evaluation.titles import names_of_rows, titles_of_rows
from hpcml.files.report import ReportedResult
from hpcml.files.table import table
from hpcml.log import Log, named, plural
from hpcml.measures import Ranking
from hpcml.model.trained import Trained

NO_ROW = -1
KINDS = ("missed", "given")  # true labels at or below their threshold, false labels above it
DISTANCES = {
    BY_SCORE: "distance of the score from the label's threshold",
    BY_PROBABILITY: "distance of the log-odds of the probability from those at the label's threshold",
}
TITLES = {"missed": "missed labels (true, not predicted)", "given": "wrong labels (predicted, not true)"}
LONGEST = 40  # characters of an id, a label and a title in a table of 100 columns


@dataclass(frozen=True)
class WrongRow:
    row: int
    label: int  # position among the evaluated labels
    beyond: float  # distance from the threshold, on the wrong side
    score: float


class _Table:
    """The `size` rows of each label farthest beyond the threshold; lower row numbers first among equal ones."""

    def __init__(self, n_labels: int, size: int) -> None:
        self.rows = np.full((n_labels, size), NO_ROW, dtype=np.int64)
        self.beyond = np.full((n_labels, size), -np.inf)
        self.scores = np.zeros((n_labels, size))

    def insert(self, labels: np.ndarray, rows: np.ndarray, beyond: np.ndarray, scores: np.ndarray) -> None:
        touched, size = np.unique(labels), self.rows.shape[1]
        is_used = self.rows[touched] != NO_ROW
        labels = np.concatenate([np.repeat(touched, is_used.sum(axis=1)), labels])
        rows = np.concatenate([self.rows[touched][is_used], rows])
        beyond = np.concatenate([self.beyond[touched][is_used], beyond])
        scores = np.concatenate([self.scores[touched][is_used], scores])
        order = np.lexsort((rows, -beyond, labels))
        first = np.searchsorted(labels[order], touched)
        ranks = np.arange(order.size) - np.repeat(first, np.diff(np.append(first, order.size)))
        order, ranks = order[ranks < size], ranks[ranks < size]
        for column, values in ((self.rows, rows), (self.beyond, beyond), (self.scores, scores)):
            column[labels[order], ranks] = values[order]


class WrongRows(ScoreObserver):
    """A `ScoreObserver` that collects the `size` worst errors of each label, in 48 bytes each."""

    def __init__(self, thresholds: np.ndarray, size: int) -> None:
        self._model_thresholds, self.size = thresholds, size
        self.thresholds = thresholds[:0]
        self._tables: dict[str, _Table] = {}

    def begin(self, scored: ScoredRows) -> None:
        self._scored, self.thresholds = scored, self._model_thresholds[scored.numbers]
        self._tables = {kind: _Table(self.thresholds.size, self.size) for kind in KINDS}
        beyond = self.thresholds[scored.labels] - scored.positives
        wrong = (beyond >= 0) & (scored.positives > UNSCORED)
        rows = scored.row_numbers(scored.rows[wrong])
        self._tables["missed"].insert(scored.labels[wrong], rows, beyond[wrong], scored.positives[wrong])

    def add(self, row: int, scores: np.ndarray, begin: int) -> None:
        scored, table, end = self._scored, self._tables["given"], begin + scores.shape[1]
        beyond = scores - self.thresholds[begin:end]
        first, last = np.searchsorted(scored.labels, [begin, end])
        rows, labels = scored.rows[first:last], scored.labels[first:last]
        in_block = (rows >= row) & (rows < row + scores.shape[0])
        beyond[rows[in_block] - row, labels[in_block] - begin] = -np.inf
        # rows come in ascending order, so a row at the same distance as the last row of a full table is not inserted
        rows, lanes = np.nonzero(beyond > np.maximum(table.beyond[begin:end, -1], 0.0))
        if rows.size:
            table.insert(begin + lanes, scored.row_numbers(row + rows), beyond[rows, lanes], scores[rows, lanes])

    def end(self, pool: Counts, ranking: Ranking) -> None:
        for kind, local in self._tables.items():
            joined = _Table(self.thresholds.size, self.size)
            labels = np.repeat(np.arange(self.thresholds.size), self.size)
            columns: list[np.ndarray] = [labels, local.rows.ravel(), local.beyond.ravel(), local.scores.ravel()]
            is_used = columns[1] != NO_ROW
            joined.insert(*(np.concatenate(mpi.allgather_arrays(self._scored.comm, column[is_used])) for column in columns))
            self._tables[kind] = joined

    def worst(self, kind: str, n: int, label: int | None = None) -> list[WrongRow]:
        """Return the n worst errors of a kind, of one label or of all: by distance, then lower rows, then lower labels."""
        table = self._tables[kind]
        labels, ranks = np.nonzero(table.rows != NO_ROW)
        if label is not None:
            labels, ranks = labels[labels == label], ranks[labels == label]
        beyond = self._scored.comparable.distances(table.beyond[labels, ranks], labels)
        rows = table.rows[labels, ranks]
        order = np.lexsort((labels, rows, -beyond) if label is None else (ranks,))[:n]
        columns = (rows, labels, beyond, table.scores[labels, ranks])
        return [WrongRow(*values) for values in zip(*(column[order].tolist() for column in columns), strict=True)]


@dataclass
class MostWrong(ReportedResult):
    """The worst errors on a split, of requested labels or of all labels together.

    Attributes
    ----------
    ordered_by : str
        score or probability: distances are differences of scores, or of log-odds.
    wrong : list of dict
        For each requested label (or once, with label None) the lists missed and given of rows with the keys row, id, title,
        label, beyond (distance from the threshold) and score.
    n_rows_without_features : int
        Number of rows without any known feature, which have no score and are not listed.

    Examples
    --------
    >>> hpcml.explain("run", "docs.h5", wrong=3).wrong[0]["missed"][0]["id"]
    """

    model: str
    data: str
    split: str
    n_rows: int
    ordered_by: str
    wrong: list[dict[str, Any]]
    n_rows_without_features: int = 0

    def describe(self) -> Iterator[str]:
        yield f"{self.model} on {self.data}, split {self.split}: {plural(self.n_rows, 'row')}"
        yield f"distance: {DISTANCES[self.ordered_by]}"
        if self.n_rows_without_features:
            empty = plural(self.n_rows_without_features, "row")
            yield f"note: {empty} without any known feature: they get no labels and are not listed"
        for by_kind in self.wrong:
            label = by_kind["label"]
            for kind in KINDS:
                heading, rows = TITLES[kind] if label is None else f"{named(label)}: {TITLES[kind]}", by_kind[kind]
                has_titles = any(each["title"] for each in rows)
                cells = [["  row", *(["label"] if label is None else []), "distance", "score", *(["title"] if has_titles else [])]]
                for each in rows:
                    name = named(f"row {each['row']}" if each["id"] is None else each["id"], LONGEST)
                    title = [named(each["title"] or "", LONGEST)] if has_titles else []
                    of_label = [named(each["label"], LONGEST)] if label is None else []
                    cells.append([f"  {name}", *of_label, f"{each['beyond']:.4g}", f"{each['score']:.4g}", *title])
                yield from ["", heading if rows else f"{heading}: none", *(table(cells) if rows else [])]


def describe_wrong_row(each: WrongRow, labels: Sequence[str], ids: Mapping[int, str], titles: Mapping[str, str]) -> dict[str, Any]:
    row_id = ids.get(each.row)
    names = {"row": each.row, "id": row_id, "title": titles.get(row_id or ""), "label": labels[each.label]}
    return {**names, "beyond": each.beyond, "score": each.score}


def most_wrong(
    comm: mpi.Comm,
    model: Trained,
    dataset: DataFile,
    split: str,
    label_names: Sequence[str],
    n: int,
    log: Log,
    titles: Path | None = None,
) -> MostWrong:
    """Return the n worst errors of each named label or of all together. Raises ConfigError, DataError. Collective."""
    with mpi.agreed(comm, f"reading {model.path}"):
        labels = select_labels(model, label_names).tolist() if label_names else None
    observer = WrongRows(model.thresholds, n)
    evaluation = evaluate(comm, model, dataset, split, log, labels, [observer])
    positions = {label: position for position, label in enumerate(evaluation.labels.tolist())}
    by_label: list[tuple[str | None, dict[str, list[WrongRow]]]] = []
    if labels is None:
        by_label.append((None, {kind: observer.worst(kind, n) for kind in KINDS}))
    for label in labels or ():
        if label not in positions:
            raise DataError(f"{dataset.path}: no label {model.label_names[label]!r}; choose a label of this dataset")
        by_label.append((model.label_names[label], {kind: observer.worst(kind, n, positions[label]) for kind in KINDS}))
    with mpi.agreed(comm, f"reading {dataset.path}"):
        ids = names_of_rows(dataset, (each.row for _, by_kind in by_label for rows in by_kind.values() for each in rows))
    row_titles, names = titles_of_rows(comm, titles, ids.values()), evaluation.label_names
    wrong = [
        {"label": label, **{kind: [describe_wrong_row(each, names, ids, row_titles) for each in rows] for kind, rows in by.items()}}
        for label, by in by_label
    ]
    about = (str(model.path), str(dataset.path), split, evaluation.n_rows, evaluation.compared_by)
    return MostWrong(*about, wrong, evaluation.n_empty)
