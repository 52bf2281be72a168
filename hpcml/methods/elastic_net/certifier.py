"""Objective, certified gap and gradient of a label's weights.

Times m, the objective is Σ_i ℓ(x_i·w + b, y_i) + Λ₁‖w‖₁ + (Λ₂/2)‖w‖² with Λ = λ m. Most rows are negative and have no feature with
a non-zero weight. Their margin is b, so they contribute the same loss and slope and are never visited. Their part of the gradient
is ℓ′(b) times (column sums of all rows − those of the touched rows).

The bound on the minimum is the dual objective at −s ℓ′, where the optimal intercept makes ℓ′ sum to 0. The factor s ≤ 1 is chosen
so that no feature's gradient exceeds Λ₁; for Λ₂ > 0 the bound with s = 1 and the conjugate of the penalty is also computed.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from hpcml import mpi, slices
from hpcml.data.compact import CompactRows
from hpcml.data.shared_rows import shared_array
from hpcml.errors import OptionError
from hpcml.kernels import elementary
from hpcml.kernels.rows import transpose
from hpcml.log import named
from hpcml.methods.elastic_net import certifier_kernels as kernels
from hpcml.methods.elastic_net.certifier_kernels import RowLosses, Strengths, Vectors
from hpcml.methods.elastic_net.options import ElasticNetOptions, parse_l1
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.linear.solver import CONVERGED, STEP_LIMIT, Finished, SparseWeightsOf
from hpcml.model.linear import Model
from hpcml.model.open import model_file
from hpcml.partition import bounds_by_weight, offsets
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER, Stop

HISTORY = ("step", "f", "bound", "rows", "found", "weights", "seconds")  # found: violating features; weights: non-zero
MAX_GAP = 1e-5  # default of --max-gap
# Share of touched rows above which the gradient is summed by columns, in half the time; 0.1 and 0.5 take up to a tenth longer.
MOST = 0.2
# Mean feature frequency above which training warns; measured 0.1 to 0.4 % for texts, 2 to 59 % where models are dense.
FREQUENT = 0.01
ETAS = {("decaying", False): 12.0, ("decaying", True): 1.5, ("constant", False): 2.0, ("constant", True): 0.25}  # by squared


@dataclass(frozen=True)
class ColumnIndex:
    columns: Vectors  # rows ascending in each
    totals: np.ndarray  # (n_columns) column sums, float64
    by_size: np.ndarray  # columns by descending |total|


class ElasticRisk(Risk):
    shares_columns = False  # ‖w‖₁ changes when features are rotated
    index: ColumnIndex
    initial: Model | None = None
    initial_rows: np.ndarray  # rows of the initial model by label of the run

    def __init__(self, rows: CompactRows, options: ElasticNetOptions, profile: Profile) -> None:
        super().__init__(rows, options, profile)
        self.l1 = parse_l1(options.l1, math.sqrt(rows.scale), rows.n_global)
        if self.l1 == self.lam == 0:
            raise OptionError("l1", options.l1, "expected a number above 0, because λ is 0 and there may be no minimum")
        squared, scale = options.loss == "squared", rows.scale
        if squared:
            scale = rows.max_norm * rows.max_norm  # steps of the squared loss depend on the longest row
        default = 1.0
        if options.rate != "adagrad" and scale > 0:
            default = ETAS[options.rate, squared] / scale
        self.eta = default if options.eta is None else options.eta
        if options.solver == "sgd" and self.eta * self.lam >= 1:
            why = f"η λ is {self.eta * self.lam:.3g}; sgd needs less than 1 (lower --eta or use fobos)"
            raise OptionError("eta", f"{self.eta:.3g}", why)
        self.about, self.initial_path = {"l1": self.l1}, options.initial_model
        self.matrix = Vectors(rows.indptr, rows.indices, rows.data)

    def at(self, options: LinearOptions) -> Self:
        other = super().at(options)
        other.index = self.index
        return other

    def prepare(self, node: mpi.Comm) -> None:
        """Index the rows by columns; the ranks of `node` share the work. Collective; raises DataError if the disk is full."""
        rows, indptr = self.rows, offsets(self.rows.counts)
        size = int(indptr[-1])
        row_numbers, values = (
            (np.empty(size, dtype) if node.size == 1 else shared_array(node, size, dtype)) for dtype in (np.int32, np.float32)
        )
        columns, bounds = Vectors(indptr, row_numbers, values), bounds_by_weight(indptr, node.size)
        first, last = (int(bound) for bound in bounds[node.rank : node.rank + 2])
        with mpi.agreed(node, "indexing the features"):
            positions = indptr[first:last].copy()
            transpose(rows.indptr[:-1], rows.indptr[1:], rows.indices, rows.data, first, positions, row_numbers, values)
        node.Barrier()
        with mpi.agreed(node, "indexing the features"):
            totals = np.zeros(rows.n_columns)
            kernels.column_totals(columns, totals)
            self.index = ColumnIndex(columns, totals, np.argsort(-np.abs(totals), kind="stable"))

    def warning(self) -> str:
        share = self.rows.data.size / max(1, self.rows.n_global * self.rows.n_columns)
        if share < FREQUENT or self.initial_path is not None:
            return ""
        return (
            f"features occur in {100 * share:.0f} % of the rows on average; elastic-net is slow on such rows and its models are "
            "hardly smaller (dual is faster)"
        )

    def start_from(self, comm: mpi.Comm, names: list[str], origin: dict[str, object]) -> None:
        if self.initial_path is None:
            return
        with mpi.agreed(comm, f"reading {self.initial_path}"):
            model = Model(model_file(self.initial_path))
            expected = {"method": "elastic-net", **origin}
            if any(model.attrs.get(key) != value for key, value in expected.items()):
                why = "expected an elastic-net model of the same rows and the same λ"
                raise OptionError("initial_model", self.initial_path, why)
            known = {name: row for row, name in enumerate(model.label_names)}
            if missing := [name for name in names if name not in known]:
                raise OptionError("initial_model", self.initial_path, f"it has no label {named(missing[0])}")
            self.initial, self.initial_rows = model, np.array([known[name] for name in names])


class LabelState:
    """A label in training: non-zero weights (ascending columns), intercept, touched rows (positive first) and their margins z."""

    def __init__(self, positives: np.ndarray, n_rows: int, squared: bool) -> None:
        share = positives.size / n_rows
        self.losses, self.touched = RowLosses(positives.size, n_rows, squared), positives.astype(np.int64)
        self.b = 2 * share - 1 if squared else elementary.log(share / (1 - share))
        self.columns, self.w = np.zeros(0, np.int64), np.zeros(0)
        self.z = np.full(positives.size, self.b)


class WorkingRows(NamedTuple):
    """Values of the touched rows in the working set of features, by columns; rows are numbered by slot."""

    matrix: Vectors
    touched: np.ndarray


def local_matrix(n_columns: int, size: int) -> Vectors:
    return Vectors(np.zeros(n_columns + 1, np.int64), np.empty(size, np.int32), np.empty(size, np.float32))


class Certificate(NamedTuple):
    violating: np.ndarray  # unused columns whose gradient exceeds Λ₁, largest excess first
    beyond: float  # largest excess
    f: float  # times m
    gap: float  # relative
    visited: int  # rows


class Certifier:
    """Computes objective, gap and gradient of one label after another. The constructor raises MemoryError."""

    def __init__(self, risk: ElasticRisk, options: ElasticNetOptions) -> None:
        rows = risk.rows
        self.stop: Stop = NEVER
        self.risk, self.squared = risk, options.loss == "squared"
        max_gap_option = MAX_GAP if options.max_gap is None else options.max_gap
        self.max_gap = max_gap_option if options.solver == "newton" else math.inf
        self.n_rows, self.l1, self.l2 = rows.n_global, risk.l1 * rows.n_global, risk.lam * rows.n_global
        self.strengths = Strengths(self.l1, self.l2)
        self.sums, self.met = np.zeros(rows.n_columns), np.empty(rows.n_columns, np.int64)
        self.slot_of, self.slots = np.full(rows.n_local, -1, np.int32), np.empty(rows.n_local, np.int64)
        self.factors = np.empty(rows.n_local)
        self.in_use = np.zeros(rows.n_columns, np.bool_)
        self.above, self.excess = np.empty(rows.n_columns, np.int64), np.empty(rows.n_columns)

    def start(self, number: int, index: int | None = None) -> LabelState:
        """Return the initial state of a label (`number` in the data, `index` in the run, for weights of an initial model)."""
        label, initial = LabelState(self.risk.rows.rows_of(number), self.n_rows, self.squared), self.risk.initial
        if initial is not None and index is not None:
            row = int(self.risk.initial_rows[index])
            indices, w = initial.row(row)
            columns = indices.astype(np.int64)
            self.set_weights(label, self.gather(label, columns), columns, w.astype(np.float64), float(initial.bias[row]))
        return label

    def gather(self, label: LabelState, chosen: np.ndarray) -> WorkingRows:
        columns, n = self.risk.index.columns, label.losses.n_positive
        matrix = local_matrix(chosen.size, int((columns.indptr[chosen + 1] - columns.indptr[chosen]).sum()))
        self.slots[:n] = label.touched[:n]
        self.slot_of[label.touched[:n]] = np.arange(n, dtype=np.int32)
        touched = self.slots[: kernels.gather(chosen, columns, self.slot_of, self.slots, n, matrix)].copy()
        self.slot_of[touched] = -1
        return WorkingRows(matrix, touched)

    def set_weights(self, label: LabelState, local: WorkingRows, chosen: np.ndarray, w: np.ndarray, b: float) -> None:
        """Set the label's weights, rounded as they will be saved, and the best intercept for them."""
        w = w.astype(self.risk.weight_type).astype(np.float64)
        z = np.empty(local.touched.size)
        kernels.margins(local.matrix, w, b, z)
        b = kernels.centre(z, b, label.losses)
        nonzero, moved = w != 0, z != b
        moved[: label.losses.n_positive] = True
        order = np.argsort(chosen[nonzero])
        label.columns, label.w, label.b = chosen[nonzero][order], w[nonzero][order], b
        label.touched, label.z = local.touched[moved], z[moved]

    def evaluate(self, label: LabelState) -> Certificate:
        """Compute objective, gap and gradient at the label's weights. Raises Stopped."""
        index, losses, rows, n_met = self.risk.index, label.losses, self.risk.rows, 0
        slopes, curves = np.empty((2, label.z.size))
        kernels.slopes_at(label.z, losses.n_positive, losses.is_squared, slopes, curves)
        base = kernels.loss_at(label.b, -1.0, self.squared)[1]  # ℓ′ of untouched rows
        changed, factors = label.touched[slopes != base], slopes[slopes != base] - base
        try:
            # Σ factor · row of the changed rows, and the columns that occur in them.
            if changed.size <= MOST * rows.n_local:
                n_values = changed.size * rows.data.size // max(1, rows.n_local)
                for part in self.stop.slices(slices.row_slices(changed.size, n_values)):
                    n_met = kernels.add_rows(self.risk.matrix, changed[part], factors[part], self.sums, self.met, n_met)
            else:
                self.factors[:] = 0.0
                self.factors[changed] = factors
                for part in self.stop.slices(slices.row_slices(self.sums.size, rows.data.size)):
                    span = (part.start, part.stop)
                    n_met = kernels.add_columns(index.columns, *span, self.factors, self.sums, self.met, n_met)
            self.in_use[label.columns] = True
            tables = (index.totals, index.by_size, base, self.l1, self.in_use, self.above, self.excess)
            n_above, largest, squares = kernels.screen(self.sums, self.met[:n_met], *tables)
            self.in_use[label.columns] = False
        finally:
            self.sums[self.met[:n_met]] = 0.0
        f = kernels.value(label.z, label.b, losses) + self.l1 * np.abs(label.w).sum() + 0.5 * self.l2 * np.square(label.w).sum()
        scale = min(1.0, self.l1 / largest) if largest > 0 else 1.0
        bound = kernels.dual_value(label.z, label.b, losses, scale)
        if self.l2 > 0 and scale < 1:
            bound = max(bound, kernels.dual_value(label.z, label.b, losses, 1.0) - squares / (2 * self.l2))
        excess = self.excess[:n_above]
        order = np.argsort(-excess, kind="stable")
        gap = max(0.0, f - bound) / max(f, 1e-300)
        return Certificate(self.above[:n_above][order], float(excess.max(initial=0.0)), f, gap, changed.size)

    def finish(
        self, index: int, number: int, label: LabelState, certificate: Certificate, steps: int, visited: float, history: list
    ) -> Finished:
        """Return the finished label; `visited` counts rows over all steps. Raises NonFiniteError."""
        f, gap = certificate.f, certificate.gap
        self.risk.check_finite(np.array([f]), "objective", np.array([number]))
        weights = SparseWeightsOf(label.columns, label.w.astype(self.risk.weight_type), label.b)
        status = CONVERGED if gap <= self.max_gap else STEP_LIMIT
        share = visited / max(1, steps) / self.n_rows
        return Finished(index, weights, f / self.n_rows, status, steps, share, history, gap)
