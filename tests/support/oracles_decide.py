"""Textbook twin of `hpcml.leave_one_out.decide`: dense counts, one label at a time."""

import numpy as np
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression

EDGES = np.linspace(-1.2, 1.2, 241)
CENTRES = np.concatenate([[-1.205], (EDGES[1:] + EDGES[:-1]) / 2, [1.205]])


def merge_lowest(counts):
    """Move the counts (L × 242) of scores below −1 to the last cell below −1."""
    out = np.array(counts, dtype=float)
    out[:, 20] = out[:, :21].sum(axis=1)
    out[:, :20] = 0
    return out


def neighbours(order, n_labels, share=0.05, fewest=10, per_side=8):
    """Return the group of each label of `order`, and the labels around each group."""
    half = max(fewest, int(share * len(order)))
    size = max(1, half // per_side)
    group = {label: rank // size for rank, label in enumerate(order)}
    reach, n_groups = -(-half // size), -(-len(order) // size)
    return group, [[label for label in order if abs(group[label] - g) <= reach] for g in range(n_groups)]


def without_one(order, n_positive, group, share=0.05, fewest=10, per_side=8):
    """Return the group that the left-out positive rows of each label count for, or None."""
    size, out = max(1, max(fewest, int(share * len(order))) // per_side), dict(group)
    for frequency in range(1, 11):
        same = [rank for rank, label in enumerate(order) if n_positive[label] == frequency]
        less = [rank for rank, label in enumerate(order) if n_positive[label] == frequency - 1]
        for place, rank in enumerate(same):
            if less:
                out[order[rank]] = (less[0] + place * len(less) // len(same)) // size
            elif frequency == 1:
                out[order[rank]] = None
    return out


def pool(order, n_positive, rows, positives):
    """Return the group of each label, and the sums of rows and of positive rows of the labels around each group."""
    group, around = neighbours(order, len(order))
    held = without_one(order, n_positive, group)
    sums = np.zeros((2, len(around), rows.shape[1]))
    for g in range(len(around)):
        reach = {group[label] for label in around[g]}
        for label in order:
            if group[label] in reach:
                sums[0, g] += rows[label] - positives[label]
            if held[label] in reach:
                sums[:, g] += positives[label]
    return group, sums


def curve(rows, positives):
    used = rows > 0
    x = np.arange(242.0)
    fitted = IsotonicRegression().fit_transform(x[used], positives[used] / rows[used], sample_weight=rows[used])
    knots, values = [], []
    for level in np.unique(fitted):
        step = np.flatnonzero(used)[fitted == level]
        n, true = rows[step].sum(), positives[step].sum()
        knots.append((rows[step] * x[step]).sum() / n)
        values.append(np.log((true + 0.5) / (n - true + 0.5)))
    return np.interp(x, knots, np.maximum.accumulate(values)) + 2.0**-20 * x


def sigmoid_loss(theta, x, rows, positives, prior):
    z = theta[0] * x + theta[1]
    away = theta - [1.0, 0.0]
    return (rows * np.logaddexp(0, z) - positives * z).sum() + 0.5 * away @ prior @ away


def prior_precision(x, rows, positives, kappa):
    p = 1 / (1 + np.exp(-x))
    v = rows * p * (1 - p)
    return kappa / max(1, positives.sum()) * np.array([[(v * x * x).sum(), (v * x).sum()], [(v * x).sum(), v.sum()]])


def fit(x, rows, positives, prior):
    bounds = [(0, None), (None, None)]
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000}
    return minimize(sigmoid_loss, [1.0, 0.0], (x, rows, positives, prior), "L-BFGS-B", bounds=bounds, options=options)


def expected_f1(p, rows, cell):
    """Return the expected F1 if the rows in `cell` and above are predicted."""
    return 2 * (p * rows)[cell:].sum() / (rows[cell:].sum() + (p * rows).sum())
