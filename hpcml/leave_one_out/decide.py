"""Thresholds of labels from counts of their leave-one-out scores, shared among labels of similar frequency.

Problem: a rare label has too few positive rows for a threshold or a probability of its own.
Method: the counts of a label are its rows, and its positive rows, in each cell of the score (`cells`).

1. Labels in order of their positives are divided into groups. The *neighbours* of a group are the labels of the groups around it:
   SHARE of all labels on each side. A positive row is left out of a label that keeps one positive row less. So it counts for labels
   of that frequency, among which it is as frequent as positive rows will be among new rows (Good 1953), and the only positive row
   of a label counts for none. (If positive rows count for their own labels, the thresholds of labels of one row are too low: on
   held-out rows of mesh, micro F1 is 0.171 with 52 labels a row, instead of 0.433 with 12.)
2. The *curve* of a group is the log-odds of a positive row by the score: the isotonic regression of the neighbours' summed counts.
3. The log-odds of a label are slope · curve + offset (Platt 1999, with the curve in place of the score), fitted to the label's
   counts. The prior is slope 1 and offset 0, with the weight of KAPPA of the neighbours' positives, by the second derivatives of
   their loss. All curves increase and slopes are not negative, so the order of a label's rows is that of their scores.
4. The threshold maximises the F1 that is expected by these probabilities for the label's rows, and for rows with the scores of the
   neighbours' rows, PRIOR positives of them: a rare label has few rows near its threshold.

Tried on held-out parts of training rows (log loss per true pair; Reuters, bibtex, debian_tags_en, mesh) and rejected:

- Isotonic regression of the label's counts and PRIOR positives of the neighbours, for each label: 0.699, 3.131, 2.257, 3.722 beside
  0.680, 3.097, 2.249, 3.703. Probabilities between 0.5 and 0.95 are too high, because steps of few rows are taken for certain.
- A sigmoid of the score and one curve for all labels over its log-odds: 0.741, 3.163. One curve below the sigmoids: 0.691, 3.103,
  2.295, 3.747, and macro F1 0.327 instead of 0.380 on debian_tags_en.
- Neighbours with equal weights instead of equal rows: 0.686, 3.178, 2.266, 3.840 beside 0.680, 3.177, 2.253, 3.825.

Counts are summed as integers, in the order of (positives, name), so results depend neither on ranks nor on the order of labels.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.kernels import elementwise, platt
from hpcml.leave_one_out import decide_kernels as kernels
from hpcml.leave_one_out.cells import EDGES, N_CELLS, ScoreCounts

# On held-out training rows of mesh, macro F1 is 0.293, 0.294, 0.282 and 0.258 with a SHARE of 0.025, 0.05, 0.1 and 0.2;
# log loss is 3.840, 3.825 and 3.828 with a KAPPA of 3, 10 and 30; macro and micro F1 are 0.226/0.431, 0.225/0.433 and 0.223/0.434
# with a PRIOR of 3, 5 and 10. Differences on Reuters, bibtex and debian_tags_en are smaller.
SHARE, FEWEST = 0.05, 10  # neighbours on each side: of all labels, and at least
RARE = 10  # positive rows of the most frequent label whose left-out rows count for labels with one positive row less
GROUPS = 8  # groups on each side of a group, if there are enough labels
KAPPA = 10.0  # weight of the prior, in positives of the neighbours
PRIOR = 5.0  # positives of the neighbours whose scores are added to those of a label for its threshold
# Rows that score at most −1 are not told apart: negative rows without influence on a label count in cell 0, whatever their score.
LOWEST = int(np.searchsorted(EDGES, -1.005))
_LEAST_SLOPE = 2.0**-20  # of a curve


class Decision(NamedTuple):
    """Thresholds of labels, which follow from the log-odds slope · curve of the group (score) + offset."""

    thresholds: np.ndarray  # (n_labels): a row gets the labels whose thresholds its scores exceed
    sigmoids: np.ndarray  # (n_labels × 2): slope and offset
    groups: np.ndarray  # (n_labels): the group of each label
    curves: np.ndarray  # (n_groups × N_CELLS): log-odds in the cells


def order_by_frequency(n_positive: np.ndarray, names: Sequence[str]) -> np.ndarray:
    return np.array(sorted(range(n_positive.size), key=lambda label: (n_positive[label], names[label])), dtype=np.int64)


def decide(comm: mpi.Comm, counts: ScoreCounts, first: int, n_positive: np.ndarray, n_rows: int, order: np.ndarray) -> Decision:
    """Return thresholds of the labels first, first + 1, … of `counts`. Collective over `comm`.

    Each rank has other labels. `n_positive` and `order` (`order_by_frequency`) are those of all labels. A label without positive or
    without negative rows belongs to no neighbourhood, and gets that of the labels of the most similar frequency.
    """
    n = counts.indptr.size - 1
    own, owner, cells = slice(first, first + n), np.repeat(np.arange(n), np.diff(counts.indptr)), np.maximum(counts.cells, LOWEST)
    varies = (n_positive > 0) & (n_positive < n_rows)
    ranked = order[varies[order]]
    half = max(FEWEST, int(SHARE * ranked.size))
    size = max(1, half // GROUPS)
    n_groups, reach = max(1, -(-ranked.size // size)), -(-half // size)
    group_of = np.where(n_positive > 0, n_groups - 1, 0)
    group_of[ranked] = np.arange(ranked.size) // size
    groups, group_without = group_of[own], _groups_without_one(ranked, n_positive, group_of, size)[own]
    # exact sums of the neighbours' counts: rows and positive rows
    sums = np.zeros((2, n_groups * N_CELLS), dtype=np.int64)
    negatives = groups, counts.n_rows - counts.n_positives, sums[:1]
    for group, values, out in (negatives, (group_without, counts.n_positives, sums)):
        is_counted = (varies[own] & (group >= 0))[owner]
        positions = (group[owner] * N_CELLS + cells)[is_counted]
        out += np.bincount(positions, values[is_counted], out.shape[1]).astype(np.int64)
    sums = np.cumsum(mpi.allreduce_sum(comm, sums).reshape(2, n_groups, N_CELLS), axis=1)
    sums = np.concatenate([np.zeros((2, 1, N_CELLS), dtype=np.int64), sums], axis=1)
    numbers = np.arange(n_groups)
    around = (sums[:, np.minimum(numbers + reach + 1, n_groups)] - sums[:, np.maximum(numbers - reach, 0)]).astype(np.float64)
    n_around = np.maximum(around[1].sum(axis=1), 1.0)
    # curves, and the priors of the labels' sigmoids: their mean and precision
    curves, priors = np.empty((n_groups, N_CELLS)), np.zeros((n_groups, 5))
    priors[:, 0] = 1.0
    for curve, prior, (rows, positives) in zip(curves, priors, np.moveaxis(around, 1, 0), strict=True):
        curve[:] = _fit_curve(rows, positives)
        platt.curvature(curve, rows, 1.0, 0.0, prior[2:])
    priors[:, 2:] *= (KAPPA / n_around)[:, None]
    sigmoids, x = np.empty((n, 2)), curves[groups[owner], cells]
    n_of_cell = counts.n_rows * (n_positive[own] > 1)[owner].astype(np.float64)  # the only positive row tells nothing
    platt.fit_labels(counts.indptr, x, n_of_cell, counts.n_positives / np.maximum(n_of_cell, 1.0), priors[groups], sigmoids)
    best = np.empty(n, dtype=np.int64)
    kernels.best_cells(counts[:3], groups, around[0], PRIOR / n_around, LOWEST, curves, sigmoids, best)
    return Decision(np.nextafter(EDGES[best - 1], -np.inf), sigmoids, groups, curves)


def warm_up() -> None:
    """Compile the kernels."""
    one = np.ones(2, np.int32)
    counts = ScoreCounts(np.arange(3), np.array([0, 200], np.int16), one, one)
    decide(mpi.self_comm(), counts, 0, np.array([1, 2]), 3, np.arange(2))


def _groups_without_one(ranked: np.ndarray, n_positive: np.ndarray, group_of: np.ndarray, size: int) -> np.ndarray:
    """Return the group of labels that are as frequent as each label without one of its positive rows; −1: there is none.

    The labels of a frequency up to RARE are spread over those with one positive row less.
    """
    frequencies, out = n_positive[ranked], group_of.copy()
    for frequency in range(1, RARE + 1):
        begin, end = np.searchsorted(frequencies, [frequency, frequency + 1]).tolist()
        less = int(np.searchsorted(frequencies, frequency - 1))
        if begin > less:
            out[ranked[begin:end]] = (less + np.arange(end - begin) * (begin - less) // max(1, end - begin)) // size
        elif frequency == 1:
            out[ranked[begin:end]] = -1
    return out


def _fit_curve(rows: np.ndarray, positives: np.ndarray) -> np.ndarray:
    """Return increasing log-odds at the cells' centres, linear between the mean cells of the steps of the isotonic regression.

    Half a row of each kind is added to each step. Without rows, all log-odds are about 0.
    """
    cells, steps = np.arange(N_CELLS, dtype=np.float64), np.empty((3, N_CELLS))
    n_steps = kernels.isotonic_steps(rows, positives, steps)
    if not n_steps:
        return _LEAST_SLOPE * cells
    n, true, moments = steps[:, :n_steps]
    log_odds = np.maximum.accumulate(elementwise.log((true + 0.5) / (n - true + 0.5)))
    return np.interp(cells, moments / n, log_odds) + _LEAST_SLOPE * cells
