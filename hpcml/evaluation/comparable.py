"""Values that are comparable between labels: log-odds if the model has probabilities, else scores.

Scores of different labels share a scale only if the labels were trained alike; probabilities always do. Log-odds (slope · score +
offset) have the order of the probabilities and do not become equal where probabilities round to 0 or 1. Within a label they have
the order of the scores. Every ranking of the labels of a row, or of pairs of rows and labels, uses these values.
"""

import numpy as np

from hpcml.kernels import elementary
from hpcml.model.trained import Trained

BY_SCORE, BY_PROBABILITY = "score", "probability"
_LARGEST = float(np.finfo(np.float64).max)


class Comparable:
    def __init__(self, model: Trained, labels: np.ndarray) -> None:
        """`labels` (n) are label numbers of the model; the methods take positions among them."""
        sigmoids, self.n_labels = model.sigmoids, labels.size
        self.by = BY_SCORE if sigmoids is None else BY_PROBABILITY
        # empty: values are scores
        self.sigmoids = (np.zeros(0),) * 2 if sigmoids is None else (sigmoids[0][labels], sigmoids[1][labels])

    def values(self, scores: np.ndarray, labels: slice | np.ndarray | int) -> np.ndarray:
        """Return the values of scores (n) of a label or of labels[i], or of scores (n, B) of consecutive labels."""
        if self.by == BY_SCORE:
            return scores
        slope, offset = (values[labels] for values in self.sigmoids)
        with np.errstate(over="ignore", invalid="ignore"):
            odds: np.ndarray = np.where(slope > 0, slope * scores + offset, offset)  # no 0 · ∞
        if not np.all(slope > 0):
            odds[scores == -np.inf] = -np.inf  # rows without a score stay last
        return odds

    def distances(self, differences: np.ndarray, labels: np.ndarray | int) -> np.ndarray:
        if self.by == BY_SCORE:
            return differences
        slope = self.sigmoids[0][labels]
        with np.errstate(over="ignore", invalid="ignore"):
            distances: np.ndarray = np.where(slope > 0, slope * differences, 0.0)  # no 0 · ∞
        return distances

    def thresholds(self, value: float) -> np.ndarray:
        """Return the largest score (n_labels) of each label whose value is at most `value`."""
        if self.by == BY_SCORE:
            return np.full(self.n_labels, value)
        low, high = (np.full(self.n_labels, _rank(end)) for end in (-_LARGEST, _LARGEST))
        for _ in range(65):
            middle = (low >> 1) + (high >> 1) + (low & high & 1)
            above = self.values(_number(middle), slice(None)) > value
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        ends = self.values(np.full(self.n_labels, _LARGEST), slice(None)) <= value
        return np.where(ends, _LARGEST, _number(low))

    def least(self, value: float) -> np.ndarray:
        """Return the smallest score (n_labels) of each label whose value is at least `value`."""
        below = np.nextafter(value, -np.inf)
        return np.nextafter(self.thresholds(float(below)), np.inf)


def probability(log_odds: float) -> float:
    return float(elementary.sigmoid(float(log_odds)))


def _rank(number: float) -> int:
    """Return the position of a float64 among all float64 numbers; 0 has 0."""
    bits = int(np.abs(np.float64(number)).view(np.int64))
    return bits if number >= 0 else -bits


def _number(rank: np.ndarray) -> np.ndarray:
    return np.copysign(np.abs(rank).view(np.float64), np.where(rank < 0, -1.0, 1.0))
