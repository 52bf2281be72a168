"""Judged rows: their true pairs, and all their scores block by block, counted for rankings.

Rankings and thresholds ask only how many scores lie above and at each score of a positive (`Counts`).

Labels that judged rows have and the model does not know: each pair with a row counts as missed (`Missed`). The pair has no score.
It is a positive that is never retrieved: in recall, F1, average precision, break-even and AUC of all pairs together, in F1 and nDCG
of its row, in BioASQ's measures, and in the search for thresholds that one of these is to judge. Labels that data keep apart from
their own (`data.unknown_labels`) and labels of the data that the model lacks are the same here. Measures of single labels and their
means (macro) are of labels that the model knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.labels import all_label_names, load_with_unknown
from hpcml.data.shard import Shard, without_features
from hpcml.errors import ConfigError, DataError
from hpcml.evaluation.comparable import Comparable
from hpcml.kernels.scores import count_sorted
from hpcml.measures import Ranking
from hpcml.model.scoring import ClassifierScorer, Scorer, make_scorer, score_block
from hpcml.model.trained import Trained
from hpcml.partition import offsets

NOT_JUDGED, NOT_KNOWN = -1, -2  # in place of a label's place among those judged: left out on purpose; not known to the model
_SEARCH_RATIO = 16  # with so many times more scores than places, look the places up among the scores
_NONE = np.zeros(0, dtype=np.int64)
UNSCORED = -np.inf  # the score of every label for a row of text without a known feature: below all thresholds


class Counts:
    """Number of scores above and at each distinct score of positives. One of −∞ (`UNSCORED`) is never retrieved."""

    def __init__(self, positives: np.ndarray, threshold: float = 0.0) -> None:
        """`positives`: the scores of all positives on all ranks; predicted above `threshold`."""
        self.threshold = threshold
        self.values, self.relevant = np.unique(positives, return_counts=True) if positives.size else (positives, _NONE)
        self.n_missed = int(self.relevant[0]) if positives.size and self.values[0] == UNSCORED else 0
        if self.n_missed:
            self.values, self.relevant = self.values[1:], self.relevant[1:]
        n = self.values.size
        # One buffer to reduce: scores above the value before and not above this one (n + 1), at it (n), and above the threshold.
        self.tally = np.zeros(2 * n + 2, dtype=np.int64)
        self._above, self._equal = self.tally[: n + 1], self.tally[n + 1 : -1]

    def add(self, scores: np.ndarray) -> None:
        """Count `scores` (1-d, ascending)."""
        self.tally[-1] += scores.size - scores.searchsorted(self.threshold, "right")
        if not self.values.size:
            return
        if scores.size < _SEARCH_RATIO * self.values.size:
            count_sorted(scores, self.values, self._above, self._equal)
            return
        right = np.searchsorted(scores, self.values, "right")
        self._equal += right - np.searchsorted(scores, self.values, "left")
        self._above += np.diff(right, prepend=0, append=scores.size)

    def ranking(self, n_items: int) -> Ranking:
        """The ranking of `n_items` scores, once all are counted and summed over the ranks."""
        greater = np.cumsum(self._above[:0:-1])
        hits = int(self.relevant[self.values > self.threshold].sum())
        n_scored = n_items - self.n_missed
        return Ranking(greater, self._equal[::-1], self.relevant[::-1], n_scored, int(self.tally[-1]), hits, self.n_missed)


def split_by_lane(comm: mpi.Comm, values: np.ndarray, lanes: np.ndarray, n_lanes: int) -> list[np.ndarray]:
    """Collective over `comm`. The values (n) of each lane on all ranks, in rank order."""
    values, lanes = (np.concatenate(mpi.allgather_arrays(comm, each)) for each in (values, lanes))
    order = np.argsort(lanes, kind="stable")
    bounds = np.searchsorted(lanes[order], np.arange(n_lanes + 1))
    return [values[order[begin:end]] for begin, end in pairwise(bounds.tolist())]


def reduce_together(
    comm: mpi.Comm, arrays: Sequence[np.ndarray], reduce: Callable[[mpi.Comm, np.ndarray], np.ndarray] = mpi.allreduce_sum
) -> None:
    """Collective over `comm`. Sum arrays (or `reduce` them) over the ranks in place, in one message."""
    total, begin = reduce(comm, np.concatenate([array.reshape(-1) for array in arrays])), 0
    for array in arrays:
        array.reshape(-1)[:] = total[begin : begin + array.size]
        begin += array.size


def positive_pairs(shard: Shard, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The shard's pairs by label: rows as slab positions, labels as `place` gives them."""
    begins = shard.y_indptr[shard.rows]
    counts = shard.y_indptr[shard.rows + 1] - begins
    shifts = np.repeat(begins - offsets(counts)[:-1], counts)
    labels = place[shard.y_indices[shifts + np.arange(shifts.size)]]
    rows = np.repeat(shard.rows, counts)
    order = np.argsort(labels, kind="stable")
    order = order[np.searchsorted(labels[order], 0) :]
    return rows[order], labels[order]


