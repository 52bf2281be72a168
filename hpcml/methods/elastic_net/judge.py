"""The judgement of a label's weights: objective, certified gap, and the gradient of all features.

Times m, the objective is Σ_i ℓ(x_i·w + b, y_i) + Λ₁‖w‖₁ + (Λ₂/2)‖w‖² with Λ = λ m. Most rows have neither the label nor any feature
whose weight is not 0. All of these have the margin b, so that they add one loss and one slope, many times: they are never visited.
Of the gradient they have a share of ℓ′(b) times (column sums of all rows − those of the touched rows).

The bound on the minimum is the dual objective at −s ℓ′: of the optimal intercept, so that it sums to 0; with s ≤ 1 such that no
feature's gradient is beyond Λ₁, or, where Λ₂ > 0, with s = 1 and what the conjugate of the penalty says of those that are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Self, cast

import numpy as np

from hpcml import mpi, slices
from hpcml.data.compact import CompactRows
from hpcml.data.shared_rows import shared_array
from hpcml.errors import OptionError
from hpcml.kernels import elementary
from hpcml.kernels.rows import transpose
from hpcml.log import named
from hpcml.methods.elastic_net import judge_kernels as kernels
from hpcml.methods.elastic_net.judge_kernels import RowLosses, Strengths, Vectors
from hpcml.methods.elastic_net.options import ElasticNetOptions, parse_l1
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.linear.solver import CONVERGED, STEP_LIMIT, Finished, SparseWeightsOf
from hpcml.model.linear import Model, SparseRows
from hpcml.model.open import model_file
from hpcml.partition import bounds_by_weight, offsets
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER, Stop

HISTORY = ("step", "f", "bound", "rows", "found", "weights", "seconds")  # features found beyond Λ₁; weights that are not 0
MAX_GAP = 1e-5  # of labels that are done
MOST = 0.2  # of the rows; for more the gradient is summed column by column, in half the time. 0.1 and 0.5 take up to a tenth longer
FREQUENT = 0.01  # of the rows, that a feature is in on average: measured 0.1 to 0.4 % of texts, 2 to 59 % where models are dense
ETAS = {("decaying", False): 12.0, ("decaying", True): 1.5, ("constant", False): 2.0, ("constant", True): 0.25}  # by squared


@dataclass(frozen=True)
class ColumnIndex:
    """The columns of all rows, ascending in each, and their sums."""

    columns: Vectors
    totals: np.ndarray  # (n_columns) float64
    by_size: np.ndarray  # columns, the largest |total| first


class ElasticRisk(Risk):
    """λ₁, λ₂, the rows, and the rows by columns."""

    shares_columns = False  # ‖w‖₁ changes when features are rotated
    index: ColumnIndex
    initial: Model | None = None  # whose weights the labels begin with
    places: np.ndarray  # of the labels of the run among that model's

    def __init__(self, rows: CompactRows, options: ElasticNetOptions, profile: Profile) -> None:
        super().__init__(rows, options, profile)
        self.l1 = parse_l1(options.l1, math.sqrt(rows.scale), rows.n_global)
        if self.l1 == self.lam == 0:
            raise OptionError("l1", options.l1, "expected a number above 0 if λ is 0, else there may be no minimum")
        squared, scale = options.loss == "squared", rows.scale
        if squared:
            scale = rows.max_norm * rows.max_norm  # the squared loss must suit the longest row
        default = 1.0
        if options.rate != "adagrad" and scale > 0:
            default = ETAS[options.rate, squared] / scale
        self.eta = default if options.eta is None else options.eta
        if options.solver == "sgd" and self.eta * self.lam >= 1:
            why = f"η λ is {self.eta * self.lam:.3g}; sgd needs less than 1: lower η, or use fobos"
            raise OptionError("eta", f"{self.eta:.3g}", why)
        self.about, self.initial_path = {"l1": self.l1}, options.initial_model
        self.matrix = Vectors(rows.indptr, rows.indices, rows.data)

    def at(self, options: LinearOptions) -> Self:
        """The same rows and index with other options. Raises ConfigError for a bad λ."""
        other = super().at(options)
        other.index = self.index
        return other

    def prepare(self, node: mpi.Comm) -> None:
        """Collective over `node`, whose ranks have the same rows, all of them. Each fills some columns of the index.

        Raises DataError if there is no room on the disk.
        """
        rows, indptr = self.rows, offsets(self.rows.counts)
        size = int(indptr[-1])
        found, values = (
            (np.empty(size, dtype) if node.size == 1 else shared_array(node, size, dtype)) for dtype in (np.int32, np.float32)
        )
        columns, bounds = Vectors(indptr, found, values), bounds_by_weight(indptr, node.size)
        first, last = (int(bound) for bound in bounds[node.rank : node.rank + 2])
        with mpi.agreed(node, "indexing the features"):
            places = indptr[first:last].copy()
            transpose(rows.indptr[:-1], rows.indptr[1:], rows.indices, rows.data, first, places, found, values)
        node.Barrier()
        with mpi.agreed(node, "indexing the features"):
            totals = np.zeros(rows.n_columns)
            kernels.column_totals(columns, totals)
            self.index = ColumnIndex(columns, totals, np.argsort(-np.abs(totals), kind="stable"))

    def warning(self) -> str:
        """That nearly every label touches all rows, where features are frequent. Local."""
        share = self.rows.data.size / max(1, self.rows.n_global * self.rows.n_columns)
        if share < FREQUENT or self.initial_path is not None:
            return ""
        return (
            f"a feature is in {100 * share:.0f} % of the rows, on average, so that a label touches nearly all of them: elastic-net "
            "is slow on such rows, and its models are hardly smaller; dual is faster"
        )

    def start_from(self, comm: mpi.Comm, names: list[str], origin: dict[str, object]) -> None:
        """Collective over `comm`. Open the initial model. Raises ConfigError or DataError."""
        if self.initial_path is None:
            return
        with mpi.agreed(comm, f"reading {self.initial_path}"):
            model = Model(model_file(self.initial_path))
            wanted = {"method": "elastic-net", **origin}
            if any(model.attrs.get(key) != value for key, value in wanted.items()):
                why = "expected a model of elastic-net with the same rows and the same λ"
                raise OptionError("initial_model", self.initial_path, why)
            known = {name: place for place, name in enumerate(model.label_names)}
            if missing := [name for name in names if name not in known]:
                raise OptionError("initial_model", self.initial_path, f"it has no label {named(missing[0])}")
            self.initial, self.places = model, np.array([known[name] for name in names])


def history_line(step: tuple[float, ...]) -> str:
    """The numbers of a step (`HISTORY`) as text."""
    number, f, bound, rows, found, weights, seconds = step
    return f"{number:.0f},{f:.17g},{bound:.17g},{rows:.0f},{found:.0f},{weights:.0f},{seconds:.3f}"


class Label:
    """One label in training: weights where they are not 0 (columns ascending), and the intercept.

    `touched` are the rows that may have another margin than the intercept, the label's own first; `z` are their margins.
    """

    def __init__(self, positives: np.ndarray, n_rows: int, squared: bool) -> None:
        share = positives.size / n_rows
        self.losses, self.touched = RowLosses(positives.size, n_rows, squared), positives.astype(np.int64)
        self.b = 2 * share - 1 if squared else elementary.log(share / (1 - share))
        self.columns, self.w = np.zeros(0, np.int64), np.zeros(0)
        self.z = np.full(positives.size, self.b)


class Local(NamedTuple):
    """The values of the touched rows in some columns: by columns, and the rows in their slots."""

    matrix: Vectors
    touched: np.ndarray


def local_matrix(n_columns: int, size: int) -> Vectors:
    """Allocate a local matrix with `size` values."""
    return Vectors(np.zeros(n_columns + 1, np.int64), np.empty(size, np.int32), np.empty(size, np.float32))


class View(NamedTuple):
    """The judgement of a label's weights; f and its relative gap are m times the objective's."""

    found: np.ndarray  # columns not in use whose gradient is beyond Λ₁, the farthest first
    beyond: float  # by how much at most
    f: float
    gap: float
    visited: int  # rows


class Judge:
    """Objective, gap and gradient of one label after the other. Making one is local; raises MemoryError."""

    def __init__(self, risk: ElasticRisk, options: ElasticNetOptions) -> None:
        rows = risk.rows
        self.stop: Stop = NEVER  # of the labels that are being trained
        self.risk, self.squared = risk, options.loss == "squared"
        asked = MAX_GAP if options.max_gap is None else options.max_gap
        self.max_gap = asked if options.solver == "newton" else math.inf  # at which a label is done
        self.n_rows, self.l1, self.l2 = rows.n_global, risk.l1 * rows.n_global, risk.lam * rows.n_global
        self.strengths = Strengths(self.l1, self.l2)
        self.sums, self.met = np.zeros(rows.n_columns), np.empty(rows.n_columns, np.int64)
        self.slot_of, self.slots = np.full(rows.n_local, -1, np.int32), np.empty(rows.n_local, np.int64)
        self.factors = np.empty(rows.n_local)
        self.in_use = np.zeros(rows.n_columns, np.bool_)
        self.above, self.excess = np.empty(rows.n_columns, np.int64), np.empty(rows.n_columns)

    def start(self, number: int, place: int | None = None) -> Label:
        """A label (its number in the data), with the initial weights of its `place` in the run, if there are any."""
        label, initial = Label(self.risk.rows.rows_of(number), self.n_rows, self.squared), self.risk.initial
        if initial is not None and place is not None:
            row = int(self.risk.places[place])
            indices, w = cast("SparseRows", initial.W).row(row)
            columns = indices.astype(np.int64)
            self.take_weights(label, self.gather(label, columns), columns, w.astype(np.float64), float(initial.bias[row]))
        return label

    def gather(self, label: Label, chosen: np.ndarray) -> Local:
        """The rows with the label or one of the chosen columns: their values in these columns."""
        columns, n = self.risk.index.columns, label.losses.n_positive
        matrix = local_matrix(chosen.size, int((columns.indptr[chosen + 1] - columns.indptr[chosen]).sum()))
        self.slots[:n] = label.touched[:n]
        self.slot_of[label.touched[:n]] = np.arange(n, dtype=np.int32)
        touched = self.slots[: kernels.gather(chosen, columns, self.slot_of, self.slots, n, matrix)].copy()
        self.slot_of[touched] = -1
        return Local(matrix, touched)

    def take_weights(self, label: Label, local: Local, chosen: np.ndarray, w: np.ndarray, b: float) -> None:
        """Give the label these weights, as they will be saved, and the best intercept then."""
        w = w.astype(self.risk.weight_type).astype(np.float64)
        z = np.empty(local.touched.size)
        kernels.margins(local.matrix, w, b, z)
        b = kernels.centre(z, b, label.losses)
        kept, moved = w != 0, z != b
        moved[: label.losses.n_positive] = True
        order = np.argsort(chosen[kept])
        label.columns, label.w, label.b = chosen[kept][order], w[kept][order], b
        label.touched, label.z = local.touched[moved], z[moved]

    def look(self, label: Label) -> View:
        """Objective, gap and gradient at the label's weights. Raises Stopped."""
        index, losses = self.risk.index, label.losses
        changed, factors = np.empty(label.z.size, np.int64), np.empty(label.z.size)
        n_changed = kernels.slopes_of(label.z, label.touched, label.b, losses, changed, factors)
        changed, factors, rows, n_met = changed[:n_changed], factors[:n_changed], self.risk.rows, 0
        try:
            # Σ factor · row of the changed rows, and the columns met: row by row, or column by column.
            if n_changed <= MOST * rows.n_local:
                n_values = n_changed * rows.data.size // max(1, rows.n_local)
                for some in self.stop.slices(slices.row_slices(n_changed, n_values)):
                    n_met = kernels.add_rows(self.risk.matrix, changed[some], factors[some], self.sums, self.met, n_met)
            else:
                self.factors[:] = 0.0
                self.factors[changed] = factors
                for some in self.stop.slices(slices.row_slices(self.sums.size, rows.data.size)):
                    span = (some.start, some.stop)
                    n_met = kernels.add_columns(index.columns, *span, self.factors, self.sums, self.met, n_met)
            self.in_use[label.columns] = True
            base = kernels.loss_at(label.b, -1.0, self.squared)[1]
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
        return View(self.above[:n_above][order], float(excess.max(initial=0.0)), f, gap, n_changed)

    def finished(self, place: int, number: int, label: Label, view: View, steps: int, visited: float, history: list) -> Finished:
        """The label as the run takes it; `visited`: rows of all steps. Raises NonFiniteError."""
        self.risk.check_finite(np.array([view.f]), "objective", np.array([number]))
        weights = SparseWeightsOf(label.columns, label.w.astype(self.risk.weight_type), label.b)
        status = CONVERGED if view.gap <= self.max_gap else STEP_LIMIT
        share = visited / max(1, steps) / self.n_rows
        return Finished(place, weights, view.f / self.n_rows, status, steps, share, history, view.gap)
