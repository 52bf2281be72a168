"""Precision, recall and F1 at every threshold, by groups of labels, and the reliability of probabilities.

All results follow from counts, so they have the same bits on any number of ranks.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from hpcml import mpi
from hpcml.evaluation.scored_rows import Counts, ScoredRows, ScoreObserver
from hpcml.measures import Ranking, average_precision, f1, precision, recall

EDGES = (0, 10, 30, 100, 300, 1000, 3000, 10_000, 100_000, 1_000_000)  # the smallest number of positives of each group of labels
FINE = 1000  # probabilities are rounded to one of these equal parts of 0 to 1
# Maps a label's number in the model and probabilities (ascending) to their scores. None: the model has no probabilities.
ScoresOf: TypeAlias = Callable[[int, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Curve:
    """Numbers of predicted pairs and hits at thresholds just below each score (n, descending) of a true pair."""

    name: str
    n_labels: int
    scores: np.ndarray
    n_given: np.ndarray
    n_hits: np.ndarray
    n_positive: int
    average_precision: float

    @property
    def precision(self) -> np.ndarray:
        return precision(self.n_hits, self.n_given)

    @property
    def recall(self) -> np.ndarray:
        return recall(self.n_hits, self.n_positive)

    @property
    def f1(self) -> np.ndarray:
        return f1(self.n_hits, self.n_given, self.n_positive)

    def thinned(self, n: int) -> "Curve":
        """Return about n of the points, spaced evenly by recall, including the last one and the one with the largest F1."""
        points = np.searchsorted(self.n_hits, np.linspace(1, max(1, self.n_positive), n))
        best = [int(self.f1.argmax())] if self.scores.size else []
        points = np.unique(np.append(np.minimum(points, max(0, self.scores.size - 1)), best))[: max(1, self.scores.size)]
        points = points[points < self.scores.size].astype(np.int64)
        return replace(self, scores=self.scores[points], n_given=self.n_given[points], n_hits=self.n_hits[points])


def make_curve(name: str, n_labels: int, values: np.ndarray, ranking: Ranking) -> Curve:
    hits, n_given = np.cumsum(ranking.relevant), ranking.greater + ranking.equal
    return Curve(name, n_labels, values[::-1], n_given, hits, int(ranking.n_positive), float(average_precision(ranking)))


@dataclass(frozen=True)
class Bin:
    probability: float  # mean
    share_true: float
    n: int


def count_bins(edges: np.ndarray, scores: np.ndarray) -> np.ndarray:
    return np.bincount(np.searchsorted(edges, scores, "right"), minlength=FINE)


def group_names(n_positive: np.ndarray) -> tuple[np.ndarray, list[str]]:
    present, groups = np.unique(np.searchsorted(EDGES, n_positive, "right") - 1, return_inverse=True)
    names = []
    for group in present.tolist():
        upper = f" to {EDGES[group + 1] - 1:,}" if group + 1 < len(EDGES) else " or more"
        names.append(f"{EDGES[group]:,}{upper}")
    return groups, names


class Curves(ScoreObserver):
    """A `ScoreObserver` that makes curves, with about 40 bytes for each distinct score of a true pair."""

    def __init__(self, n_positive: np.ndarray | None, scores_of: ScoresOf | None) -> None:
        """`n_positive`: number of rows of each label of the model, to group labels; None: the evaluated rows."""
        self._n_positive, self._scores_of = n_positive, scores_of
        self._labels = self.groups = np.zeros(0, dtype=np.int64)  # number in the model and group of each evaluated label
        self.names: list[str] = []  # of the groups
        self.micro: Curve
        self.of_groups: list[Curve] = []
        self._counts: Counts
        self._edges: dict[int, list[np.ndarray]] = {}  # scores between the FINE parts, of each label of the block that begins there
        self._probable = np.zeros((2, FINE), dtype=np.int64)  # all pairs, and the true ones

    def begin(self, scored: ScoredRows) -> None:
        self.comm, self._labels, self._comparable, self._n_rows = scored.comm, scored.numbers, scored.comparable, scored.n_rows
        self.groups, self.names = group_names(scored.n_positive() if self._n_positive is None else self._n_positive[self._labels])
        values = scored.with_comparable_values().positives
        self._counts = scored.gather_counts(values, self.groups[scored.labels], np.zeros(len(self.names)))
        if self._scores_of is not None:
            bounds = np.searchsorted(scored.labels, np.arange(self._labels.size + 1)).tolist()
            for label, (begin, end) in enumerate(pairwise(bounds)):
                if begin < end:
                    self._probable[1] += count_bins(self._edges_of(label), scored.positives[begin:end])

    def add(self, row: int, scores: np.ndarray, begin: int) -> None:
        block = slice(begin, begin + scores.shape[1])
        self._counts.add(self._comparable.values(scores, block), self.groups[block])
        if self._scores_of is not None:
            if begin not in self._edges:
                self._edges = {begin: list(map(self._edges_of, range(begin, block.stop)))}
            for edges, column in zip(self._edges[begin], scores.T, strict=True):
                self._probable[0] += count_bins(edges, column)

    def _edges_of(self, label: int) -> np.ndarray:
        assert self._scores_of is not None
        return self._scores_of(int(self._labels[label]), np.arange(1, FINE) / FINE)

    def end(self, pool: Counts, ranking: Ranking) -> None:
        self.micro = make_curve("all labels", self._labels.size, pool.values, ranking)
        mpi.allreduce_sum(self.comm, self._counts.tally)
        sizes = np.bincount(self.groups, minlength=len(self.names)).tolist()
        for group, (name, size) in enumerate(zip(self.names, sizes, strict=True)):
            if (values := self._counts.values_of(group)).size:
                self.of_groups.append(make_curve(name, size, values, self._counts.ranking(self._n_rows * size, group)))
        self._probable = mpi.allreduce_sum(self.comm, self._probable.ravel()).reshape(2, FINE)

    def reliability(self, n_bins: int = 10) -> list[Bin]:
        if self._scores_of is None:
            return []
        counts, true = self._probable.reshape(2, n_bins, -1)
        middles = ((np.arange(FINE) + 0.5) / FINE).reshape(n_bins, -1)
        parts = [part for part in zip(counts, true, middles, strict=True) if part[0].sum()]
        return [Bin(float((n * middle).sum() / n.sum()), float(hits.sum() / n.sum()), int(n.sum())) for n, hits, middle in parts]