@dataclass(frozen=True)
class Missed:
    """The pairs of a judged row and a label that the model does not know."""

    by_row: np.ndarray  # of this rank's rows (n_local): how many such labels each has
    n_pairs: int  # on all ranks
    n_labels: int


def count_missed(comm: mpi.Comm, shard: Shard, place: np.ndarray) -> Missed:
    """Collective over `comm`. Count them; `place` is a label's among those judged, or NOT_KNOWN."""
    found = place[shard.y_indices] == NOT_KNOWN
    rows = np.repeat(np.arange(shard.y_indptr.size - 1), np.diff(shard.y_indptr))
    by_row = np.bincount(rows[found], minlength=shard.y_indptr.size - 1)[shard.rows]
    mine = np.zeros(shard.y_indptr.size - 1, dtype=bool)
    mine[shard.rows] = True
    by_label = mpi.allreduce_sum(comm, np.bincount(shard.y_indices[found & mine[rows]], minlength=place.size))
    return Missed(by_row, int(by_label.sum()), int(np.count_nonzero(by_label)))


class ScoreObserver:
    """Sees the scores of an evaluation, which it does not change; it defines what it wants to see."""

    def begin(self, judged: JudgedRows) -> None:
        """Collective. The rows and their true pairs, before any score comes."""

    def add(self, row: int, scores: np.ndarray, begin: int, ascending: np.ndarray) -> None:
        """Local. Scores (n, B) of the rank's rows `row`, ... for judged labels `begin`, ...; and each label's in order (B, n)."""

    def end(self, pool: Counts, ranking: Ranking) -> None:
        """Collective. All pairs in one ranking; the values of its ties, ascending, in `pool`."""


