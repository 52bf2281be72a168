"""Measures of a matrix of scores, as `evaluate` computes them of a model's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from hpcml.data.in_memory import canonical, sound_labels
from hpcml.errors import DataError
from hpcml.evaluation.judged import Counts
from hpcml.evaluation.top import Best, are_true
from hpcml.measures import MEASURES, PRECISION_AT, LabelMeasures, precision_at


@dataclass(frozen=True)
class ScoreMeasures(LabelMeasures):
    """Measures of scores; an undefined value is NaN.

    Attributes
    ----------
    values : dict
        Of each measure (average_precision, break_even, auc, f1, precision, recall, misclassified) the values of the labels
        (n_labels,).
    micro : dict
        Of each measure its value on all (row, label) pairs in one ranking.
    precision_at : dict
        Of k = 1, 3, 5 the share of true labels among the k best of a row, mean over the rows; empty for a single label.
    n_positive : ndarray (n_labels,)
        Rows that have each label.
    """

    values: dict[str, np.ndarray]
    micro: dict[str, float]
    precision_at: dict[int, float]
    n_positive: np.ndarray


def evaluate_scores(scores: object, Y: object, *, threshold: float = 0.0) -> ScoreMeasures:
    """Return the measures of scores, the same numbers as `evaluate` gives for a model with these scores.

    Parameters
    ----------
    scores : array (n_rows, n_labels)
        A score of each row and label; larger is more likely.
    Y : sparse matrix or array (n_rows, n_labels)
        The true labels: entries other than 0.
    threshold : float
        A row is given the labels with a larger score.

    Returns
    -------
    ScoreMeasures

    Raises
    ------
    DataError
        If the shapes differ, a score or a label is not a finite number, or `Y` has indices out of range.

    Examples
    --------
    >>> hpcml.evaluate_scores([[0.5, -1], [2, 3]], [[0, 0], [1, 1]]).macro("average_precision")
    1.0
    """
    scores = np.asarray(scores, dtype=np.float64)
    Y = sound_labels(Y, "Y")
    try:
        truth = sp.csr_matrix(Y if sp.issparse(Y) else np.asarray(Y, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise DataError(f"Y: expected a matrix of 0 and 1 ({error})") from None
    if not np.isfinite(truth.data).all():
        raise DataError("Y: a label is not a finite number; expected 0 or 1")
    truth = canonical(truth).tocsc()
    truth.eliminate_zeros()
    if scores.ndim != 2 or scores.shape != truth.shape:
        raise DataError(f"scores have the shape {scores.shape}, labels {truth.shape}; expected the same, rows × labels")
    if not np.isfinite(scores).all():
        raise DataError("a score is not a finite number")
    n_rows, n_labels = scores.shape
    truth.sort_indices()
    rows, labels = truth.indices, np.repeat(np.arange(n_labels), np.diff(truth.indptr))
    pool = Counts(scores[rows, labels], threshold)
    values = {name: np.empty(n_labels) for name in MEASURES}
    for label in range(n_labels):
        ordered = np.sort(scores[:, label])
        counts = Counts(scores[rows[truth.indptr[label] : truth.indptr[label + 1]], label], threshold)
        for each in (counts, pool):
            each.add(ordered)
        ranking = counts.ranking(n_rows)
        for name, measure in MEASURES.items():
            values[name][label] = measure(ranking)
    ranking = pool.ranking(n_rows * n_labels)
    precisions = {}
    if n_labels > 1:
        best = Best(n_rows, min(max(PRECISION_AT), n_labels))
        best.add(0, scores, 0)
        precisions = precision_at(are_true(best.sort(), rows, labels, n_labels).sum(axis=0, dtype=np.int64), n_rows)
    return ScoreMeasures(values, {name: measure(ranking) for name, measure in MEASURES.items()}, precisions, np.diff(truth.indptr))
