"""The rows of the grid after a cycle, the measures that judge them, and the best cycle so far."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hpcml.data.shard import Rows
from hpcml.methods.psbml.selection import Population, selection_weights
from hpcml.model import learner as learners

ENTRY = np.dtype([("place", "<i8"), ("node", "<i4"), ("weight", "<f4")])
# What history.csv says of a cycle.
HISTORY = ("cycle", "error", "auc", "distinct_rows", "f_min", "f_max", "bytes_sent", "seconds")


class CycleFacts(NamedTuple):
    """The facts of a cycle on a rank besides the rows."""

    low: float = math.inf  # the range of fitness
    high: float = -math.inf
    sent: float = 0  # bytes to neighbours
    seconds: float = 0.0

    @classmethod
    def merged(cls, of_ranks: list[list[CycleFacts]]) -> list[CycleFacts]:
        """The facts of all ranks' snapshots together, one for each cycle."""
        merge: tuple[Callable[[Any], float], ...] = (min, max, sum, max)
        cycles = zip(*of_ranks, strict=True)
        return [cls(*(how(values) for how, values in zip(merge, zip(*facts, strict=True), strict=True))) for facts in cycles]


@dataclass
class Snapshot:
    """The unique rows of each node here after a cycle (ENTRY), and facts."""

    cycle: int
    entries: np.ndarray
    facts: CycleFacts


def entries_of(populations: dict[int, Population], low: float, high: float) -> np.ndarray:
    """The rows of some nodes with their weights (ENTRY), by node and place."""
    parts = [np.empty(0, dtype=ENTRY)]
    for node, rows in sorted(populations.items()):
        part = np.empty(rows.places.size, dtype=ENTRY)
        part["place"], part["node"], part["weight"] = rows.places, node, selection_weights(rows.fitness, low, high)
        parts.append(part)
    return np.concatenate(parts)


def loss_of(judge: str, error: float, auc: float) -> float:
    """The loss, least for the best cycle: the error, or 1 − AUC; infinite where it is not known."""
    loss = error if judge == "error" else 1.0 - auc
    return math.inf if math.isnan(loss) else loss


def quality(judge: str, error: float, auc: float) -> str:
    """The measure that judges a cycle, for people; with an area the error at its threshold."""
    wrong = f"error {100 * error:.2f} %"
    return wrong if judge == "error" else f"area {100 * auc:.2f} %, {wrong}"


@dataclass
class Pocket:
    """The best cycle so far; its rows and classifier only on the rank that has them."""

    cycle: int = -1  # none yet; 0: all training rows
    error: float = math.inf
    auc: float = math.nan
    threshold: float = 0.0  # the score above which a row is of the last of two classes
    owner: int = 0
    n_rows: int = 0  # distinct ones
    entries: np.ndarray | None = None  # of all nodes
    classifier: object = None

    def rank(self, judge: str) -> tuple[float, float]:
        """The key by which the best is least: the loss, then the cycle."""
        return loss_of(judge, self.error, self.auc), self.cycle if self.cycle >= 0 else math.inf

    def margin_data(self) -> tuple[np.ndarray, np.ndarray]:
        """The places of its rows, ascending, and their greatest weights. On its owner."""
        assert self.entries is not None
        order = np.lexsort((-self.entries["weight"], self.entries["place"]))
        places, first = np.unique(self.entries["place"][order], return_index=True)
        return places, self.entries["weight"][order][first]


def validate(
    classifier: object, matrix: Rows, classes: np.ndarray, n_classes: int, threshold: float | None = 0.0
) -> tuple[float, float, float]:
    """The share of misclassified rows, the area under the ROC curve (of two classes, else NaN), and
    the threshold above which rows are of the last of two; None: that with the fewest misclassified.
    """
    scores = learners.scores(classifier, matrix, n_classes)
    if n_classes > 2:
        return float(np.mean(scores.argmax(axis=1) != classes)), math.nan, 0.0
    score, positive = scores[:, 0], classes == 1
    if threshold is None:
        threshold = best_threshold(score, positive)
    # The share of pairs of a positive and a negative in right order, ties half; NaN of none. Measures of `hpcml.evaluation` need
    # many ranks; scikit-learn's half a second to import.
    positives, ascending = score[positive], np.sort(score[~positive])
    twice = np.searchsorted(ascending, positives, "left") + np.searchsorted(ascending, positives, "right")
    n_pairs = positives.size * ascending.size
    area = float(twice.sum() / (2 * n_pairs)) if n_pairs else math.nan
    return float(np.mean((score > threshold) != positive)), area, threshold


def best_threshold(scores: np.ndarray, positive: np.ndarray) -> float:
    """The threshold that misclassifies fewest rows (n) (ties: the nearest to 0) among 0, what is
    halfway between neighbouring scores, the least score and the greatest.
    """
    values = np.unique(scores)
    halves = values[:-1] / 2 + values[1:] / 2
    candidates = np.concatenate(
        [[0.0], np.where(halves < values[1:], halves, values[:-1]), values[[-1]], [np.nextafter(values[0], -np.inf)]]
    )
    missed = np.searchsorted(np.sort(scores[positive]), candidates, side="right")
    false = np.count_nonzero(~positive) - np.searchsorted(np.sort(scores[~positive]), candidates, side="right")
    wrong = missed + false
    best = candidates[wrong == wrong.min()]
    return float(best[np.abs(best).argmin()])