@dataclass
class JudgedRows:
    """The rows of a split and some labels: the true pairs, by label; all scores block by block."""

    comm: mpi.Comm
    dataset: DataFile
    scorer: Scorer | ClassifierScorer
    shard: Shard
    n_rows: int  # on all ranks
    numbers: np.ndarray  # of the judged labels in the model, ascending
    n_labels: int
    not_in_data: list[str]  # labels that were asked for but that the data does not know
    missed: Missed  # the pairs of labels that the model does not know
    rows: np.ndarray  # of this rank's true pairs: the row, by its place among the rank's
    labels: np.ndarray  # its label, by its place among those judged, ascending
    positives: np.ndarray  # its score
    comparable: Comparable  # of the judged labels
    empty: np.ndarray  # flags of this rank's rows of text without a known feature, which get no labels
    compared: bool = False  # are the scores those of `comparable`?
    pool: Counts = field(init=False)  # the pairs of all labels in one ranking, filled by `counts`

    def row_numbers(self, places: np.ndarray) -> np.ndarray:
        """The numbers in the dataset of this rank's rows at these places."""
        return self.shard.first_row + self.shard.rows[places]

    def to_compare(self) -> JudgedRows:
        """The same with values that can be compared between labels for the scores. Local."""
        return replace(self, positives=self.comparable.values(self.positives, self.labels), compared=True)

    def scores(self, begin: int, end: int) -> Iterator[tuple[int, np.ndarray]]:
        """(first, scores (n × B)) of rows first, ..., labels begin..end. Raises NonFiniteError."""
        for first, scores in score_block(self.scorer, begin, end):
            scores[self.empty[first : first + scores.shape[0]]] = UNSCORED
            yield first, self.comparable.values(scores, slice(begin, end)) if self.compared else scores
        self.dataset.check_unchanged()

    def scored(self, begin: int, end: int) -> Iterator[np.ndarray]:
        """Yield scores (n × B) of labels begin..end as `scores` does, but only of rows with features."""
        for first, scores in self.scores(begin, end):
            empty = self.empty[first : first + scores.shape[0]]
            scores = scores[~empty] if empty.any() else scores
            if scores.size:
                yield scores

    def counts(self, thresholds: np.ndarray | None, observers: Sequence[ScoreObserver] = ()) -> Iterator[tuple[int, Counts]]:
        """Yield (label, its counts above its threshold), block by block; then `pool` is full. Collective.

        Without thresholds only `pool` is filled.
        """
        pool = self.pool = Counts(
            np.concatenate(mpi.allgather_arrays(self.comm, self.comparable.values(self.positives, self.labels)))
        )
        for begin, end in self.scorer.blocks:
            counts = []
            if thresholds is not None:
                some = slice(*np.searchsorted(self.labels, [begin, end]))
                own = split_by_lane(self.comm, self.positives[some], self.labels[some] - begin, end - begin)
                counts = list(map(Counts, own, thresholds[begin:end].tolist()))
            with mpi.agreed(self.comm, "scoring rows"):
                for row, scores in self.scores(begin, end):
                    columns = np.array(scores.T, order="C")  # a copy: observers see the scores as they are
                    columns.sort(axis=1)
                    for observer in observers:
                        observer.add(row, scores, begin, columns)
                    for label, ascending in enumerate(columns, begin):
                        pool.add(self.comparable.values(ascending, label))
                        if counts:
                            counts[label - begin].add(ascending)
            if counts:
                reduce_together(self.comm, [count.tally for count in counts])
            yield from enumerate(counts, begin)
        reduce_together(self.comm, [pool.tally])

    def n_positive(self) -> np.ndarray:
        """Collective. The rows of all ranks that have each label."""
        return self.sum_by_label(np.ones(self.labels.size, dtype=bool))

    def sum_by_label(self, chosen: np.ndarray) -> np.ndarray:
        """Collective. How many of the true pairs of each label are `chosen`, on all ranks."""
        return mpi.allreduce_sum(self.comm, np.bincount(self.labels[chosen], minlength=self.n_labels))


def judge(comm: mpi.Comm, model: Trained, dataset: DataFile, split: str, labels: list[int] | None = None) -> JudgedRows:
    """Collective over `comm`. The rows of a split, and `labels` (numbers; None is all) to judge.

    Raises ConfigError or DataError if model, data, split and labels do not fit.
    """
    with mpi.agreed(comm, f"reading {dataset.path}"):
        model.check_vocabulary(dataset)
        wanted = range(model.n_labels) if labels is None else sorted(set(labels))
        for label in wanted:
            if not 0 <= label < model.n_labels:
                raise ConfigError(f"label number {label}: {model.path} has labels 0 to {model.n_labels - 1}")
        # labels are matched by name; of each label of the data, `place` is its place among those judged, or why it has none
        data_names, in_model = all_label_names(dataset), set(model.label_names)
        number = {name: place for place, name in enumerate(data_names)}
        known = [label for label in wanted if model.label_names[label] in number]
        if not known:
            raise DataError(
                f"{dataset.path}: none of the labels to evaluate in {model.path} is in this data; convert it with `--like`"
            )
        others = [NOT_JUDGED if labels is not None or name in in_model else NOT_KNOWN for name in data_names]
        place, numbers = np.array(others, dtype=np.int64), np.array(known, dtype=np.int64)
        place[[number[model.label_names[label]] for label in known]] = np.arange(numbers.size)
        not_in_data = [model.label_names[label] for label in wanted if model.label_names[label] not in number]
    shard = load_with_unknown(comm, dataset, split)
    missed = count_missed(comm, shard, place)
    scorer = make_scorer(model, shard, numbers)
    scorer.warm_up(comm)
    with mpi.agreed(comm, "scoring the positive rows"):
        rows, places = positive_pairs(shard, place)
        positives = scorer.score_pairs(rows, numbers[places])
        scorer.check_numbers(positives, numbers[places])
        empty, rows = without_features(dataset, shard), np.searchsorted(shard.rows, rows)
        positives[empty[rows]] = UNSCORED
    about = (comm, dataset, scorer, shard, shard.n_global, numbers, numbers.size, not_in_data, missed)
    return JudgedRows(*about, rows, places, positives, Comparable(model, numbers), empty)
