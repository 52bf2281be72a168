"""Exact solver: an active set of features and proximal Newton steps on the touched rows.

A round selects features whose gradient exceeds Λ₁, fits all features in use by Newton steps (coordinate descent on the quadratic
model and a line search), and computes the gradient of all features (`certifier`), which gives the certified gap and the features of
the next round. Rows without the label and without any of these features only add hessian to the intercept. The rows of a feature
are read from the column index, of which the ranks of a node share one copy.

If a round needs features that cover most of the rows, it uses passes of dual coordinate ascent (`Ascent`) instead, followed by
Newton steps if these do not suffice.

A label's result depends on the label and the rows; the bits are the same on any number of ranks.
"""

import math
from collections.abc import Sequence

import numpy as np

from hpcml import rng, slices
from hpcml.kernels.rows import transpose
from hpcml.methods.elastic_net import ascent_kernels
from hpcml.methods.elastic_net import newton_kernels as kernels
from hpcml.methods.elastic_net.ascent_kernels import PROXIMAL, Duals
from hpcml.methods.elastic_net.certifier import MAX_GAP, Certificate, Certifier, ElasticRisk, LabelState, WorkingRows, local_matrix
from hpcml.methods.elastic_net.certifier_kernels import Strengths, Vectors, loss_at, margins, value
from hpcml.methods.elastic_net.options import ElasticNetOptions
from hpcml.methods.linear.solver import Solver, Turns
from hpcml.partition import offsets
from hpcml.run.stop import Stop

# CPU seconds of 5 labels of Reuters and 13 of MeSH, frequent and rare, at the default strengths: 2.2, 4.2 with these values (± 10
# %). All end with certified gaps below the required 1e-5.
#     FIRST   20: 2.6, 5.0    1000: 3.1, 5.0        STEP_REDUCTION   0.02: 3.3, 5.9   0.5: 1.6, 3.4 (tried last; would change bits)
#     VALUES   1: 2.4, 4.5       8: 2.7, 4.8        REFRESH_RATIO     0.1: 2.5, 4.3   0.7: 1.9, 4.0
#     DENSE  300: 2.4, 4.3    3000: 2.8, 5.0        ROUND_TOLERANCE  0.01: 3.0, 6.7   0.5: 2.1, 4.1
#                                                   FINAL_TOLERANCE   0.1: 2.5, 5.0   0.9: 2.2, 5.0
FIRST = 100  # maximum features of the first round; later rounds may double the number of features
STEPS = 100  # maximum Newton steps of a round
VALUES = 2  # values of the first round's new features per value of the label's rows; doubles in each round
DENSE, LARGEST = 1500, 3000  # features up to which the Hessian is a matrix: always, and with many values
SWEEPS = 200  # maximum sweeps of coordinate descent in a step
LONG = 300_000_000  # maximum values visited by the sweeps of a step
# Conditions for `Ascent`: number of features in use and candidates, in the first rounds and after two rounds, and their share of
# all values. Seconds of labels by ascent and by Newton steps, after two rounds: 1,150 features (docstrings) 0.07, 0.08; 1,240
# (generated) 0.13, 0.15; 1,350 (Reuters) 0.05, 0.06; 960 (generated) 0.19, 0.11. In the first round the number is less reliable:
# 3,100 (docstrings) 0.08, 0.03. The 8 most frequent labels of Reuters (3,300 weights each): 1.4 s with ascent, 3.4 s without. All
# labels of Reuters: 4.5 s; 7.3 s if every label starts with ascent, 6.0 s without it.
WIDE_AT_FIRST, WIDE, SHARE = 6000, 1100, 0.3
STEP_REDUCTION = 0.1  # violation that a step may leave in its quadratic model
REFRESH_RATIO = 0.3  # the Hessian is recomputed when a step leaves more of the violation
ROUND_TOLERANCE = 0.1  # violation that ends a round, as a share of the largest excess of an unused feature
FINAL_TOLERANCE = 0.3  # the same as a share of the required gap, when no feature is missing
# A Newton round that lowers f by less than this share of the required (or default) gap has reached the precision of the weights.
STALL_RATIO = 1e-3

