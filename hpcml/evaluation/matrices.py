"""The measures of `evaluate` for a matrix of scores."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from hpcml.data.in_memory import canonical, check_label_sets
from hpcml.errors import DataError
from hpcml.evaluation.scored_rows import Counts, label_measures
from hpcml.evaluation.top import Best, find_true_labels
from hpcml.measures import MEASURES, PRECISION_AT, LabelMeasures, precision_at


@dataclass(frozen=True)
class ScoreMeasures(LabelMeasures):
    """Measures of scores. An undefined value is NaN and is excluded from means.

    Attributes
    ----------
    values : dict
        For each measure (average_precision, break_even, auc, f1, precision, recall, misclassified) the values of the labels
        (n_labels,). `macro(measure)` is their mean.
    micro : dict
        For each measure its value over all (row, label) pairs in one ranking.
    precision_at : dict
        For k = 1, 3, 5 the share of true labels among the k best of a row, mean over rows; empty for a single label.
    n_positive : ndarray (n_labels,)
        Number of rows that have each label.

    Examples
    --------
    >>> hpcml.evaluate_scores([[0.5, -1], [2, 3]], [[0, 0], [1, 1]]).micro["f1"]
    0.8
    """

    values: dict[str, np.ndarray]
    micro: dict[str, float]
    precision_at: dict[int, float]
    n_positive: np.ndarray


def evaluate_scores(scores: object, Y: object, *, threshold: float = 0.0) -> ScoreMeasures:
    """Return the measures of scores, with the numbers that `evaluate` returns for a model with these scores.

    Parameters
    ----------
    scores : array (n_rows, n_labels)
        Score of each row and label; larger means more likely.
    Y : sparse matrix or array (n_rows, n_labels)
        True labels: non-zero entries.
    threshold : float
        Labels with a larger score are predicted (default: 0).

    Returns
    -------
    ScoreMeasures
        Measures per label, over all pairs, and per row.

    Raises
    ------
    DataError
        If the shapes differ, a score or a label is not a finite number, or `Y` has indices out of range.

    Examples
    --------
    >>> hpcml.evaluate_scores([[0.5, -1], [2, 3]], [[0, 0], [1, 1]]).macro("average_precision")
    1.0
    """
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    Y = check_label_sets(Y, "Y")
    try:
        truth = sp.csr_matrix(Y if sp.issparse(Y) else np.asarray(Y, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise DataError(f"Y: expected a matrix of 0 and 1 ({error})") from None
    if not np.isfinite(truth.data).all():
        raise DataError("Y: a label is not a finite number; expected 0 or 1")
    truth = canonical(truth).tocsc()
    truth.eliminate_zeros()
    if scores.ndim != 2 or scores.shape != truth.shape:
        raise DataError(f"scores: shape {scores.shape}, but Y has {truth.shape}; expected the same, rows × labels")
    if not np.isfinite(scores).all():
        raise DataError("scores: a value is not a finite number; replace it")
    n_rows, n_labels = scores.shape
    truth.sort_indices()
    rows, labels = truth.indices, np.repeat(np.arange(n_labels), np.diff(truth.indptr))
    counts, pool = Counts(scores[rows, labels], labels, np.full(n_labels, threshold)), Counts(scores[rows, labels], 0, threshold)
    counts.add(scores, np.arange(n_labels))
    pool.add(scores.reshape(-1, 1), np.zeros(1, dtype=np.int64))
    values, ranking = label_measures(counts, n_rows), pool.ranking(n_rows * n_labels)
    precisions = {}
    if n_labels > 1:
        best = Best(n_rows, min(max(PRECISION_AT), n_labels))
        best.add(0, scores, 0)
        precisions = precision_at(find_true_labels(best.sort(), rows, labels, n_labels).sum(axis=0, dtype=np.int64), n_rows)
    micro = {name: float(measure(ranking)) for name, measure in MEASURES.items()}
    return ScoreMeasures(values, micro, precisions, np.diff(truth.indptr))
