"""Rare labels: each is trained on its own working set; one scan over all rows serves 16 of them.

The positive rows of a rare label and the negative rows near them are some hundreds of rows. In a panel, each pass over all rows
serves 16 labels, most of whose rows are not support vectors. Here a label goes through turns, each with 15 others in the same turn:
1. The label is trained on its working set, which is its positive rows at first.
2. Its weights give every row an upper bound of the score. Weights of the frequent columns are added in 16 lanes, which stay in the
   second-level cache; weights of rarer columns through an index by column, and only where they are positive. The first turn uses
   the rarer columns alone: that finds the rows that share rare words with the positive rows.
3. The first turns add the rows of the highest bounds to the working set. Later ones compute the scores of all rows whose bound
   reaches the margin, in float64 and with the weights as they are saved. All other rows have no loss, so these give the objective
   and the gap exactly. The rows that the label lacks most are added, and rows whose dual is 0 are removed, until the label is done.

The result for a label depends on the label, the rows and the seed. The intercept is not moved at the end: a gap of at most ENOUGH
is required instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi, rng
from hpcml.data.shared_rows import shared_array
from hpcml.kernels.lanes import WIDTHS, certify, look
from hpcml.kernels.rows import FREQUENT, transpose
from hpcml.methods.dual import rare_kernels as kernels
from hpcml.methods.dual.panel import LEAST_ROWS, DualPanel, Training, in_rounds, support_of
from hpcml.methods.linear.objective import aligned, panel_widths
from hpcml.methods.linear.solver import Finished, SparseWeightsOf, Support, Turns
from hpcml.run.stop import Stop

# Measured on rows made by `convert synthetic text`: 490,000 (41 million values) and 35,000 (3.6 million), labels of 2 to 70 rows.
VALUES_PER_POSITIVE = 1 << 20  # values of all rows for each row of a label that is trained alone; 600,000: no faster than a panel
FIRST, MORE, EACH = 512, 512, 48  # rows that a turn adds: the first, later ones, and for each positive row; later ones double
BOUNDS_ONLY = 2  # turns that go by bounds alone; 1: as fast, within what the clock tells
PASSES = (4, 4, 16)  # over the working set, at most, in the first turns; twice as many in every further one, up to MOST_PASSES
MOST_PASSES, RECORDED = 4096, 512  # of a turn; a turn of more than RECORDED passes has one line in the history
SAMPLE = 2048  # rows, or more, by whose bounds the threshold of a turn is found
INNER = 0.02  # of the tolerance, at least: what the working set must come to
PRECISE = 4 * float(np.finfo(np.float32).eps)  # passes over the working set cannot bring gradients below it
ENOUGH = 0.05  # of the tolerance: the gap, as a share of the objective, of a label that is done


@dataclass
class RareLabel(Training):
    """A label in training: the rows (ascending) of its working set, their duals, and columns and values of their weights."""

    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    alpha: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    columns: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))


class RowsSeen(NamedTuple):
    """Rows that a label is judged by, ascending: duals, which have the label, and, if known, scores and lines of `norms`."""

    rows: np.ndarray
    alpha: np.ndarray
    positive: np.ndarray
    z: np.ndarray
    norms: np.ndarray


def at_least_highest(values: np.ndarray, n: int) -> np.ndarray:
    """Return which values (bool) are the `n` highest; more where some are equal, all if they are fewer."""
    if values.size <= n:
        return np.ones(values.size, np.bool_)
    return values >= np.partition(values, values.size - n)[values.size - n]


class RareLabelSolver:
    """Trains rare labels of hinge or squared hinge on rows that one rank has, in single precision. Local throughout."""

    def __init__(self, panel: DualPanel, conclude: Callable[..., Finished | None], max_gap: float) -> None:
        """Take of a panel what all labels have in common, and its room for scores; `conclude` as in `DualSolver`.

        Raises MemoryError.
        """
        self.panel, self.risk, self.norms, self.options = panel, panel.risk, panel.norms, panel.options
        self.ignored, self.inner = panel.ignored, max(2 * panel.ignored, INNER)  # of the tolerance
        self.conclude, self.enough = conclude, min(max_gap, ENOUGH * self.options.dual_tol)
        self.most_rows = self.options.step_limit * panel.risk.rows.n_global  # that a label's passes may visit
        rows, (n, d) = self.risk.rows, (self.risk.rows.n_local, self.risk.rows.n_columns)
        self.csr = rows.indptr, rows.indices, rows.data
        self.n_frequent = min(FREQUENT, d - rows.bias)
        self.ends = np.empty(n, np.int64)
        kernels.frequent_ends(rows.indptr, rows.indices, self.n_frequent, self.ends)
        # The rows and values of the columns that are not frequent, column by column; in files, if the rows are.
        starts = np.concatenate([[0], np.cumsum(rows.counts[self.n_frequent : d - rows.bias], dtype=np.int64)])
        room = partial(shared_array, mpi.self_comm()) if rows.mapped else np.empty
        self.index = starts, room(int(starts[-1]), np.int32), room(int(starts[-1]), np.float32)
        transpose(self.ends, rows.indptr[1:], rows.indices, rows.data, self.n_frequent, starts[:-1].copy(), *self.index[1:])
        parts = panel.rows.parts
        self.any_sign = any((rows.data[rows.indptr[some.start] : rows.indptr[some.stop]] < 0).any() for some in parts)
        self.longest = int(np.diff(rows.indptr).max())
        self.room = np.zeros(d, np.float32), np.zeros(d), np.zeros(n, np.float32), *np.zeros((2, n), np.uint16)
        self.columns = np.empty(d, np.int32)
        self.seen = RowsSeen(
            np.empty(n, np.int32), np.empty(n, np.float32), np.empty(n, np.uint16), np.empty(n), np.empty_like(self.norms)
        )
        self.width, self.counts = 1, np.zeros(WIDTHS[-1], np.int64)
        self.frequent = aligned(self.n_frequent * WIDTHS[-1], np.float32)  # weights of frequent columns
        self.bounds, self.found = np.split(panel.scores.view(np.float32), 2)[0], np.split(panel.scores.view(np.int32), 2)[1]

    def solve(self, labels: Sequence[int], numbers: np.ndarray, n_lanes: int, stop: Stop) -> Turns:
        """Train labels, places among the `numbers` in the data of all labels of the run. A turn looks at all rows once.

        Raises Stopped, NonFiniteError.
        """
        tolerance, n = self.options.dual_tol, self.risk.rows.n_local
        for turn, lanes, unfinished in in_rounds(
            labels, lambda place: RareLabel(place, int(numbers[place]), tolerance), n_lanes, math.inf
        ):
            with self.risk.profile("compute"):
                squares, thresholds = self._fit(lanes, turn, stop)
                by_bounds = self._find(lanes, turn, thresholds)
            done = list[Finished]()
            with self.risk.profile("finish"):
                for lane, label in stop.slices(enumerate(lanes)):
                    one, found = None, self.found[lane * n : lane * n + int(self.counts[lane])]
                    if by_bounds[lane]:
                        bounds = self.bounds[found * np.int64(self.width) + lane]
                        found = found[at_least_highest(bounds, self._room_for(label, turn))]
                        self._take(label, self._seen(label, found), found)
                    else:
                        one = self._judge(label, found, squares[lane], turn)
                    if one is None:
                        unfinished.append(label)
                    else:
                        done.append(one)
            yield done

    def _fit(self, lanes: list[RareLabel], turn: int, stop: Stop) -> tuple[np.ndarray, np.ndarray]:
        """Train each label on its working set and begin the bounds of its lane. Return Σ w² (two each: before rounding, and
        after), and the thresholds that bounds reach where a score may reach the margin.
        """
        rows = self.risk.rows
        (self.width,) = panel_widths(len(lanes), "single")
        w, bounds = self.frequent[: self.n_frequent * self.width], self.bounds[: rows.n_local * self.width]
        w[:], bounds[:] = 0.0, 0.0
        n_passes = PASSES[turn] if turn < len(PASSES) else min(MOST_PASSES, PASSES[-1] << min(turn, 20))
        key = rng.bits(self.options.seed, "order of rows", np.array([turn]))[0]
        squares, intercepts = np.zeros((len(lanes), 2)), np.zeros(len(lanes))
        for lane, label in stop.slices(enumerate(lanes)):
            positives = rows.rows_of(label.number)
            if turn == 0:
                label.rows, label.alpha = positives.astype(np.int32), np.zeros(positives.size, np.float32)
            rows_left = max(0.0, self.most_rows - label.spent)
            steps = np.zeros((min(n_passes, math.ceil(rows_left / label.rows.size)), 3))
            state = label.rows, label.alpha, positives, label.columns, label.weights
            rules, enough = self._rules(label)[0], self.inner * label.tolerance
            n, label.weights = kernels.fit(
                self.csr, self.norms, state, self.room, rules, enough, key, steps, self.columns, squares[lane]
            )
            label.columns = self.columns[: label.weights.size].copy()
            if n_passes <= RECORDED:
                for violation, n_active, moved in steps[:n].tolist():
                    label.record(violation, n_active, moved, stop.seconds)
            elif n:
                looked_at, moved = steps[:n, 1:].sum(axis=0).tolist()
                label.record(steps[n - 1, 0], looked_at, moved, stop.seconds, passes=n)
            label.spent += LEAST_ROWS * rows.n_local  # for the look at all rows
            weights = label.columns, label.weights
            intercepts[lane] = kernels.begin_bounds(
                self.index, weights, self.n_frequent, self.any_sign, (w, bounds), self.width, lane
            )
        rounding = self.longest * np.finfo(np.float32).eps * np.sqrt(squares[:, 1]) * rows.max_norm
        for some in stop.slices(self.panel.rows.parts) if turn > 0 else ():  # add what the weights of frequent columns give
            csr, width = (rows.indptr[some.start : some.stop + 1], rows.indices, rows.data), self.width
            look.raise_bounds(csr, self.ends[some], w, bounds[some.start * width : some.stop * width], width)
        return squares, -1 - rounding - 1e-6 - intercepts

    def _rules(self, label: RareLabel) -> tuple[np.ndarray, np.ndarray]:
        """Return the rules of a panel of this label alone (flat), and C of its positive and negative rows (2, 1)."""
        costs = self.panel.costs_of(label.number).reshape(2, 1)
        ignored = 0.0 if label.exact else self.ignored * label.tolerance
        return self.panel.rules(costs, [ignored]).reshape(-1), costs

    def _find(self, lanes: list[RareLabel], turn: int, margins: np.ndarray) -> np.ndarray:
        """Find the rows whose bounds reach thresholds: `found`. Return which labels (bool) have more rows at the margin than a
        turn adds; their thresholds are higher.
        """
        n, width, by_bounds = self.risk.rows.n_local, self.width, np.zeros(len(lanes), np.bool_)
        bounds, found = self.bounds[: n * width], self.found[: n * width].reshape(width, n)
        thresholds = np.full(width, np.inf, np.float32)
        thresholds[: len(lanes)] = margins
        if turn < BOUNDS_ONLY:
            sample = np.sort(bounds.reshape(n, width)[:: max(1, n // SAMPLE)], axis=0)
            for lane, label in enumerate(lanes):
                place = sample.shape[0] - 1 - 2 * self._room_for(label, turn) * sample.shape[0] // n
                highest = sample[place, lane] if place >= 0 else -np.inf
                least = thresholds[lane] if turn > 0 else np.finfo(np.float32).tiny  # at first most rows have a bound of 0
                by_bounds[lane] = turn == 0 or highest > least
                thresholds[lane] = max(highest, least)
        look.rows_that_reach(bounds, thresholds, width, self.counts, found)
        return by_bounds

    def _room_for(self, label: RareLabel, turn: int) -> int:
        """How many rows a turn adds to the working set at most."""
        return ((FIRST if turn == 0 else MORE) + EACH * int(self.risk.rows.n_positive[label.number])) << max(0, turn - 1)

    def _seen(self, label: RareLabel, found: np.ndarray) -> RowsSeen:
        """These rows and those of the working set; scores and norms are still to be written."""
        state = label.rows, label.alpha, self.risk.rows.rows_of(label.number)
        n = kernels.together(found, state, self.seen[:3])
        return RowsSeen(*(array[:n] for array in self.seen))

    def _take(self, label: RareLabel, seen: RowsSeen, added: np.ndarray) -> None:
        """Let the working set be the rows that have a dual, the positives, and those that are `added`."""
        kept = (seen.alpha != 0) | (seen.positive != 0)
        kept[np.searchsorted(seen.rows, added)] = True
        label.rows, label.alpha = seen.rows[kept], seen.alpha[kept]

    def _judge(self, label: RareLabel, found: np.ndarray, squares: np.ndarray, turn: int) -> Finished | None:
        """Return the label, if it is done, by the rows that may reach the margin; else it gets those that it lacks.

        Raises NonFiniteError.
        """
        seen = self._seen(label, found)
        kernels.scores_of(self.csr, seen.rows, self.norms, (label.columns, label.weights), self.room[0], seen.z, seen.norms)
        rules, costs = self._rules(label)
        sums, near = np.zeros((certify.N_SUMS, 1)), np.zeros(seen.rows.size, np.uint16)
        tables, state = (rules, costs.reshape(-1), np.zeros(1)), (seen.z, seen.alpha)
        within = 0.0 if label.exact else -self.ignored * label.tolerance  # beyond 0, of the gradients of rows that it lacks
        certify.hinge_certify(state, seen.positive, seen.norms, tables, near, sums.reshape(-1), 1, within)
        losses, _, penalty = self.panel.losses(costs, sums)
        primal, bound = 0.5 * squares[1] + losses[0], sums[certify.ALPHA, 0] - 0.5 * squares[0] - penalty[0]
        verdict = float(primal), float(bound), float(sums[certify.MOST, 0] - sums[certify.LEAST, 0])
        is_at_precision = (label.exact and not label.moved) or self.inner * label.tolerance < PRECISE
        weights = label.columns, label.weights

        def support() -> Support:
            n = seen.alpha != 0
            return support_of(seen.rows[n], seen.alpha[n], seen.positive[n] != 0, seen.norms[n, 1])

        one = self.conclude(label, costs[:, 0], verdict, is_at_precision, self.enough, lambda copy: weights, support)
        if one is not None:
            return one._replace(w=self._sparse(one.w))
        lacks, most = np.flatnonzero((near != 0) & (seen.alpha == 0)), self._room_for(label, turn)
        if lacks.size > most:
            z = seen.z[lacks]
            lacks = lacks[at_least_highest(np.where(seen.positive[lacks] != 0, -z, z), most)]
        self._take(label, seen, seen.rows[lacks])
        return None

    def _sparse(self, weights: Any) -> SparseWeightsOf:
        """Weights, as (columns, values) or as an array (n_columns), with the intercept apart."""
        if isinstance(weights, tuple):
            order = np.argsort(weights[0])
            columns, values = weights[0][order], weights[1][order]
        else:
            columns = np.flatnonzero(weights).astype(np.int32)
            values = weights[columns]
        if self.risk.rows.bias and columns.size and columns[-1] == self.risk.rows.n_columns - 1:
            return SparseWeightsOf(columns[:-1], values[:-1], float(values[-1]))
        return SparseWeightsOf(columns, values, 0.0)