RUN = 16  # consecutive rows of ascent; single rows take twice the time among 35,000 rows, 64 a few more passes
PASSES = 4  # of ascent between two certificates
# Maximum rounds of ascent before Newton steps. Mean CPU seconds over 12 orders of rows (Reuters, labels of 100 rows or more): 2.0;
# with 16, 20, 24 and 40 rounds 2.5, 2.3, 2.3 and 2.4. Single orders take 1.7 to 2.9 s, because the first passes amplify rounding
# errors.
ROUNDS = 12
STIFF = 1000.0  # ascent needs a mean squared row norm of at most this multiple of Λ₂


class Hessian:
    """The Hessian of a label's last step, reused until steps become slow, and the rows' curvatures in it."""

    rows: Vectors  # the local matrix of the round, by rows
    n_valid = 0  # columns of the matrix that are valid in this round

    def __init__(self, n_rows: int) -> None:
        self.of_rows = np.full(n_rows, np.nan)
        self.touched = np.zeros(0, np.int64)
        self.base, self.columns, self.H = 0.0, np.zeros(0, np.int64), np.zeros((1, 1))

    def reset(self) -> None:
        self.columns = np.zeros(0, np.int64)

    def start_round(self, chosen: np.ndarray, local: WorkingRows, n_rows: int, l2: float) -> None:
        """Start a round with these columns; entries of the leading columns that were already in use are kept."""
        indptr, columns, values = local.matrix
        ends = offsets(np.bincount(columns, minlength=local.touched.size))
        self.rows = Vectors(ends, np.empty_like(columns), np.empty_like(values))
        transpose(indptr[:-1], indptr[1:], columns, values, 0, ends[:-1].copy(), self.rows.indices, self.rows.values)
        old, H = self.columns, self.H
        self.columns, self.H = chosen, np.empty((chosen.size + 1, chosen.size + 1))
        order = np.argsort(old)
        positions = np.searchsorted(old, chosen, sorter=order)
        is_old = positions < old.size
        is_old[is_old] = old[order[positions[is_old]]] == chosen[is_old]
        n = int(np.argmin(is_old)) if not is_old.all() else chosen.size
        valid = order[positions[:n]]
        self.H[:n, :n] = H[np.ix_(valid, valid)]
        self.H[n:, -1] = self.H[-1, n:] = 0.0
        self.H[:n, -1] = self.H[-1, :n] = H[valid, -1]
        self.n_valid = n
        if n:
            curves = self.of_rows[local.touched]
            curves[np.isnan(curves)] = self.base
            kernels.gram(self.rows, curves, (n_rows - local.touched.size) * self.base, l2, n, self.H)

    def update(self, touched: np.ndarray, curves: np.ndarray, base: float, others: float, l2: float) -> None:
        """Recompute the matrix from ℓ″ of the touched rows (`curves`), of an untouched row (`base`) and of all untouched rows."""
        self.of_rows[self.touched] = np.nan
        self.of_rows[touched] = curves
        self.touched, self.base, self.n_valid = touched, base, self.columns.size
        kernels.gram(self.rows, curves, others, l2, 0, self.H)


def violation(gradient: np.ndarray, w: np.ndarray, strengths: Strengths) -> float:
    """Return the largest distance of 0 from the subdifferential over weights and intercept."""
    l1, l2 = strengths
    g = gradient[:-1] + l2 * w
    distances = np.where(w == 0, np.abs(g) - l1, np.abs(g + np.copysign(l1, w)))
    return float(distances.max(initial=abs(gradient[-1])))


