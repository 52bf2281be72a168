"""The labels of one rank: a label depends on nothing but the label and the rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hpcml import slices
from hpcml.kernels import elementary
from hpcml.methods.bayes.risk import BayesRisk, Counter, Weights
from hpcml.methods.linear.solver import CONVERGED, Finished, Solver, SparseWeightsOf, Turns
from hpcml.run.stop import Stop

HISTORY = ("round", "rows", "positives", "error", "weights", "seconds")  # rows that it was trained on; weights that are not 0
Line = tuple[float, ...]


def history_line(step: Line) -> str:
    """The numbers of a round (`HISTORY`) as text."""
    number, rows, positives, error, weights, seconds = step
    return f"{number:.0f},{rows:.0f},{positives:.0f},{error:.17g},{weights:.0f},{seconds:.3f}"


def side_by_side(risk: BayesRisk, parts: Sequence[Weights], numbers: Iterable[float]) -> SparseWeightsOf:
    """A label's row of the model: the parts one after the other, then the rule's numbers."""
    assert risk.combination is not None
    width = risk.combination.width
    behind = np.array(list(numbers), dtype=np.float64)
    columns = [part.columns + number * width for number, part in enumerate(parts)]
    columns.append(risk.combination.n_parts * width + np.arange(behind.size))
    return SparseWeightsOf(np.concatenate(columns), np.concatenate([*(part.values for part in parts), behind]), 0.0)


class BayesSolver(Solver):
    """The labels of one rank: nothing for a checkpoint. A subclass trains a label."""

    one_by_one = True

    def __init__(self, risk: BayesRisk, labels: np.ndarray, n_lanes: int, options: Any) -> None:
        """See `Solver`; labels are trained one by one, whatever `n_lanes`. Raises MemoryError."""
        self.risk, self.labels, self.counter, self.options = risk, labels, Counter(risk), options
        self._mean_values = risk.rows.data.size / max(1, risk.rows.n_local)

    def solve(self, labels: Sequence[int], stop: Stop) -> Turns:
        """Collective over the group, which is one rank. A turn is some labels, whole."""
        self.counter.stop = stop
        finished: list[Finished] = []
        cost, seconds = 0.0, stop.seconds
        for place in labels:
            if cost >= slices.SLICE_VALUES:  # unless one label alone needs more
                yield finished
                finished, cost, seconds = [], 0.0, stop.seconds
            label = int(self.labels[place])
            positives = self.risk.rows.rows_of(label)
            cost += self.cost(positives)
            with self.risk.profile("compute"):
                w, visited, history = self.trained(label, positives, seconds)
            share = visited / self.risk.rows.n_global
            finished.append(Finished(place, w, math.nan, CONVERGED, len(history), share, history))
        yield finished

    def cost(self, positives: np.ndarray) -> float:
        """About how many values training a label looks at."""
        return (positives.size + 1) * (self._mean_values + slices.ROW_VALUES)

    def trained(self, number: int, positives: np.ndarray, seconds: float) -> tuple[SparseWeightsOf, float, list[Line]]:
        """Weights of a label by its rows, mean rows of a round, history. Raises Stopped."""
        raise NotImplementedError


class BernoulliNBSolver(BayesSolver):
    """Naive Bayes: of each label one count of the rows that have it."""

    def trained(self, number: int, positives: np.ndarray, seconds: float) -> tuple[SparseWeightsOf, float, list[Line]]:
        """See `BayesSolver.trained`."""
        n = self.risk.rows.n_global
        found = self.counter.of_all_rows(number, *self.counter.count(positives), positives.size)
        bias = elementary.log(positives.size / (n - positives.size)) + found.bias
        line = (1, n, positives.size, math.nan, found.values.size, seconds)
        return SparseWeightsOf(found.columns, found.values, bias), positives.size, [line]
