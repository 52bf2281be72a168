"""Precision among the best scored labels of each row, P@k: the measure of extreme classification."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.classifier import ClassifierModel
from hpcml.data.schema import Dataset
from hpcml.data.shard import load_shard
from hpcml.evaluate.evaluate import match_labels, positive_pairs
from hpcml.evaluate.scoring import blocks_of, scorer_of
from hpcml.model import Model

KS = (1, 3, 5)


class BestLabels:
    """The max(KS) best scored labels of each row; of equal scores, the lower label is better."""

    def __init__(self, n_rows: int) -> None:
        self.scores = np.full((n_rows, max(KS)), -np.inf)
        self.labels = np.full((n_rows, max(KS)), -1, dtype=np.int64)  # −1: there are fewer labels

    def add(self, first_row: int, first_label: int, scores: np.ndarray) -> None:
        """Take in `scores` (n, B) of n rows for B labels; a row's labels must come in ascending order."""
        rows = slice(first_row, first_row + scores.shape[0])
        numbers = np.broadcast_to(np.arange(first_label, first_label + scores.shape[1]), scores.shape)
        both = np.hstack([self.scores[rows], scores])
        best = np.argsort(-both, axis=1, kind="stable")[:, : max(KS)]
        self.scores[rows] = np.take_along_axis(both, best, axis=1)
        self.labels[rows] = np.take_along_axis(np.hstack([self.labels[rows], numbers]), best, axis=1)

    def hits(self, truth: sp.csr_matrix) -> np.ndarray:
        """For each k of KS, how many of the k best labels of all rows are in `truth` (n_rows × n_labels) (int64)."""
        row, place = np.nonzero(self.labels >= 0)
        right = np.zeros(self.labels.shape, dtype=np.int64)
        right[row, place] = np.asarray(truth[row, self.labels[row, place]]).ravel() != 0
        return np.array([right[:, :k].sum() for k in KS])


def precisions(hits: np.ndarray, n_rows: int) -> tuple[float, ...]:
    """P@k for each k of KS: hits among the k best labels / k, mean over the rows."""
    return tuple(float(count) / (k * n_rows) if n_rows else float("nan") for k, count in zip(KS, hits, strict=True))


@mpi.collective
def model_precisions(comm: mpi.Comm, model: Model | ClassifierModel, dataset: Dataset, split: str) -> tuple[float, ...]:
    """Collective over `comm`. P@k of a model on a split, for each k of KS. Raises what `evaluate` raises."""
    with mpi.agreed(comm, f"reading {dataset.path}"):
        evaluation, place = match_labels(model, dataset, None)
    shard = load_shard(comm, dataset, split)
    scorer = scorer_of(model, shard, evaluation.labels)
    scorer.warm_up(comm)
    with mpi.agreed(comm, "scoring rows"):
        best = BestLabels(shard.n_local)
        for begin, end in scorer.blocks:
            weights = scorer.weights(begin, end)
            for first, rows in blocks_of(scorer.rows, end - begin):
                best.add(first, begin, scorer.rows_scores(rows, *weights))
        rows, labels = positive_pairs(shard, place)
        ones, shape = np.ones(rows.size), (shard.n_local, evaluation.labels.size)
        truth = sp.csr_matrix((ones, (np.searchsorted(shard.rows, rows), labels)), shape)
        hits = best.hits(truth)
        dataset.check_unchanged()
    return precisions(mpi.allreduce_sum(comm, hits), shard.n_global)