class Ascent:
    """Dual coordinate ascent for labels whose features cover most of the rows.

    For Λ₂ > 0, the minimum has w = soft(v, Λ₁) / Λ₂ with v = Σ α x, and the duals α = −ℓ′ maximise a smooth dual objective
    (Shalev-Shwartz & Zhang 2014, proximal SDCA). A visit of a row finds its best α assuming that the set of features in use does
    not change; the theory's steps for all features are too short when few are in use. The intercept has no Λ₂: a proximal term ½ σ
    (b − b₀)² holds it, and b₀ becomes b after each pass (proximal point method), so that Σ α = 0 at the end. Rows come in runs of
    16 consecutive rows for memory locality, in an order keyed by the seed and the pass. The weights are certified like those of
    Newton steps.
    """

    rounds = 0  # of the current label
    b = 0.0

    def __init__(self, certifier: Certifier) -> None:
        rows = certifier.risk.rows
        self.certifier, self.strengths = certifier, certifier.strengths
        self.possible = rows.scale <= STIFF * certifier.l2
        size = rows.n_local if self.possible else 0
        self.duals, self.v = Duals(*np.empty((4, size))), np.empty(rows.n_columns if self.possible else 0)
        if self.possible:
            ascent_kernels.squares_of(certifier.risk.matrix, self.duals.squares)

    def run_round(self, label: LabelState) -> None:
        """Make PASSES passes over the rows and set the label's weights. Raises Stopped."""
        duals, (l1, l2), rows, stop = self.duals, self.strengths, self.certifier.risk.rows, self.certifier.stop
        n = rows.n_local
        if not self.rounds:
            duals.signs[:] = -1.0
            duals.signs[label.touched[: label.losses.n_positive]] = 1.0
            duals.values[:], duals.logits[:], self.v[:], self.b = 0.0, -math.inf, 0.0, label.b
        for number in range(PASSES * self.rounds, PASSES * (self.rounds + 1)):
            keys = rng.bits(self.certifier.risk.seed, f"runs of rows, pass {number}", np.arange(-(-n // RUN)))
            order = (RUN * np.argsort(keys, kind="stable")[:, None] + np.arange(RUN)).ravel()
            order = order[order < n]
            for part in stop.slices(slices.row_slices(n, rows.data.size)):
                self.visit(order[part])
            self.b += float(duals.values.sum()) / PROXIMAL
        self.rounds += 1
        columns = np.flatnonzero(np.abs(self.v) > l1)
        w = (self.v[columns] - np.clip(self.v[columns], -l1, l1)) / l2
        self.certifier.set_weights(label, self.certifier.gather(label, columns), columns, w, self.b)

    def visit(self, order: np.ndarray) -> None:
        self.b = ascent_kernels.ascend(
            self.certifier.risk.matrix, order, self.duals, self.v, self.b, self.strengths, self.certifier.squared
        )


class NewtonSolver(Solver):
    """Trains the labels of one rank, one after another; it has no state to checkpoint."""

    one_by_one = True

    def __init__(self, risk: ElasticRisk, labels: np.ndarray, n_lanes: int, options: ElasticNetOptions) -> None:
        self.risk, self.labels, self.max_steps, self.certifier = risk, labels, options.step_limit, Certifier(risk, options)
        self.hessian, self.ascent = Hessian(risk.rows.n_local), Ascent(self.certifier)

    def compile_rest(self, risk: ElasticRisk) -> None:
        self.ascent.visit(np.zeros(0, np.int64))
        empty, d = np.zeros(0), np.zeros(1)
        kernels.solve_sparse(local_matrix(0, 0), empty, 0.0, d, empty, Strengths(1.0, 1.0), 1.0, 1, d.copy())

    def solve(self, labels: Sequence[int], stop: Stop) -> Turns:
        certifier = self.certifier
        certifier.stop = stop
        for index in labels:
            number, visited, best, history = int(self.labels[index]), 0, math.inf, list[tuple[float, ...]]()
            with self.risk.profile("compute"):
                label = certifier.start(number, index)
                self.hessian.reset()
                self.ascent.rounds = 0
                newton = False  # the last round was a Newton round, which never raises f
                for step in range(1, self.max_steps + 1):
                    certificate = certifier.evaluate(label)
                    visited, f, gap = visited + certificate.visited, certificate.f / certifier.n_rows, certificate.gap
                    counts = certificate.visited, certificate.violating.size, label.w.size
                    history.append((step, f, (1 - gap) * f, *counts, stop.seconds))
                    stalled = newton and certificate.f >= best * (1 - STALL_RATIO * min(certifier.max_gap, MAX_GAP))
                    best = certificate.f
                    if gap <= certifier.max_gap or step == self.max_steps or stalled:
                        break
                    newton = not 0 < self.ascent.rounds < ROUNDS
                    candidates = np.concatenate([label.columns, certificate.violating])
                    if self.ascent.possible and not self.ascent.rounds and candidates.size > (WIDE if step > 2 else WIDE_AT_FIRST):
                        indptr = self.risk.index.columns.indptr
                        newton = int((indptr[candidates + 1] - indptr[candidates]).sum()) <= SHARE * self.risk.rows.data.size
                    if newton:
                        self._newton_round(label, certificate, step)
                    else:
                        self.ascent.run_round(label)
            yield [certifier.finish(index, number, label, certificate, step, visited, history)]

    def _newton_round(self, label: LabelState, certificate: Certificate, step: int) -> None:
        """Fit the weights in use and some candidates by Newton steps. Raises Stopped."""
        certifier, hessian, n_used, b = self.certifier, self.hessian, label.columns.size, label.b
        losses, strengths, squared = label.losses, certifier.strengths, certifier.squared
        # Prefer candidates with few rows, and allow more in later rounds: frequent features often have a large gradient until the
        # specific features of the label are in use.
        rows, indptr = self.risk.rows, self.risk.index.columns.indptr
        budget = min((VALUES << step) * losses.n_positive * (1 + rows.data.size // rows.n_local), rows.data.size)
        added = certificate.violating[: max(FIRST, n_used)]
        added = added[: max(1, int(np.searchsorted(np.cumsum(indptr[added + 1] - indptr[added]), budget, "right")))]
        chosen = np.concatenate([label.columns, added])
        local, w = certifier.gather(label, chosen), np.concatenate([label.w, np.zeros(chosen.size - n_used)])
        final_tolerance, matrix = FINAL_TOLERANCE * certifier.max_gap * (certifier.l1 or 1.0), local.matrix
        tolerance = max(final_tolerance, ROUND_TOLERANCE * certificate.beyond)
        z, slopes, curves = np.empty((3, local.touched.size))
        gradient, d = np.empty((2, chosen.size + 1))
        n, n_values = chosen.size, matrix.values.size
        if dense := n <= DENSE or (n <= LARGEST and n * n <= 4 * n_values):
            hessian.start_round(chosen, local, certifier.n_rows, certifier.l2)
        margins(matrix, w, b, z)
        sweeps, near = min(SWEEPS, 10 + LONG // (matrix.values.size + 1)), True
        total, worst = value(z, b, losses), math.inf
        for _ in range(STEPS):
            others = kernels.derivatives(matrix, z, b, losses, slopes, curves, gradient)
            before, worst = worst, violation(gradient, w, strengths)
            if worst <= tolerance:
                break
            step_tolerance = 0.1 * min(worst, tolerance) if squared else STEP_REDUCTION * worst
            if dense:
                if not hessian.n_valid or (near and worst > REFRESH_RATIO * before):
                    hessian.update(local.touched, curves, loss_at(b, -1.0, squared)[2], others, certifier.l2)
                near = kernels.solve_dense(hessian.H, gradient, w, strengths, step_tolerance, SWEEPS, d)
            else:
                kernels.solve_sparse(matrix, curves, others, gradient, w, strengths, step_tolerance, sweeps, d)
            b, total = kernels.search(matrix, z, b, losses, w, d, gradient, strengths, total)
            for _ in certifier.stop.slices(()):  # checks whether to stop
                pass
        if dense and not hessian.n_valid:  # no step was taken
            hessian.reset()
        certifier.set_weights(label, local, chosen, w, b)
