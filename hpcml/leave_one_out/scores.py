"""Counts of the leave-one-out scores of trained labels, up to 16 in one pass over the rows.

1. One pass in float32 gives the scores of all rows for all labels. Rows whose scores may exceed −1, and the positive rows, get
   exact scores in float64. All other rows have no slack and count in the first cell.
2. H₋ᵢ is replaced by its diagonal, without the part of row i. (The diagonal with row i has leverages above 1 for sparse rows.)
   Up to FEW positive rows P with slack hold each other up, so only the part of the negative rows is replaced by its diagonal D:
   with M = ½ C⁻¹ + P D⁻¹ Pᵀ, ξ_i without row i is ξ_i / (½ C_i⁻¹ [M⁻¹]_ii).
3. Rows of length 1: a new row loses the features of no training row before it is scaled to length 1, but a training row keeps those
   that only it has. So the distance of a score from the intercept is divided by the length of the part that other rows know.

Sums run over ascending rows in float64, so counts depend on the weights only.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.data.compact import CompactRows
from hpcml.kernels.lanes import WIDTHS
from hpcml.kernels.lanes.bounds import raise_bounds, rows_above
from hpcml.leave_one_out import kernels
from hpcml.leave_one_out.cells import EDGES, N_CELLS
from hpcml.partition import entries_of, offsets

LENGTH_TOLERANCE = 1e-4  # of rows that count as scaled to length 1
# Root mean square difference of positive rows from exact refits, for labels of 2 to 10, 11 to 64 and more positive rows:
#     training scores      Reuters 0.96, 0.73, 0.58    MeSH 1.21, 1.08, 0.96    debian_depends 0.61, 0.54, 0.48
#     diagonal                     0.21, 0.12, 0.10         0.11, 0.10, 0.08                   0.43, 0.39, 0.18
#     exact (FEW = 400)            0.15, 0.08, 0.08         0.11, 0.10, 0.09                   0.37, 0.36, 0.09
# With P D⁻¹ Pᵀ scaled so that the mean score without all positive rows is −1: Reuters 0.15, 0.21, 0.30; MeSH 0.11,
# 0.28, 0.49. The time grows with the cube: 8 ms for 256 rows.
FEW = 256
LEAST_KNOWN = 0.2  # smallest length of a known part


class LabelWeights(NamedTuple):
    number: int  # in the data
    costs: np.ndarray  # (2) C of positive and of negative rows of weight 1
    columns: np.ndarray
    weights: np.ndarray  # as stored, of these columns
    intercept: float  # weight of the last column of rows with a bias, not in `columns`
    above: np.ndarray | None = None  # ascending rows that include all with scores above −1, if known


class LeaveOneOut:
    def __init__(self, rows: CompactRows, parts: Callable[[], Iterable[slice]]) -> None:
        """`parts` returns this rank's rows in slices. Collective over `rows.comm`; raises MemoryError."""
        self.rows, self.parts, n, d = rows, parts, rows.n_local, rows.n_columns
        self.csr = rows.indptr, rows.indices, rows.data
        self.lanes, self.w, self.sums = np.zeros(d * WIDTHS[-1], np.float32), np.zeros(d), np.zeros(d)
        self.room = np.empty(n, np.int64), np.empty(n, np.bool_), np.empty(n)
        self.longest = int(np.diff(rows.indptr).max(initial=0))
        squares = np.zeros((2, n))
        for part in parts():
            kernels.known_lengths(self._csr_of(part), rows.counts[: d - rows.bias], squares[:, part])
        other = (np.abs(squares[0] - 1) > LENGTH_TOLERANCE) & (squares[0] > 0)
        self.stretch = np.ones(n)  # 1 / length of the known part
        if not mpi.agreed_any(rows.comm, bool(other.any())):
            self.stretch /= np.sqrt(np.maximum(squares[1] / np.maximum(squares[0], 1e-300), LEAST_KNOWN * LEAST_KNOWN))
            self.stretch[squares[0] == 0] = 1

    def _csr_of(self, part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.rows.indptr[part.start : part.stop + 1], self.rows.indices, self.rows.data

    def count(self, labels: Sequence[LabelWeights], slices: Callable[[Iterable[slice]], Iterable[slice]]) -> list[np.ndarray]:
        """Return the counts (2, N_CELLS) of rows and of positive rows of at most 16 labels. Collective over `rows.comm`.

        `slices` checks between parts of the rows whether to stop.
        """
        found, out = iter(self._rows_above([label for label in labels if label.above is None], slices)), []
        for label in labels:
            _, positive, scores = self._leave_out(label, next(found) if label.above is None else label.above)
            counts, cells = np.empty((2, N_CELLS), np.int64), np.searchsorted(EDGES, scores, "right")
            counts[0], counts[1] = np.bincount(cells, minlength=N_CELLS), np.bincount(cells[positive], minlength=N_CELLS)
            mpi.allreduce_sum(self.rows.comm, counts)
            counts[0, 0] += self.rows.n_global - counts[0].sum()
            out.append(counts)
        return out

    def _rows_above(self, labels: Sequence[LabelWeights], slices: Any) -> list[np.ndarray]:
        """Return, for each label, the rows whose scores may exceed −1."""
        if not labels:
            return []
        rows, width = self.rows, min(each for each in WIDTHS if each >= len(labels))
        w = self.lanes[: rows.n_columns * width]
        w[:] = 0
        thresholds = np.full(width, np.inf, np.float32)
        for lane, label in enumerate(labels):
            kernels.put(label.columns, label.weights, w, lane, width)
            norm = np.sqrt(np.square(label.weights, dtype=np.float64).sum() + label.intercept * label.intercept)
            thresholds[lane] = -1 - self.longest * np.finfo(np.float32).eps * norm * rows.max_norm - 1e-6
            if rows.bias:
                w[lane - width] = label.intercept
        found: list[list[np.ndarray]] = [[] for _ in labels]
        for part in slices(self.parts()):
            n, counts = part.stop - part.start, np.zeros(width, np.int64)
            bounds, selected = np.zeros(n * width, np.float32), np.empty((width, n), np.int32)
            csr = self._csr_of(part)
            raise_bounds(csr, csr[0][1:], w, bounds, width)
            rows_above(bounds, thresholds, width, counts, selected)
            for lane, parts in enumerate(found):
                parts.append(selected[lane, : counts[lane]] + np.int64(part.start))
        return [np.concatenate([np.zeros(0, np.int64), *parts]) for parts in found]

    def _leave_out(self, label: LabelWeights, above: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return this rank's positive rows and rows with slack, whether they are positive, and their leave-one-out scores."""
        rows, w = self.rows, self.w
        kernels.put(label.columns, label.weights, w, 0, 1)
        if rows.bias:
            w[-1] = label.intercept
        n = kernels.score_rows(self.csr, above, rows.rows_of(label.number), w, *self.room)
        kernels.put(label.columns, np.zeros_like(label.weights), w, 0, 1)
        w[-1] = 0
        chosen, positive, scores = self.room[0][:n], self.room[1][:n], self.room[2][:n]
        costs = np.where(positive, *label.costs) * (1.0 if rows.weights is None else rows.weights[chosen])
        slack = 1 - np.where(positive, scores, -scores)
        held = positive & (slack > 0)
        kernels.add_squares(self.csr, chosen[~positive], costs[~positive], self.sums)
        if (few := self._gather(chosen[held], costs[held], slack[held])) is None:
            kernels.add_squares(self.csr, chosen[held], costs[held], self.sums)
            mpi.allreduce_sum(rows.comm, self.sums)
            kernels.leave_out(self.csr, chosen, costs, self.sums, slack)
        else:
            first, csr, *of_few = few
            mpi.allreduce_sum(rows.comm, self.sums)
            without = kernels.leave_out_positives(csr, *of_few, self.sums, w)
            kernels.add_squares(csr, np.arange(without.size), of_few[0], self.sums)
            slack[held] = 0
            kernels.leave_out(self.csr, chosen, costs, self.sums, slack)
            slack[held] = without[first : first + np.count_nonzero(held)]
        n_positive = int(rows.n_positive[label.number])
        for side, n in ((positive, n_positive), (~positive, rows.n_global - n_positive)):
            if n == 1:
                slack[side] = 2  # a label without positive, or negative, rows gets a constant model
        if rows.comm.size > 1:
            self.sums[:] = 0
        kernels.clear(self.csr, chosen, self.sums)
        scores = np.where(positive, 1 - slack, slack - 1)
        return chosen, positive, (scores - label.intercept) * self.stretch[chosen] + label.intercept

    def _gather(self, chosen: np.ndarray, costs: np.ndarray, slack: np.ndarray) -> tuple[Any, ...] | None:
        """Return the place of this rank's rows, and rows, costs and slack of all ranks; None if there are more than FEW rows."""
        comm, (sizes, entries) = self.rows.comm, entries_of(self.rows.indptr, chosen)
        (first,), (total,) = mpi.exclusive_sum(comm, [sizes.size]) if comm.size > 1 else ([0], [sizes.size])
        if total > FEW:
            return None
        arrays = [sizes, self.rows.indices[entries], self.rows.data[entries], costs, slack]
        if comm.size > 1:
            arrays = [np.concatenate(mpi.allgather_arrays(comm, each)) for each in arrays]
        return first, (offsets(arrays[0]), *arrays[1:3]), *arrays[3:]
