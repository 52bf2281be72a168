"""Dual coordinate descent for many labels at once: hinge and squared hinge, certified by the duality gap.

LIBLINEAR's algorithm (Hsieh et al. 2008, Algorithm 1 with shrinking, and its stopping rule) minimises ½‖w‖² + Σ C_i ℓ, which with
C_i = c_i / (λ m) is f(w) / λ for rows of weight c_i. Here it runs for the labels of a panel at once (`kernels.dual`), all of which
begin together. Four things differ:
- A label begins with the solution of the label that no row has, which it differs from by its positive rows.
- Most passes visit a label's support vectors only: its working set (Blitz, Johnson & Guestrin 2015, choose one by bounds). A few
  passes over all rows bring what it lacks. Gradients that are small beside the tolerance cause no step.
- All rows are looked at in one pass at the end, in float64 and with the weights as they are saved: the gradients tell whether the
  label is done, and the same pass gives the objective and the gap. A label that is not done goes on with what this pass has found.
  The intercept of a label that is done is then moved to where the objective is least: a margin of 1 is where most rows lie.
- Labels go through rounds of a bounded number of passes. Those that are not done after one share the next with others of its kind.
- On several ranks that share the rows, each takes the steps of its own rows, and their sum is applied after every pass (CoCoA+,
  Ma et al. 2015, with its safe σ′ = number of ranks and γ = 1).

A label's path depends on the label, the rows and the seed, not on which labels share its panel.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

import numpy as np

from hpcml import mpi, rng, slices
from hpcml.errors import NonFiniteError
from hpcml.kernels.lanes import certify, combine, epoch
from hpcml.methods.dual import kernels
from hpcml.methods.dual.chunks import CHUNK_VALUES, AllRows, Chunk, StreamedRows, Wanted
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.dual.panel import HALF, LIMITS, MOVES, NO_POSITIVES, Costs, DualPanel, State, Training
from hpcml.methods.linear.block import Finished
from hpcml.methods.linear.objective import Risk, aligned, panel_widths

ORDER_BYTES = 1 << 28  # of random orders that are kept for the next panels


class DualBlock:
    """The labels of a group of ranks (`hpcml.methods.linear.run.Block`)."""

    packing = None  # a panel that is not done begins anew

    def __init__(self, risk: Risk, labels: np.ndarray, n_lanes: int, options: DualOptions, max_steps: int) -> None:
        """`labels` are the numbers in the data of all labels of the run. Raises MemoryError."""
        self.risk, self.labels, self.options, self.max_steps = risk, labels, options, max_steps
        self.tolerance = options.dual_tol
        self.max_gap = math.inf if options.max_gap is None else options.max_gap
        self.n_lanes = min(n_lanes, panel_widths(16, options.precision)[0])
        self.costs = Costs(risk, options)
        rows = risk.rows
        self.norms = np.empty((rows.n_local, 2), risk.weight_type)
        if not risk.comm.size * rows.largest_step <= LIMITS[options.precision]:
            norm = math.sqrt(rows.largest_step)
            raise NonFiniteError(f"a row's norm is {norm:.3g}, beyond {options.precision} precision; scale the data")
        kernels.norms(rows.indptr, rows.data, rows.weights if rows.weights is not None else np.zeros(0), self.norms)
        self.rows = AllRows(rows, CHUNK_VALUES)
        if risk.chunk_values:
            self.rows = StreamedRows(rows, risk.chunk_values, risk.kept_values)
        self._looked_at = np.empty(rows.n_local, np.int32)
        self.order_bytes = 0 if risk.chunk_values else ORDER_BYTES
        self.orders: dict[tuple[int, int], np.ndarray] = {}
        (width,) = panel_widths(self.n_lanes, options.precision)
        self.exact = aligned(rows.n_columns * min(width, HALF), np.float64)  # room for weights in float64
        self.scores = aligned(rows.n_local * width, np.float64)  # room for the certificate's
        for label in labels[(rows.n_positive[labels] > 0) & (rows.n_positive[labels] < rows.n_global)].tolist():
            self.costs.of(label)  # an error now, not after hours
        self.waiting: deque[int] = deque()
        self.panel: DualPanel | None = None
        self.between: dict[int, list[Training]] = {}  # labels that need another round, by its number
        self.start: State | None = None

    @property
    def busy(self) -> bool:
        """Whether there is anything left to train."""
        return self.panel is not None or bool(self.waiting or self.between)

    @mpi.collective
    def new_panel(self, lanes: list[Training], number: int = 0) -> DualPanel:
        """Collective for labels that begin. Labels that go through round `number` together. Raises MemoryError."""
        return DualPanel(self, lanes, number)

    def fill(self) -> None:
        """Nothing: labels begin together when those before have left."""

    @mpi.collective
    def settle(self) -> None:
        """Collective. Nothing is ever on its way."""

    def order(self, number: int, sweep: int) -> np.ndarray:
        """The order of the rows of a pass, a function of the seed, the round and the pass. Local."""
        if (number, sweep) not in self.orders:
            rows = self.risk.rows
            key = rng.bits(self.options.seed, "order of rows", np.array([number << 32 | sweep]))[0]
            found = np.empty(rows.n_local, np.int32)
            bounds = self.rows.bounds
            kernels.shuffle(found, bounds, np.empty(bounds.size - 1, np.int64), key)
            if (len(self.orders) + 1) * found.nbytes > self.order_bytes:
                return found
            self.orders[number, sweep] = found
        return self.orders[number, sweep]

    def visits(self, order: np.ndarray, active: np.ndarray, kept: Wanted) -> Iterator[tuple[Chunk, np.ndarray]]:
        """The active rows in this order, slice by slice: a chunk, and rows of it. `kept`: see `StreamedRows`. Local."""
        rows = self.risk.rows
        step = slices.rows_in_slice(rows.n_local, rows.data.size)
        for chunk, some in self.rows.chunks(order, lambda own: active[own] != 0, kept):
            n = kernels.looked_at(some, active, self._looked_at)
            found, first_row = self._looked_at[:n], chunk.own.start
            found = found - first_row if first_row else found
            for first in range(0, n, step):
                yield chunk, found[first : first + step]

    def warm_up(self) -> None:
        """Compile the kernels for these types. Local."""
        rows, dtype, width = self.risk.rows, self.risk.weight_type, 1
        csr, none = (rows.indptr[:1], rows.indices[:0], rows.data[:0]), np.zeros(0, dtype)
        some, bits, doubles = aligned(epoch.N_RULES, dtype), np.zeros(0, np.uint16), np.zeros(0)
        flat, order, norms = np.zeros(2, np.int64), np.zeros(0, np.int32), self.norms[:0]
        kernels.shuffle(order, flat, np.zeros(1, np.int64), np.uint64(0))
        kernels.looked_at(order, bits, order)
        kernels.pack(*csr, np.zeros(0, np.bool_), np.zeros(1, np.int64), *csr[1:])
        epoch.hinge_epoch(*csr, order, norms, none, none, bits, bits, some, some, flat, width, False)
        combine.hinge_combine(*csr, norms, none, bits, np.zeros(2), 1, 0, 1, doubles)
        kernels.scores(*csr, none, doubles, width, False)
        kernels.slopes(doubles, bits, norms, np.zeros(2), False, MOVES, np.zeros(MOVES.size))
        certify.hinge_certify(doubles, none, bits, norms, some, np.zeros(2), np.zeros(1), bits, np.zeros(certify.N_SUMS), 1, 0.0)
        combine.keep(doubles, 1, none, 1, 0, np.zeros(2))
        kernels.depart(*csr, flat[:0], norms, none, none, none, 1, 0)

    @mpi.collective
    def turn(self, seconds: float) -> list[Finished]:
        """Collective over the group. One pass over the active rows of a panel; the labels that are done.

        Raises Stopped: the labels of the panel are to begin anew.
        """
        if self.panel is None:
            with self.risk.profile("compute"):
                self.panel = self._next_panel()
        self.panel.epoch(seconds)
        if self.start is None:
            if not self.panel.goes_on:
                self.start, self.panel = State(self.panel.w, self.panel.alpha), None
            return []
        if self.panel.goes_on:
            return []
        finished, others = self.panel.certify()
        if others:
            self.between.setdefault(self.panel.round + 1, []).extend(others)
        self.panel = None
        return finished

    @mpi.collective
    def _next_panel(self) -> DualPanel:
        """Collective. Labels of one round, if they fill a panel or become many, else new ones, else as many as there are."""
        if self.start is None:
            return self.new_panel([Training(NO_POSITIVES, NO_POSITIVES, self.tolerance)])
        number = max(self.between, key=lambda number: len(self.between[number]), default=0)
        full = number and len(self.between[number]) >= self.n_lanes
        if self.waiting and not full and sum(map(len, self.between.values())) < self.n_lanes:
            places = [self.waiting.popleft() for _ in range(min(self.n_lanes, len(self.waiting)))]
            return self.new_panel([Training(place, int(self.labels[place]), self.tolerance) for place in places])
        labels = self.between.pop(number)
        if labels[self.n_lanes :]:
            self.between[number] = labels[self.n_lanes :]
        return self.new_panel(labels[: self.n_lanes], number)
