"""Probabilities from scores, their Brier score and their expected calibration error.

y is 1 for rows that have the label and else 0; the calibration error has 10 bins. Sums are of whole numbers, of 2^−36 or a little
more, so that they depend neither on the order of the rows nor on the number of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpcml import mpi
from hpcml.evaluation import decision_kernels as kernels
from hpcml.evaluation.judged import ScoreObserver
from hpcml.measures import brier, calibration_error

BINS = 10
RANGES = ((0, 0), (1, 4), (5, 9), (10, 29), (30, 99), (100, 2**62))  # positives of labels that are judged together


def probabilities(scores: np.ndarray, slope: np.ndarray, offset: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
    """1 / (1 + exp(−slope · score − offset)) of scores (n × L), or (n × k) of labels[i, k]."""
    out = np.empty(scores.shape)
    if labels is None:
        kernels.sigmoids(scores, slope, offset, out)
    else:
        flat = scores.reshape(1, -1)
        kernels.sigmoids(flat, slope[labels.ravel()], offset[labels.ravel()], out.reshape(1, -1))
    return out


@dataclass(frozen=True)
class CalibrationLine:
    """Labels with about as many positives, the share of true rows, and means over them."""

    positives: str
    n_labels: int
    mean_probability: float
    frequency: float
    brier: float
    ece: float


class ProbabilityCounts(ScoreObserver):
    """Sums of the probabilities of labels over the rows of a rank; then what follows from them."""

    # set by `finish`, each over all ranks
    expected: np.ndarray  # Σ p in each bin (n_labels × BINS)
    hits: np.ndarray  # true rows in each bin
    brier: np.ndarray  # (n_labels)
    ece: np.ndarray  # (n_labels)
    micro: dict[str, float]

    def __init__(self, sigmoids: tuple[np.ndarray, np.ndarray], labels: np.ndarray, n_global: int) -> None:
        """`sigmoids`: slope and offset of all labels of a model; `labels` (n) are judged."""
        self.sigmoids, self.n_global = (sigmoids[0][labels], sigmoids[1][labels]), n_global
        n = labels.size
        self.bits = min(36, 62 - n_global.bit_length())
        self.squares, self.sums = np.zeros(n, dtype=np.int64), np.zeros((n, BINS), dtype=np.int64)

    def add(self, row: int, scores: np.ndarray, begin: int, ascending: np.ndarray) -> None:
        """Count scores."""
        some = slice(begin, begin + scores.shape[1])
        found = probabilities(scores, *(values[some] for values in self.sigmoids))
        found[scores == -np.inf] = 0.0  # rows that get no labels, whatever the slope
        kernels.tally_probabilities(found, self.bits, self.squares[some], self.sums[some])

    def finish(self, comm: mpi.Comm, labels: np.ndarray, positives: np.ndarray) -> None:
        """Collective over `comm`. Sum over the ranks, and set the measures; positives[p] scores the true label labels[p]."""
        slope, offset = self.sigmoids
        p = probabilities(positives.reshape(1, -1), slope[labels], offset[labels])[0]
        p[positives == -np.inf] = 0.0
        one = 1 << self.bits
        np.add.at(self.squares, labels, np.rint((1.0 - 2.0 * p) * one).astype(np.int64))  # (1 − p)² instead of p²
        hits = np.zeros((slope.size, BINS), dtype=np.int64)
        np.add.at(hits, (labels, np.minimum((p * BINS).astype(np.int64), BINS - 1)), 1)
        squares, sums, self.hits = (mpi.allreduce_sum(comm, np.ascontiguousarray(each)) for each in (self.squares, self.sums, hits))
        self.expected, squares = sums / one, squares / one
        differences, n_pairs = self.expected - self.hits, self.n_global * slope.size
        self.brier, self.ece = brier(squares, self.n_global), calibration_error(differences, self.n_global)
        together = brier(squares.sum(), n_pairs), calibration_error(differences.sum(axis=0), n_pairs)
        self.micro = dict(zip(("brier", "ece"), map(float, together), strict=True))  # of all pairs of a row and a label together

    def by_positives(self, counts: np.ndarray) -> list[CalibrationLine]:
        """A line for each of RANGES that some label's count is in; means over its labels."""
        lines, n = [], max(1, self.n_global)
        for low, high in RANGES:
            some = (counts >= low) & (counts <= high)
            if some.any():
                name = str(low) if low == high else f"{low}-{high}" if high < RANGES[-1][1] else f"{low} or more"
                means = (self.expected[some].sum() / n, self.hits[some].sum() / n, self.brier[some].sum(), self.ece[some].sum())
                lines.append(CalibrationLine(name, int(some.sum()), *(float(mean / some.sum()) for mean in means)))
        return lines
