"""The rows of the grid after a cycle, and their assessment: one classifier of the unique rows,
judged by the validation set.

Assessments do not depend on one another nor the cycles on them. So they are not made in the cycles
but some at a time, one on each rank; the rank reads the rows from the file. The best so far is the
pocket.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.data.shard import Rows
from hpcml.methods.psbml.pocket import Pocket, loss_of
from hpcml.methods.psbml.problem import TorusProblem
from hpcml.methods.psbml.rows import distinct
from hpcml.methods.psbml.selection import VALIDATION, Population, population, selection_weights
from hpcml.model import learner as learners
from hpcml.slices import Look

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


def all_rows(slots: dict[int, np.ndarray]) -> Snapshot:
    """Cycle 0: all rows with which the nodes here begin; the base learner without PSBML."""
    populations = {node: population(rows) for node, rows in slots.items()}
    return Snapshot(0, entries_of(populations, math.nan, math.nan), CycleFacts(math.nan, math.nan))


def assign(n_tasks: int, costs: list[float]) -> list[int]:
    """The rank for each equal task so that all end soonest; `costs`: the ranks' seconds for one."""
    load = np.zeros(len(costs))
    ranks = []
    for _ in range(n_tasks):
        rank = int(np.argmin(load + costs))
        load[rank] += costs[rank]
        ranks.append(rank)
    return ranks


class Assessor:
    """Judges snapshots and keeps the pocket and the history."""

    def __init__(self, problem: TorusProblem) -> None:
        self.problem = problem
        self.pocket = Pocket()
        self.history: list[tuple[float, ...]] = []  # a line of HISTORY for each cycle assessed
        self.handed: list[Snapshot] = []  # out, and not gathered yet
        self._mine: list[tuple[int, np.ndarray]] = []  # of these, what this rank has to assess: cycles, and entries of all nodes
        self._judged: list[tuple[Pocket, int]] = []  # by this rank, and their distinct rows
        self._validation: tuple | None = None

    @property
    def base(self) -> tuple[float, float]:
        """Error and AUC of cycle 0; NaN before it is assessed."""
        return next(((line[1], line[2]) for line in self.history if line[0] == 0), (math.nan, math.nan))

    @property
    def at_plateau(self) -> bool:
        """Whether `patience` cycles are no better than the best before; cycle 0 never counts."""
        options, best, since = self.problem.options, math.inf, 0
        for line in self.history:
            if line[0] > 0:
                loss = loss_of(options.judge, line[1], line[2])
                best, since = min(best, loss), 0 if loss < best else since + 1
        return options.patience is not None and since >= options.patience

    def hand_out(self, snapshots: list[Snapshot], costs: list[float]) -> None:
        """Collective. Give the ranks snapshots to assess; `costs`: their seconds for equal work."""
        comm, self.handed = self.problem.comm, snapshots
        for snapshot, rank in zip(snapshots, assign(len(snapshots), costs), strict=True):
            parts = [np.empty(0, dtype=ENTRY)] * comm.size
            parts[rank] = snapshot.entries
            received = mpi.exchange(comm, parts)
            if rank == comm.rank:
                self._mine.append((snapshot.cycle, np.concatenate(received)))

    def work(self, look: Look) -> None:
        """Assess this rank's part. Local; raises what `look` does before one begins."""
        judge = self.problem.options.judge
        with self.problem.computing("assess"):
            for cycle, entries in self._mine:
                look()
                judged = self._assess(cycle, entries, look)
                if any(before.rank(judge) < judged.rank(judge) for before, _ in self._judged):
                    judged.classifier = judged.entries = None  # it cannot be the best
                self._judged.append((judged, distinct([entries["place"]]).size))
        self._mine = []

    def take_back(self) -> list[Snapshot]:
        """The snapshots that were handed out, to be assessed another time. Local."""
        handed, self.handed, self._mine, self._judged = self.handed, [], [], []
        return handed

    def _assess(self, cycle: int, entries: np.ndarray, look: Look) -> Pocket:
        """Train on the unique rows of a cycle and judge by the validation set."""
        classifier = self.train(cycle, entries)
        look()
        if self._validation is None:
            held_out = np.flatnonzero(self.problem.start == VALIDATION)
            self._validation = (self.problem.prepared(self.problem.read(held_out)), self.problem.classes.of[held_out])
        matrix, classes = self._validation
        threshold = None if self.problem.options.judge == "auc" else 0.0
        error, auc, threshold = validate(classifier, matrix, classes, self.problem.classes.n_classes, threshold)
        return Pocket(cycle, error, auc, threshold, self.problem.comm.rank, entries, classifier)

    def train(self, cycle: int, entries: np.ndarray) -> object:
        """The classifier of the unique rows of a cycle. Local."""
        places = distinct([entries["place"]])
        return self.problem.train(self.problem.read(places), places, "assess", cycle)

    def gather(self) -> None:
        """Collective, after `work`. Tell all ranks the results; the best's rows stay in place.

        Cycles after a plateau do not count: how many were done depends on the ranks.
        """
        comm, judge = self.problem.comm, self.problem.options.judge
        mine = {judged.cycle: judged for judged, _ in self._judged}
        told = [(replace(one, entries=None, classifier=None), n_rows) for one, n_rows in self._judged]  # without what is large
        snapshots, self.handed, self._judged = self.handed, [], []
        gathered = comm.allgather((told, [snapshot.facts for snapshot in snapshots]))
        results = {judged.cycle: (judged, n_rows) for one, _ in gathered for judged, n_rows in one}
        for snapshot, facts in zip(snapshots, CycleFacts.merged([facts for _, facts in gathered]), strict=True):
            if self.at_plateau:
                return
            judged, n_rows = results[snapshot.cycle]
            self.history.append((snapshot.cycle, judged.error, judged.auc, n_rows, *facts))
            if judged.rank(judge) < self.pocket.rank(judge):
                self.pocket = mine.get(judged.cycle, judged)


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
    return float(np.mean((score > threshold) != positive)), area_under_roc(score[positive], score[~positive]), threshold


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


def area_under_roc(positives: np.ndarray, negatives: np.ndarray) -> float:
    """The share of pairs of a positive and a negative in right order, ties half; NaN of none.

    (Measures of `hpcml.evaluation` need many ranks; scikit-learn's half a second to import.)
    """
    if not positives.size * negatives.size:
        return math.nan
    ascending = np.sort(negatives)
    twice = np.searchsorted(ascending, positives, "left") + np.searchsorted(ascending, positives, "right")
    return float(twice.sum() / (2 * positives.size * negatives.size))
