"""Rare labels: each is trained on its own working set; one scan over all rows serves 16 of them.

The positive rows of a rare label and the negative rows near them are a few hundred rows, so passes over all rows would visit mostly
rows that are not support vectors. A label goes through turns, merge_rows with 15 others in the same turn:
1. The label is trained on its working set, initially its positive rows.
2. Its weights give an upper bound of every row's score. Weights of frequent columns are added in 16 lanes, which stay in the L2
   cache; weights of other columns through an index by column, and only where they are positive. The first turn uses only the rare
   columns, which finds rows that share rare words with the positive rows.
3. The first turns add the rows of the highest bounds to the working set. Later turns compute the exact scores of all rows whose
   bound reaches the margin, in float64 and with the weights as saved. All other rows have no loss, so this gives the exact
   objective and gap. The rows with the largest violations are added and rows with dual 0 are removed, until the label is done.

The result for a label depends on the label, the rows and the seed. The intercept is not moved at the end; a gap of at most RARE_GAP
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
from hpcml.kernels.lanes import WIDTHS, certify
from hpcml.kernels.lanes.bounds import raise_bounds, rows_above
from hpcml.kernels.rows import FREQUENT, transpose
from hpcml.methods.dual import rare_kernels as kernels
from hpcml.methods.dual.panel import LEAST_ROWS, DualPanel, Training, iterate_rounds
from hpcml.methods.linear.objective import aligned, panel_widths
from hpcml.methods.linear.solver import Finished, SparseWeightsOf, Turns
from hpcml.run.stop import Stop

# Measured on generated rows (`convert synthetic text`): 490,000 rows (41 million values) and 35,000 (3.6 million), labels of 2 to
# 70 rows.
#
# A label is rare if it has at most one positive row per so many values; at 600,000 it is no faster than in a panel.
VALUES_PER_POSITIVE = 1 << 20
# Rows that a turn adds: in the first turn, in later turns, and per positive row. The number doubles in later turns.
FIRST, MORE, EACH = 512, 512, 48
# Turns that select rows by bounds alone; 1 is as fast within the accuracy of the measurement.
BOUNDS_ONLY = 2
# Maximum passes over the working set in the first turns; doubled in each further turn, up to MOST_PASSES.
PASSES = (4, 4, 16)
# A turn of more than RECORDED passes is one line of the history.
MOST_PASSES, RECORDED = 4096, 512
# Minimum number of sampled rows whose bounds give the threshold of a turn.
SAMPLE = 2048
# Share of the tolerance that ends the passes over the working set.
WORKING_SET_TOLERANCE = 0.02
# Gradients that passes in float32 cannot reduce.
PRECISE = 4 * float(np.finfo(np.float32).eps)
# Relative gap of a finished label, as a share of the tolerance.
RARE_GAP = 0.05


@dataclass
class RareLabel(Training):
    """A label in training: its working set (ascending rows), duals, and the columns and values of its weights."""

    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    alpha: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    columns: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))


class CandidateRows(NamedTuple):
    """Rows of a certificate, ascending: duals, whether they have the label, float64 scores, and lines of `norms`."""

    rows: np.ndarray
    alpha: np.ndarray
    positive: np.ndarray
    z: np.ndarray
    norms: np.ndarray


def at_least_highest(values: np.ndarray, n: int) -> np.ndarray:
    """Return a mask of the `n` highest values, including ties."""
    if values.size <= n:
        return np.ones(values.size, np.bool_)
    return values >= np.partition(values, values.size - n)[values.size - n]


class RareLabelSolver:
    """Trains rare labels with the hinge or the squared hinge on one rank, in single precision."""

    def __init__(self, panel: DualPanel, finish_label: Callable[..., Finished | None], max_gap: float) -> None:
        self.panel, self.risk, self.norms, self.options = panel, panel.risk, panel.norms, panel.options
        self.ignored, self.pass_tolerance = panel.ignored, max(2 * panel.ignored, WORKING_SET_TOLERANCE)  # shares of the tolerance
        self.finish_label, self.max_gap = finish_label, min(max_gap, RARE_GAP * self.options.dual_tol)
        self.max_visits = self.options.step_limit * panel.risk.rows.n_global
        rows, (n, d) = self.risk.rows, (self.risk.rows.n_local, self.risk.rows.n_columns)
        self.csr = rows.indptr, rows.indices, rows.data
        self.n_frequent = min(FREQUENT, d - rows.bias)
        self.ends = np.empty(n, np.int64)
        kernels.frequent_ends(rows.indptr, rows.indices, self.n_frequent, self.ends)
        # Index by column of the rare columns; in files if the rows are.
        starts = np.concatenate([[0], np.cumsum(rows.counts[self.n_frequent : d - rows.bias], dtype=np.int64)])
        room = partial(shared_array, mpi.self_comm()) if rows.mapped else np.empty
        self.index = starts, room(int(starts[-1]), np.int32), room(int(starts[-1]), np.float32)
        transpose(self.ends, rows.indptr[1:], rows.indices, rows.data, self.n_frequent, starts[:-1].copy(), *self.index[1:])
        parts = panel.rows.parts
        self.any_sign = any((rows.data[rows.indptr[part.start] : rows.indptr[part.stop]] < 0).any() for part in parts)
        self.longest = int(np.diff(rows.indptr).max())
        self.room = np.zeros(d, np.float32), np.zeros(d), np.zeros(n, np.float32), *np.zeros((2, n), np.uint16)
        self.columns = np.empty(d, np.int32)
        self.candidates = CandidateRows(
            np.empty(n, np.int32), np.empty(n, np.float32), np.empty(n, np.uint16), np.empty(n), np.empty_like(self.norms)
        )
        self.width, self.counts = 1, np.zeros(WIDTHS[-1], np.int64)
        self.frequent = aligned(self.n_frequent * WIDTHS[-1], np.float32)  # weights of frequent columns
        self.bounds, self.selected = np.split(panel.scores.view(np.float32), 2)[0], np.split(panel.scores.view(np.int32), 2)[1]

    def solve(self, labels: Sequence[int], numbers: np.ndarray, n_lanes: int, stop: Stop) -> Turns:
        """Yield finished labels (indices into `numbers`). A turn scans all rows once. Raises Stopped, NonFiniteError."""
        tolerance, n = self.options.dual_tol, self.risk.rows.n_local
        for turn, lanes, unfinished in iterate_rounds(
            labels, lambda label: RareLabel(label, int(numbers[label]), tolerance), n_lanes, math.inf
        ):
            with self.risk.profile("compute"):
                squares, thresholds = self._fit(lanes, turn, stop)
                by_bounds = self._select_rows(lanes, turn, thresholds)
            done = list[Finished]()
            with self.risk.profile("finish"):
                for lane, label in stop.slices(enumerate(lanes)):
                    result, rows = None, self.selected[lane * n : lane * n + int(self.counts[lane])]
                    if by_bounds[lane]:
                        bounds = self.bounds[rows * np.int64(self.width) + lane]
                        rows = rows[at_least_highest(bounds, self._rows_to_add(label, turn))]
                        self._update_working_set(label, self._merge_rows(label, rows), rows)
                    else:
                        result = self._certify(label, rows, squares[lane], turn)
                    if result is None:
                        unfinished.append(label)
                    else:
                        done.append(result)
            yield done

    def _fit(self, lanes: list[RareLabel], turn: int, stop: Stop) -> tuple[np.ndarray, np.ndarray]:
        """Train each label on its working set. Return Σ w² before and after rounding, and the thresholds of bounds."""
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
            rows_left = max(0.0, self.max_visits - label.spent)
            steps = np.zeros((min(n_passes, math.ceil(rows_left / label.rows.size)), 3))
            state = label.rows, label.alpha, positives, label.columns, label.weights
            rules, tolerance = self._rules(label)[0], self.pass_tolerance * label.tolerance
            n, label.weights = kernels.fit(
                self.csr, self.norms, state, self.room, rules, tolerance, key, steps, self.columns, squares[lane]
            )
            label.columns = self.columns[: label.weights.size].copy()
            if n_passes <= RECORDED:
                for violation, n_active, moved in steps[:n].tolist():
                    label.record(violation, n_active, moved, stop.seconds)
            elif n:
                n_active, moved = steps[:n, 1:].sum(axis=0).tolist()
                label.record(steps[n - 1, 0], n_active, moved, stop.seconds, passes=n)
            label.spent += LEAST_ROWS * rows.n_local  # the scan of all rows
            weights = label.columns, label.weights
            intercepts[lane] = kernels.start_bounds(
                self.index, weights, self.n_frequent, self.any_sign, (w, bounds), self.width, lane
            )
        rounding = self.longest * np.finfo(np.float32).eps * np.sqrt(squares[:, 1]) * rows.max_norm
        for part in stop.slices(self.panel.rows.parts) if turn > 0 else ():  # add the frequent columns
            csr, width = (rows.indptr[part.start : part.stop + 1], rows.indices, rows.data), self.width
            raise_bounds(csr, self.ends[part], w, bounds[part.start * width : part.stop * width], width)
        return squares, -1 - rounding - 1e-6 - intercepts

    def _rules(self, label: RareLabel) -> tuple[np.ndarray, np.ndarray]:
        """Return the rules (flat) and costs (2, 1) of a panel of this label alone."""
        costs = self.panel.costs_of(label.number).reshape(2, 1)
        ignored = 0.0 if label.ignores_none else self.ignored * label.tolerance
        return self.panel.rules(costs, [ignored]).reshape(-1), costs

    def _select_rows(self, lanes: list[RareLabel], turn: int, margins: np.ndarray) -> np.ndarray:
        """Write the rows whose bounds reach the thresholds to `selected`. Return a mask of labels with raised thresholds."""
        n, width, by_bounds = self.risk.rows.n_local, self.width, np.zeros(len(lanes), np.bool_)
        bounds, selected = self.bounds[: n * width], self.selected[: n * width].reshape(width, n)
        thresholds = np.full(width, np.inf, np.float32)
        thresholds[: len(lanes)] = margins
        if turn < BOUNDS_ONLY:
            sample = np.sort(bounds.reshape(n, width)[:: max(1, n // SAMPLE)], axis=0)
            for lane, label in enumerate(lanes):
                position = sample.shape[0] - 1 - 2 * self._rows_to_add(label, turn) * sample.shape[0] // n
                highest = sample[position, lane] if position >= 0 else -np.inf
                least = thresholds[lane] if turn > 0 else np.finfo(np.float32).tiny  # most rows have a bound of 0 in the first turn
                by_bounds[lane] = turn == 0 or highest > least
                thresholds[lane] = max(highest, least)
        rows_above(bounds, thresholds, width, self.counts, selected)
        return by_bounds

    def _rows_to_add(self, label: RareLabel, turn: int) -> int:
        return ((FIRST if turn == 0 else MORE) + EACH * int(self.risk.rows.n_positive[label.number])) << max(0, turn - 1)

    def _merge_rows(self, label: RareLabel, rows: np.ndarray) -> CandidateRows:
        """Merge rows with the working set; scores and norms are not yet written."""
        state = label.rows, label.alpha, self.risk.rows.rows_of(label.number)
        n = kernels.merge_rows(rows, state, self.candidates[:3])
        return CandidateRows(*(array[:n] for array in self.candidates))

    def _update_working_set(self, label: RareLabel, candidates: CandidateRows, added: np.ndarray) -> None:
        mask = (candidates.alpha != 0) | (candidates.positive != 0)
        mask[np.searchsorted(candidates.rows, added)] = True
        label.rows, label.alpha = candidates.rows[mask], candidates.alpha[mask]

    def _certify(self, label: RareLabel, rows: np.ndarray, squares: np.ndarray, turn: int) -> Finished | None:
        """Return the label if it is done, else add violating rows to its working set. Raises NonFiniteError."""
        seen = self._merge_rows(label, rows)
        kernels.scores_of(self.csr, seen.rows, self.norms, (label.columns, label.weights), self.room[0], seen.z, seen.norms)
        rules, costs = self._rules(label)
        sums, near = np.zeros((certify.N_SUMS, 1)), np.zeros(seen.rows.size, np.uint16)
        tables, state = (rules, costs.reshape(-1), np.zeros(1)), (seen.z, seen.alpha)
        within = 0.0 if label.ignores_none else -self.ignored * label.tolerance  # gradients above it do not add a row
        certify.hinge_certify(state, seen.positive, seen.norms, tables, near, sums.reshape(-1), 1, within)
        losses, _, penalty = self.panel.losses(costs, sums)
        primal, bound = 0.5 * squares[1] + losses[0], sums[certify.ALPHA, 0] - 0.5 * squares[0] - penalty[0]
        certificate = float(primal), float(bound), float(sums[certify.MOST, 0] - sums[certify.LEAST, 0])
        unchanged = label.ignores_none and not label.any_dual_changed
        is_at_precision = unchanged or self.pass_tolerance * label.tolerance < PRECISE
        weights = label.columns, label.weights
        result = self.finish_label(label, costs[:, 0], certificate, is_at_precision, self.max_gap, lambda copy: weights)
        if result is not None:
            return result._replace(w=self._to_sparse(result.w))
        missing, most = np.flatnonzero((near != 0) & (seen.alpha == 0)), self._rows_to_add(label, turn)
        if missing.size > most:
            z = seen.z[missing]
            missing = missing[at_least_highest(np.where(seen.positive[missing] != 0, -z, z), most)]
        self._update_working_set(label, seen, seen.rows[missing])
        return None

    def _to_sparse(self, weights: Any) -> SparseWeightsOf:
        if isinstance(weights, tuple):
            order = np.argsort(weights[0])
            columns, values = weights[0][order], weights[1][order]
        else:
            columns = np.flatnonzero(weights).astype(np.int32)
            values = weights[columns]
        if self.risk.rows.bias and columns.size and columns[-1] == self.risk.rows.n_columns - 1:
            return SparseWeightsOf(columns[:-1], values[:-1], float(values[-1]))
        return SparseWeightsOf(columns, values, 0.0)
