"""Held-out rows whose scores are asked for block by block, with their true pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import Shard
from hpcml.data.unknown_labels import load_with_unknown
from hpcml.errors import DataError
from hpcml.evaluation.comparable import Comparable
from hpcml.evaluation.counts import positive_pairs
from hpcml.evaluation.evaluate import match_labels
from hpcml.evaluation.missed import Missed, count_missed
from hpcml.evaluation.scoring import ClassifierScorer, Scorer, blocks_of, scorer_of
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import Model


@dataclass
class HeldOut:
    """The scores of held-out rows, asked for block by block, with their true pairs."""

    comm: mpi.Comm
    dataset: DataFile
    scorer: Scorer | ClassifierScorer
    shard: Shard
    rows: np.ndarray  # of this rank's true pairs: the row, by its place among the rank's
    labels: np.ndarray  # its label, by its place among those judged, ascending
    positives: np.ndarray  # its score
    n_labels: int
    missed: Missed  # the pairs of labels that the model does not know
    comparable: Comparable  # of the judged labels
    compared: bool = False  # are the scores those of `comparable`?

    def to_compare(self) -> HeldOut:
        """The same with values that can be compared between labels for the scores. Local."""
        return replace(self, positives=self.comparable.of_pairs(self.positives, self.labels), compared=True)

    @property
    def n_rows(self) -> int:
        """Held-out rows on all ranks."""
        return self.shard.n_global

    def scores(self, begin: int, end: int) -> Iterator[tuple[int, np.ndarray]]:
        """(first, scores (n × B)) of rows first, ..., labels begin..end. Raises NonFiniteError."""
        weights = self.scorer.weights(begin, end)
        for first, rows in blocks_of(self.scorer.rows, end - begin):
            scores = self.scorer.rows_scores(rows, *weights)
            self.scorer.check_numbers(scores.max(axis=0), self.scorer.labels[begin:end])
            yield first, self.comparable.of_block(scores, begin) if self.compared else scores
        self.dataset.check_unchanged()

    @mpi.collective
    def n_positive(self) -> np.ndarray:
        """Collective. The rows of all ranks that have each label."""
        return self.sum_by_label(np.ones(self.labels.size, dtype=bool))

    @mpi.collective
    def sum_by_label(self, chosen: np.ndarray) -> np.ndarray:
        """Collective. How many of the true pairs of each label are `chosen`, on all ranks."""
        return mpi.allreduce_sum(self.comm, np.bincount(self.labels[chosen], minlength=self.n_labels))


@mpi.collective
def hold_out(comm: mpi.Comm, model: Model | ClassifierModel, dataset: DataFile, split: str) -> tuple[HeldOut, np.ndarray]:
    """Collective over `comm`. The rows of a split, and the model's labels that they can judge.

    Raises ConfigError or DataError if model, data and split do not fit, or if no row has a label.
    """
    with mpi.agreed(comm, f"reading {dataset.path}"):
        model.check_vocabulary(dataset)
        matched, place = match_labels(model, dataset, None)
    shard = load_with_unknown(comm, dataset, split)
    missed = count_missed(comm, shard, place)
    scorer = scorer_of(model, shard, matched.labels)
    scorer.warm_up(comm)
    with mpi.agreed(comm, "scoring the positive rows"):
        rows, labels = positive_pairs(shard, place)
        positives = scorer.pairs_scores(rows, matched.labels[labels])
        scorer.check_numbers(positives, matched.labels[labels])
    if not mpi.agreed_any(comm, rows.size > 0):
        raise DataError(f"{dataset.path}: no row of split {split} has a label of {model.path}; choose rows that have some")
    places = np.searchsorted(shard.rows, rows)
    comparable, n_labels = Comparable(model, matched.labels), matched.labels.size
    return HeldOut(comm, dataset, scorer, shard, places, labels, positives, n_labels, missed, comparable), matched.labels
