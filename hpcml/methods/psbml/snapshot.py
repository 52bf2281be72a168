"""The rows of the grid after a cycle, the measures of a cycle, and the best cycle so far."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from hpcml.data.shard import Rows
from hpcml.methods.psbml.selection import Population, selection_weights
from hpcml.model import learner as learners

ENTRY = np.dtype([("position", "<i8"), ("node", "<i4"), ("weight", "<f4")])
# Columns of history.csv.
HISTORY = ("cycle", "error", "auc", "distinct_rows", "f_min", "f_max", "bytes_sent", "seconds")


class CycleFacts(NamedTuple):
    low: float = math.inf  # range of fitness
    high: float = -math.inf
    sent: float = 0  # bytes to neighbours
    seconds: float = 0.0

    @classmethod
    def merge(cls, of_ranks: list[list[Self]]) -> list[Self]:
        merge: tuple[Callable[[Any], float], ...] = (min, max, sum, max)
        cycles = zip(*of_ranks, strict=True)
        return [cls(*(how(values) for how, values in zip(merge, zip(*facts, strict=True), strict=True))) for facts in cycles]


@dataclass
class Snapshot:
    cycle: int
    entries: np.ndarray
    facts: CycleFacts


def make_entries(populations: dict[int, Population], low: float, high: float) -> np.ndarray:
    parts = [np.empty(0, dtype=ENTRY)]
    for node, rows in sorted(populations.items()):
        part = np.empty(rows.positions.size, dtype=ENTRY)
        part["position"], part["node"], part["weight"] = rows.positions, node, selection_weights(rows.fitness, low, high)
        parts.append(part)
    return np.concatenate(parts)


def cycle_loss(judge: str, error: float, auc: float) -> float:
    loss = error if judge == "error" else 1.0 - auc
    return math.inf if math.isnan(loss) else loss


def format_quality(judge: str, error: float, auc: float) -> str:
    wrong = f"error {100 * error:.2f} %"
    return wrong if judge == "error" else f"ROC AUC {auc:.4f}, {wrong}"


@dataclass
class BestCycle:
    """The best cycle so far; its rows and classifier are only on the rank `owner`."""

    cycle: int = -1  # -1: none yet; 0: all training rows
    error: float = math.inf
    auc: float = math.nan
    threshold: float = 0.0  # score above which the last of two classes is predicted
    owner: int = 0
    n_rows: int = 0  # distinct rows
    entries: np.ndarray | None = None  # of all nodes
    classifier: object = None

    def rank(self, judge: str) -> tuple[float, float]:
        return cycle_loss(judge, self.error, self.auc), self.cycle if self.cycle >= 0 else math.inf

    def margin_data(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of its rows, ascending, and their maximum weights (on the owner)."""
        order = np.lexsort((-self.entries["weight"], self.entries["position"]))
        positions, first = np.unique(self.entries["position"][order], return_index=True)
        return positions, self.entries["weight"][order][first]


def validate(
    classifier: object, matrix: Rows, classes: np.ndarray, n_classes: int, threshold: float | None = 0.0
) -> tuple[float, float, float]:
    """Return the error, the area under the ROC curve (NaN for more than two classes), and the threshold of the last of two classes.

    With `threshold` None, the threshold with the fewest errors is chosen.
    """
    scores = learners.scores(classifier, matrix, n_classes)
    if n_classes > 2:
        return float(np.mean(scores.argmax(axis=1) != classes)), math.nan, 0.0
    score, positive = scores[:, 0], classes == 1
    if threshold is None:
        threshold = best_threshold(score, positive)
    # Share of positive-negative pairs in the right order, ties count ½. Computed here because the measures of `hpcml.evaluation`
    # are collective, and importing scikit-learn takes half a second.
    positives, ascending = score[positive], np.sort(score[~positive])
    twice = np.searchsorted(ascending, positives, "left") + np.searchsorted(ascending, positives, "right")
    n_pairs = positives.size * ascending.size
    area = float(twice.sum() / (2 * n_pairs)) if n_pairs else math.nan
    return float(np.mean((score > threshold) != positive)), area, threshold


def best_threshold(scores: np.ndarray, positive: np.ndarray) -> float:
    """Return the threshold with the fewest errors among 0, the midpoints of neighbouring scores, the minimum and the maximum.

    Ties: the threshold nearest to 0.
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
