"""Rare labels: each is trained on its own working set; one scan over all rows serves 16 of them.

The positive rows of a rare label and the negative rows near them are a few hundred rows, so passes over all rows would visit mostly
rows that are not support vectors. A label goes through turns, together with 15 others in the same turn:
1. The label is trained on its working set, initially its positive rows.
2. Its weights give an upper bound of every row's score. Weights of frequent columns are added in 16 lanes, which stay in the L2
   cache; weights of other columns through an index by column, and only where they are positive.
3. If many rows reach the margin, those of the highest bounds are added to the working set. Otherwise, or if the rows added before
   changed nothing, the exact scores of all rows whose bound reaches the margin are computed, in float64 and with the weights as
   saved. All other rows have no loss, so this gives the exact objective and gap. The rows with the largest violations are added.
   Rows with dual 0 are removed, until the label is done.

Tried and rejected:
- a first turn with the weights of rare columns only: one more turn, same time;
- MORE of 256 or 64 rows: same time;
- shrinking instead of passes over support vectors: 3 times as many row visits;
- frequent weights in 16-bit integers with bounds of their rounding: scan 0.8 times as long, but 1.9 times as many rows reach the
  margin and 1.1 times as many turns;
- negative weights of rare columns as well: 0.76 times as many turns on generated rows, which take 2.2 times as long;
- exact scores from the second turn on: 0.9 times as many turns, 0.7 on generated rows, same time or longer;
- half or twice as many frequent columns: same time.

The result for a label depends on the label, the rows and the seed. The intercept is not moved at the end; a gap of at most RARE_GAP
is required instead.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from hpcml import mpi, rng
from hpcml.data.shared_rows import shared_array
from hpcml.kernels.lanes import WIDTHS, certify, epoch
from hpcml.kernels.lanes.bounds import raise_bounds, rows_above
from hpcml.kernels.rows import FREQUENT, transpose
from hpcml.methods.dual import rare_kernels as kernels
from hpcml.methods.dual.panel import LEAST_ROWS, DualPanel, Training, iterate_rounds
from hpcml.methods.linear.objective import aligned, panel_widths
from hpcml.methods.linear.solver import Finished, SparseWeightsOf, Turns
from hpcml.run.stop import Stop

# Measured on 39,973 rows (1.8 million values) of package descriptions with 28,544 labels.
#
# A label is rare if it has at most RARE_ROWS positive rows, or one per VALUES_PER_POSITIVE values; none on fewer values.
# Milliseconds per label in a panel and alone: 664,378 values (MeSH), 1 to 7 rows: 0.4, 0.8; 1.8 million, 2 to 7 rows: 2.2, 1.0,
# 8 to 63 rows: 3.1, 2.0; 7.6 million (generated), 8 to 31 rows: 8.3, 7.8, 32 to 63 rows: 14, 19.
VALUES_PER_POSITIVE, RARE_ROWS = 1 << 20, 32
# Rows that a turn adds, plus EACH per positive row; at least as many as there are support vectors. EACH of 16: 5.7 turns per label
# of generated rows instead of 4.0, and 1.2 times as long; of 96: 3.4 turns, same time.
MORE, EACH = 128, 64
# Maximum passes over the working set in the first two turns; doubled in each further turn, up to MOST_PASSES.
PASSES, MOST_PASSES = 8, 4096
# Minimum number of sampled rows whose bounds give the threshold of a turn.
SAMPLE = 2048
# Share of the tolerance that ends the passes over the working set.
WORKING_SET_TOLERANCE = 0.4
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
    positives: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    costs: np.ndarray = field(default_factory=lambda: np.zeros((2, 1)))
    rules: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))  # of a panel of this label alone
    n_added: int = 0  # rows that a turn adds
    has_grown: bool = True  # the last turn added rows that changed the solution

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.rows, self.alpha, self.positives, self.columns, self.weights


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
        index = starts, room(int(starts[-1]), np.int32), room(int(starts[-1]), np.float32)
        transpose(self.ends, rows.indptr[1:], rows.indices, rows.data, self.n_frequent, starts[:-1].copy(), *index[1:])
        parts = panel.rows.parts
        any_sign = any((rows.data[rows.indptr[part.start] : rows.indptr[part.stop]] < 0).any() for part in parts)
        self.index = *index, any_sign
        self.longest = int(np.diff(rows.indptr).max())
        self.room = np.zeros(d, np.float32), np.zeros(d), np.zeros(n, np.float32), *np.zeros((2, n), np.uint16)
        self.columns = np.empty(d, np.int32)
        kinds = np.int32, np.float32, np.uint16, np.uint16, np.float64
        self.candidates = *(np.empty(n, kind) for kind in kinds), np.empty_like(self.norms)
        self.width, self.counts = 1, np.zeros(WIDTHS[-1], np.int64)
        self.frequent = aligned(self.n_frequent * WIDTHS[-1], np.float32)  # weights of frequent columns
        self.bounds, self.selected = np.split(panel.scores.view(np.float32), 2)[0], np.split(panel.scores.view(np.int32), 2)[1]

    def solve(self, labels: Sequence[int], numbers: np.ndarray, n_lanes: int, stop: Stop) -> Turns:
        """Yield finished labels (indices into `numbers`). A turn scans all rows once. Raises Stopped, NonFiniteError."""
        n = self.risk.rows.n_local
        for turn, lanes, unfinished in iterate_rounds(
            labels, lambda label: self._make(label, int(numbers[label])), n_lanes, math.inf
        ):
            with self.risk.profile("compute"):
                totals = self._fit(lanes, turn, stop)
                by_bounds = self._select_rows(lanes, turn, totals)
            done = list[Finished]()
            with self.risk.profile("finish"):
                for lane, label in stop.slices(enumerate(lanes)):
                    result, rows = None, self.selected[lane * n : lane * n + int(self.counts[lane])]
                    if by_bounds[lane]:
                        bounds = self.bounds[rows * np.int64(self.width) + lane]
                        self._add_rows(label, rows[at_least_highest(bounds, label.n_added)])
                    else:
                        result = self._certify(label, rows, totals[lane])
                    if result is None:
                        unfinished.append(label)
                    else:
                        done.append(result)
            yield done

    def _make(self, label: int, number: int) -> RareLabel:
        rows, costs = self.risk.rows.rows_of(number), self.panel.costs_of(number).reshape(2, 1)
        made = RareLabel(label, number, self.options.dual_tol, rows=rows.astype(np.int32), alpha=np.zeros(rows.size, np.float32))
        made.positives, made.costs, made.rules = rows, costs, self.panel.rules(costs, [0.0]).reshape(-1)
        return made

    def _fit(self, lanes: list[RareLabel], turn: int, stop: Stop) -> np.ndarray:
        """Train each label on its working set, and compute the bounds of all rows. Return the `totals` of the labels."""
        rows = self.risk.rows
        (self.width,) = panel_widths(len(lanes), "single")
        w, bounds = self.frequent[: self.n_frequent * self.width], self.bounds[: rows.n_local * self.width]
        w[:], bounds[:] = 0.0, 0.0
        n_passes = min(MOST_PASSES, PASSES << min(max(0, turn - 1), 20))
        key = rng.bits(self.options.seed, "order of rows", np.array([turn]))[0]
        totals = np.zeros((len(lanes), kernels.N_TOTALS))
        for lane, label in stop.slices(enumerate(lanes)):
            rows_left, tolerance = max(0.0, self.max_visits - label.spent), self.pass_tolerance * label.tolerance
            label.rules[epoch.IGNORED] = self._ignored(label)
            n, label.weights = kernels.fit(
                self.csr,
                self.norms,
                label.arrays,
                self.room,
                label.rules,
                tolerance,
                min(n_passes, math.ceil(rows_left / label.rows.size)),
                key,
                self.columns,
                totals[lane],
                self.index,
                (w, bounds),
                self.width,
                lane,
            )
            label.columns = self.columns[: label.weights.size].copy()
            violation, n_visited, n_moved = totals[lane, :3].tolist()
            if n:
                label.record(violation, n_visited, n_moved, stop.seconds, passes=n)
            label.spent += LEAST_ROWS * rows.n_local  # the scan of all rows
            label.n_added = max(MORE + EACH * label.positives.size, int(np.count_nonzero(label.alpha)))
            label.has_grown = turn == 0 or n > 1
        for part in stop.slices(self.panel.rows.parts):  # add the frequent columns
            csr, width = (rows.indptr[part.start : part.stop + 1], rows.indices, rows.data), self.width
            raise_bounds(csr, self.ends[part], w, bounds[part.start * width : part.stop * width], width)
        return totals

    def _ignored(self, label: RareLabel) -> float:
        return 0.0 if label.ignores_none else self.ignored * label.tolerance

    def _select_rows(self, lanes: list[RareLabel], turn: int, totals: np.ndarray) -> np.ndarray:
        """Write the rows whose bounds reach the margin to `selected`. Return a mask of the labels that get the highest ones only.

        These are labels whose last turn has changed the solution, and with more rows than twice what a turn adds.
        """
        n, width, by_bounds = self.risk.rows.n_local, self.width, np.zeros(len(lanes), np.bool_)
        bounds, selected = self.bounds[: n * width], self.selected[: n * width].reshape(width, n)
        rounding = self.longest * np.finfo(np.float32).eps * np.sqrt(totals[:, kernels.ROUNDED]) * self.risk.rows.max_norm
        thresholds = np.full(width, np.inf, np.float32)
        thresholds[: len(lanes)] = -1 - rounding - 1e-6 - totals[:, kernels.INTERCEPT]
        sample = bounds.reshape(n, width)[:: max(1, n // SAMPLE)].T.copy()
        for lane, label in enumerate(lanes):
            if not label.has_grown:
                continue
            position = sample.shape[1] - 1 - 2 * label.n_added * sample.shape[1] // n
            highest = np.partition(sample[lane], position)[position] if position >= 0 else -np.inf
            by_bounds[lane] = highest > thresholds[lane]
            thresholds[lane] = max(highest, thresholds[lane])
        rows_above(bounds, thresholds, width, self.counts, selected)
        return by_bounds

    def _add_rows(self, label: RareLabel, rows: np.ndarray) -> None:
        """Add ascending rows to the working set, and remove rows with dual 0."""
        n = kernels.merge_rows(rows, label.arrays[:3], self.candidates[:3], False)
        label.rows, label.alpha = (array[:n].copy() for array in self.candidates[:2])

    def _certify(self, label: RareLabel, rows: np.ndarray, totals: np.ndarray) -> Finished | None:
        """Return the label if it is done, else add violating rows to its working set. Raises NonFiniteError."""
        sums, costs = np.zeros((certify.N_SUMS, 1)), label.costs
        tables, within = (label.rules, costs.reshape(-1), np.zeros(1)), -self._ignored(label)  # gradients above it do not add a row
        n = kernels.certify(self.csr, self.norms, rows, label.arrays, self.room, self.candidates, tables, sums.reshape(-1), within)
        losses, _, penalty = self.panel.losses(costs, sums)
        before, after = totals[[kernels.SQUARES, kernels.ROUNDED]].tolist()
        primal, bound = 0.5 * after + losses[0], sums[certify.ALPHA, 0] - 0.5 * before - penalty[0]
        certificate = float(primal), float(bound), float(sums[certify.MOST, 0] - sums[certify.LEAST, 0])
        unchanged = label.ignores_none and not label.any_dual_changed
        is_at_precision = unchanged or self.pass_tolerance * label.tolerance < PRECISE
        weights: Any = label.columns, label.weights
        result = self.finish_label(label, costs[:, 0], certificate, is_at_precision, self.max_gap, lambda copy: weights)
        if result is not None:
            above = self.candidates[0][:n].copy() if result.w is weights else None
            return result._replace(w=self._to_sparse(result.w), above=above)
        seen, alpha, positive, near, scores, _ = (array[:n] for array in self.candidates)
        missing = np.flatnonzero((near != 0) & (alpha == 0))
        if missing.size > label.n_added:
            z = scores[missing]
            missing = missing[at_least_highest(np.where(positive[missing] != 0, -z, z), label.n_added)]
        self._add_rows(label, seen[missing])
        return None

    def _to_sparse(self, weights: Any) -> SparseWeightsOf:
        if isinstance(weights, tuple):
            # One number per weight, column first: sorting numbers takes a third of the time of sorting positions.
            both = np.sort(weights[0].astype(np.uint64) << np.uint64(32) | weights[1].view(np.uint32))
            columns, values = (both >> np.uint64(32)).astype(np.int32), both.astype(np.uint32).view(np.float32)
        else:
            columns = np.flatnonzero(weights).astype(np.int32)
            values = weights[columns]
        if self.risk.rows.bias and columns.size and columns[-1] == self.risk.rows.n_columns - 1:
            return SparseWeightsOf(columns[:-1], values[:-1], float(values[-1]))
        return SparseWeightsOf(columns, values, 0.0)
