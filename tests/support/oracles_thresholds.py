"""Slow textbook versions of F1 for label sets, of the best thresholds, and of the measures of a row's best labels."""

import math

import numpy as np


def f1(given, true, measure):
    """F1 of two matrices of flags: "micro", "label" (macro) or "instance"; what is 0/0 is in no mean."""
    if measure == "micro":
        given, true = given.reshape(1, -1), true.reshape(1, -1)
    elif measure == "label":
        some = true.any(axis=0)
        given, true = given[:, some].T, true[:, some].T
    values = []
    for g, t in zip(given, true, strict=True):
        if g.sum() + t.sum():
            values.append(2 * int((g & t).sum()) / int(g.sum() + t.sum()))
    return sum(values) / len(values) if values else math.nan


def best_f1(scores, true, measure):
    """The largest F1 that one threshold for all gives, by trying every score."""
    return max(f1(scores >= cut, true, measure) for cut in np.unique(scores))


def best_labels(scores, k):
    """The k best labels of each row; of equal scores the lower numbers."""
    return [sorted(range(len(row)), key=lambda label: (-row[label], label))[:k] for row in scores]


def ndcg(scores, true, k):
    """nDCG@k over the rows that have a label."""
    values = []
    for best, t in zip(best_labels(scores, k), true, strict=True):
        if t.any():
            gained = sum(1 / math.log2(place + 2) for place, label in enumerate(best) if t[label])
            values.append(gained / sum(1 / math.log2(place + 2) for place in range(min(k, int(t.sum())))))
    return sum(values) / len(values)


def propensity_scored(scores, true, n_positive, n_rows, k):
    """Propensity-scored precision@k, normalised, with A = 0.55 and B = 1.5."""
    a, b = 0.55, 1.5
    c = (math.log(n_rows) - 1) * (b + 1) ** a
    weights = [1 + c * math.exp(-a * math.log(n + b)) for n in n_positive]
    gained = sum(weights[label] for best, t in zip(best_labels(scores, k), true, strict=True) for label in best if t[label])
    ideal = sum(sum(sorted((w for w, has in zip(weights, t, strict=True) if has), reverse=True)[:k]) for t in true)
    return gained / ideal
