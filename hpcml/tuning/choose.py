"""Which setting each label gets, from the scores of all labels at all settings.

A label alone says too little, the rarer the less: the best of many settings on a few rows is
chance. So the score of a setting for a label with n′ positives is (n′ own + τ mean) / (n′ + τ),
where the mean is that over all labels. τ was chosen on Reuters and the docstrings, and judged on
other collections (docs/notebook.md). The default setting stays unless another one gains MARGIN.
"""

from __future__ import annotations

import numpy as np

# Held-out training rows that had no part in the choice, of nursery, w8a, covtype, spamassassin, 20newsgroups, Reuters, bibtex,
# docstrings and MeSH: F1 falls on Reuters alone, by 0.0007 with 0.001 and by 0.0003 with 0.003. MeSH gains 0.0029 instead of
# 0.0044; what the others gain stays (docs/notebook.md).
MARGIN = 0.003  # of a score, by which another setting must be better than the default
TAU = 100.0  # positives whose own score weighs as much as the mean of all labels: with fewer, rare labels choose by chance


def choose(
    scores: np.ndarray, n_positive: np.ndarray, one: bool, default: int | None = None, tau: float = TAU, margin: float = MARGIN
) -> np.ndarray:
    """The setting of each label, from `scores` (n_labels × n_settings, NaN where there are none).

    `one`: the same for all. Of equal ones the first; the `default` where no other has a score that
    is larger by the margin.
    """
    mean = np.nanmean(scores, axis=0)
    best = best_of(mean, default, margin)
    if one:
        return np.full(len(scores), best)
    n = n_positive[:, None].astype(np.float64)
    drawn = (n * scores + tau * mean) / (n + tau)
    found = np.full(len(scores), best)
    judged = ~np.isnan(scores).any(axis=1)
    found[judged] = [best_of(row, default, margin) for row in drawn[judged]]
    return found


def best_of(scores: np.ndarray, default: int | None = None, margin: float = MARGIN) -> int:
    """The first of the largest scores; the `default` unless that gains the margin over it."""
    best = int(np.argmax(scores))
    return default if default is not None and scores[best] < scores[default] + margin else best
