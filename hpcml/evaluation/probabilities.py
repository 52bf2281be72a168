"""Probabilities from scores, with their Brier score and expected calibration error (10 bins).

Sums are of whole multiples of 2^−36 or slightly more, so they depend neither on the order of the rows nor on the number of ranks.
"""

from dataclasses import dataclass

import numpy as np

from hpcml import mpi
from hpcml.evaluation import decision_kernels as kernels
from hpcml.evaluation.scored_rows import ScoreObserver
from hpcml.measures import brier, calibration_error

BINS = 10
RANGES = ((0, 0), (1, 4), (5, 9), (10, 29), (30, 99), (100, 2**62))  # groups of labels by positive rows


def probabilities(scores: np.ndarray, slope: np.ndarray, offset: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
    """Return 1 / (1 + exp(−slope · score − offset)) for scores (n × L), or for scores (n × k) of labels[i, k]."""
    out = np.empty(scores.shape)
    if labels is None:
        kernels.sigmoids(scores, slope, offset, out)
    else:
        flat = scores.reshape(1, -1)
        kernels.sigmoids(flat, slope[labels.ravel()], offset[labels.ravel()], out.reshape(1, -1))
    return out


@dataclass(frozen=True)
class CalibrationLine:
    positives: str
    n_labels: int
    mean_probability: float
    frequency: float  # share of true pairs
    brier: float
    ece: float


class ProbabilityCounts(ScoreObserver):
    # set by `finish`, over all ranks
    expected: np.ndarray  # Σ p in each bin (n_labels × BINS)
    hits: np.ndarray  # true rows in each bin
    brier: np.ndarray  # (n_labels)
    ece: np.ndarray  # (n_labels)
    micro: dict[str, float]

    def __init__(self, sigmoids: tuple[np.ndarray, np.ndarray], labels: np.ndarray, n_global: int) -> None:
        self.sigmoids, self.n_global = (sigmoids[0][labels], sigmoids[1][labels]), n_global
        n = labels.size
        self.bits = min(36, 62 - n_global.bit_length())
        self.squares, self.sums = np.zeros(n, dtype=np.int64), np.zeros((n, BINS), dtype=np.int64)

    def add(self, row: int, scores: np.ndarray, begin: int) -> None:
        block = slice(begin, begin + scores.shape[1])
        p = probabilities(scores, *(values[block] for values in self.sigmoids))
        p[scores == -np.inf] = 0.0  # rows without features get no labels, whatever the slope
        kernels.tally_probabilities(p, self.bits, self.squares[block], self.sums[block])

    def finish(self, comm: mpi.Comm, labels: np.ndarray, positives: np.ndarray) -> None:
        """Set the measures; positives[i] is the score of a true pair of the label labels[i]. Collective over `comm`."""
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
        self.micro = dict(zip(("brier", "ece"), map(float, together), strict=True))

    def by_positives(self, counts: np.ndarray) -> list[CalibrationLine]:
        lines, n = [], max(1, self.n_global)
        for low, high in RANGES:
            inside = (counts >= low) & (counts <= high)
            if inside.any():
                name = str(low) if low == high else f"{low}-{high}" if high < RANGES[-1][1] else f"{low} or more"
                means = (
                    self.expected[inside].sum() / n,
                    self.hits[inside].sum() / n,
                    self.brier[inside].sum(),
                    self.ece[inside].sum(),
                )
                lines.append(CalibrationLine(name, int(inside.sum()), *(float(mean / inside.sum()) for mean in means)))
        return lines
