"""The exact solver: an active set of features, and proximal Newton steps on the rows touched.

A round chooses features whose gradient is beyond Λ₁, finds the weights of all that are in use by Newton steps (coordinate descent
on the quadratic model, a line search), and computes the gradient of all features (`judge`): this gives the certified gap and the
features of the next round. Rows that hold none of these features, and not the label, add curvature to the intercept alone. Which
rows hold a feature is read from the columns of all rows, of which the ranks of a node share one copy.

Where a round needs features that cover most of the rows, passes of dual coordinate ascent take its
place (`Ascent`), and Newton steps go on from there if these do not suffice.

A label's path depends on the label and the rows only: the bits are the same on any number of ranks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hpcml import rng, slices
from hpcml.kernels.rows import transpose
from hpcml.methods.elastic_net import ascent_kernels
from hpcml.methods.elastic_net import newton_kernels as kernels
from hpcml.methods.elastic_net.ascent_kernels import PROXIMAL, Duals
from hpcml.methods.elastic_net.judge import MAX_GAP, ElasticRisk, Judge, Label, Local, View, local_matrix
from hpcml.methods.elastic_net.judge_kernels import Strengths, Vectors, loss_at, margins, value
from hpcml.methods.elastic_net.options import ElasticNetOptions
from hpcml.methods.linear.solver import Solver, Turns
from hpcml.partition import offsets
from hpcml.run.stop import Stop

# Seconds of the processor of 5 labels of Reuters and 13 of MeSH, frequent and rare, at the default strengths: 2.2, 4.2 with these
# values, give or take a tenth. All end with certified gaps below the 1e-5 that was asked.
#     FIRST   20: 2.6, 5.0    1000: 3.1, 5.0        GOAL  0.02: 3.3, 5.9   0.5: 1.6, 3.4 (tried last; models keep their bits)
#     VALUES   1: 2.4, 4.5       8: 2.7, 4.8        SLOW   0.1: 2.5, 4.3   0.7: 1.9, 4.0
#     DENSE  300: 2.4, 4.3    3000: 2.8, 5.0        LOOSE 0.01: 3.0, 6.7   0.5: 2.1, 4.1
#                                                   TIGHT  0.1: 2.5, 5.0   0.9: 2.2, 5.0
FIRST = 100  # features of the first round at most; later rounds add as many as there are, or so many
STEPS = 100  # Newton steps of a round
VALUES = 2  # that the first round's features may have, for each value of the label's rows; twice as many in each round after it
DENSE, LARGEST = 1500, 3000  # columns of a working set whose curvature is kept as a matrix: always, and where there are many rows
SWEEPS = 200  # of coordinate descent in a step at most
LONG = 300_000_000  # values that the sweeps of a step may visit
# When passes over all rows (`Ascent`) take the place of Newton steps: the features in use and wanted, at the first look and after
# two rounds, and their share of all values. Seconds of labels there and by Newton steps, after two rounds: 1,150 features
# (docstrings) 0.07, 0.08; 1,240 (generated) 0.13, 0.15; 1,350 (Reuters) 0.05, 0.06; 960 (generated) 0.19, 0.11. At the first look
# fewer say little: 3,100 (docstrings) 0.08, 0.03. The 8 most frequent labels of Reuters (3,300 weights each): 1.4 s with these
# passes, 3.4 s without. All labels of Reuters: 4.5 s; 7.3 s if every label begins with these passes, 6.0 s without them.
WIDE_AT_FIRST, WIDE, SHARE = 6000, 1100, 0.3
GOAL = 0.1  # what a step may leave of the violation, in its quadratic model
SLOW = 0.3  # of the violation left by a step; then the curvature is taken anew
LOOSE = 0.1  # what a round's weights may fall short by, as a share of the worst feature left out
TIGHT = 0.3  # and, when none is left out, of what is asked of the label
VAIN = 1e-3  # of the gap asked, or of the default: less than this share of f a round gains only where precision allows no more

RUN = 16  # rows; single rows take twice the time among 35,000 rows, 64 a few more passes
PASSES = 4  # between two judgements
# Rounds of passes at most, before Newton steps take over. Of 12 orders of rows (Reuters, labels of 100 rows or more) the seconds of
# the processor are 2.0 on average; with 16, 20, 24 and 40 rounds 2.5, 2.3, 2.3 and 2.4. The first passes amplify last bits, so
# rounding decides how many Newton steps a label needs: single orders take 1.7 to 2.9 s.
ROUNDS = 12
STIFF = 1000.0  # times Λ₂ the mean squared norm of the rows may be


class Curvature:
    """The matrix of a label's last step, and the curvature of the rows that it was made from.

    It serves until steps become slow.
    """

    rows: Vectors  # the local matrix of the round, by rows
    known = 0  # how many columns of the matrix are of the round

    def __init__(self, n_rows: int) -> None:
        self.of_rows = np.full(n_rows, np.nan)
        self.touched = np.zeros(0, np.int64)
        self.base, self.columns, self.H = 0.0, np.zeros(0, np.int64), np.zeros((1, 1))

    def forget(self) -> None:
        """Begin with another label."""
        self.columns = np.zeros(0, np.int64)

    def begin(self, chosen: np.ndarray, local: Local, n_rows: int, l2: float) -> None:
        """Begin a round with these columns; of the first ones that were in use before, the matrix stands."""
        indptr, columns, values = local.matrix
        ends = offsets(np.bincount(columns, minlength=local.touched.size))
        self.rows = Vectors(ends, np.empty_like(columns), np.empty_like(values))
        transpose(indptr[:-1], indptr[1:], columns, values, 0, ends[:-1].copy(), self.rows.indices, self.rows.values)
        old, H = self.columns, self.H
        self.columns, self.H = chosen, np.empty((chosen.size + 1, chosen.size + 1))
        order = np.argsort(old)
        places = np.searchsorted(old, chosen, sorter=order)
        known = places < old.size
        known[known] = old[order[places[known]]] == chosen[known]
        n = int(np.argmin(known)) if not known.all() else chosen.size
        kept = order[places[:n]]
        self.H[:n, :n] = H[np.ix_(kept, kept)]
        self.H[n:, -1] = self.H[-1, n:] = 0.0
        self.H[:n, -1] = self.H[-1, :n] = H[kept, -1]
        self.known = n
        if n:
            curves = self.of_rows[local.touched]
            curves[np.isnan(curves)] = self.base
            kernels.gram(self.rows, curves, (n_rows - local.touched.size) * self.base, l2, n, self.H)

    def take(self, touched: np.ndarray, curves: np.ndarray, base: float, others: float, l2: float) -> None:
        """Make the matrix of ℓ″ of the touched rows, of each other row, and of these together."""
        self.of_rows[self.touched] = np.nan
        self.of_rows[touched] = curves
        self.touched, self.base, self.known = touched, base, self.columns.size
        kernels.gram(self.rows, curves, others, l2, 0, self.H)


class Ascent:
    """Dual coordinate ascent for one label after the other, for labels whose features cover most of the rows.

    Where Λ₂ > 0, the minimum has w = soft(v, Λ₁) / Λ₂ with v = Σ α x, and the α = −ℓ′ of the rows are the maximum of a smooth dual
    (Shalev-Shwartz & Zhang 2014, proximal SDCA). A visit of a row finds its best α, as if the features in use stayed the same. Most
    do; and steps for all features, as the theory has them, are too short where few are in use. The intercept has no Λ₂: it is held
    to where it was by ½ σ (b − b₀)², and after each pass b₀ becomes b (the proximal point method), so that Σ α = 0 at the end. The
    rows come in runs of 16 that lie together, for the memory's sake, in an order keyed by the seed and the pass.

    A pass costs the same for every label. What it leaves is judged as Newton steps are.
    """

    rounds = 0  # of the label so far
    b = 0.0

    def __init__(self, judge: Judge) -> None:
        rows = judge.risk.rows
        self.judge, self.strengths = judge, judge.strengths
        self.possible = rows.scale <= STIFF * judge.l2
        size = rows.n_local if self.possible else 0
        self.duals, self.v = Duals(*np.empty((4, size))), np.empty(rows.n_columns if self.possible else 0)
        if self.possible:
            ascent_kernels.squares_of(judge.risk.matrix, self.duals.squares)

    @property
    def going(self) -> bool:
        """Whether the label is in the middle of it, and not to be left to Newton steps."""
        return 0 < self.rounds < ROUNDS

    def go(self, label: Label) -> None:
        """Some passes over the rows, and the label's weights after them. Raises Stopped."""
        duals, (l1, l2), rows, stop = self.duals, self.strengths, self.judge.risk.rows, self.judge.stop
        n = rows.n_local
        if not self.rounds:
            duals.signs[:] = -1.0
            duals.signs[label.touched[: label.losses.n_positive]] = 1.0
            duals.values[:], duals.logits[:], self.v[:], self.b = 0.0, -math.inf, 0.0, label.b
        for number in range(PASSES * self.rounds, PASSES * (self.rounds + 1)):
            keys = rng.bits(self.judge.risk.seed, f"runs of rows, pass {number}", np.arange(-(-n // RUN)))
            order = (RUN * np.argsort(keys, kind="stable")[:, None] + np.arange(RUN)).ravel()
            order = order[order < n]
            for some in stop.slices(slices.row_slices(n, rows.data.size)):
                self.visit(order[some])
            self.b += float(duals.values.sum()) / PROXIMAL
        self.rounds += 1
        columns = np.flatnonzero(np.abs(self.v) > l1)
        w = (self.v[columns] - np.clip(self.v[columns], -l1, l1)) / l2
        self.judge.take_weights(label, self.judge.gather(label, columns), columns, w, self.b)

    def visit(self, order: np.ndarray) -> None:
        """Visit these rows in this order. Local."""
        self.b = ascent_kernels.ascend(
            self.judge.risk.matrix, order, self.duals, self.v, self.b, self.strengths, self.judge.squared
        )


class NewtonSolver(Solver):
    """The labels of one rank, one after the other: nothing for a checkpoint."""

    one_by_one = True

    def __init__(self, risk: ElasticRisk, labels: np.ndarray, n_lanes: int, options: ElasticNetOptions) -> None:
        """`labels` are the numbers in the data of all labels of the run. Raises MemoryError."""
        self.risk, self.labels, self.max_steps, self.judge = risk, labels, options.step_limit, Judge(risk, options)
        self.curvature, self.ascent = Curvature(risk.rows.n_local), Ascent(self.judge)

    def compile_rest(self, risk: ElasticRisk) -> None:
        """Compile what only labels with many features take. Local."""
        self.ascent.visit(np.zeros(0, np.int64))
        none, d = np.zeros(0), np.zeros(1)
        kernels.solve_sparse(local_matrix(0, 0), none, 0.0, d, none, Strengths(1.0, 1.0), 1.0, 1, d.copy())

    def solve(self, labels: Sequence[int], stop: Stop) -> Turns:
        """Collective over the group, which is one rank. A turn is one whole label."""
        judge = self.judge
        judge.stop = stop
        for place in labels:
            number, visited, best, history = int(self.labels[place]), 0, math.inf, list[tuple[float, ...]]()
            with self.risk.profile("compute"):
                label = judge.start(number, place)
                self.curvature.forget()
                self.ascent.rounds = 0
                newton = False  # whether the last round was one of Newton steps, which never raise f
                for step in range(1, self.max_steps + 1):
                    view = judge.look(label)
                    visited += view.visited
                    f = view.f / judge.n_rows
                    history.append((step, f, (1 - view.gap) * f, view.visited, view.found.size, label.w.size, stop.seconds))
                    vain, best = newton and view.f >= best * (1 - VAIN * min(judge.max_gap, MAX_GAP)), view.f
                    if view.gap <= judge.max_gap or step == self.max_steps or vain:
                        break
                    newton = not self.ascent.going
                    wanted = np.concatenate([label.columns, view.found])
                    if self.ascent.possible and not self.ascent.rounds and wanted.size > (WIDE if step > 2 else WIDE_AT_FIRST):
                        indptr = self.risk.index.columns.indptr  # so many features that passes over all rows may take less
                        newton = int((indptr[wanted + 1] - indptr[wanted]).sum()) <= SHARE * self.risk.rows.data.size
                    if newton:
                        self._improve(label, view, step)
                    else:
                        self.ascent.go(label)
            yield [judge.finished(place, number, label, view, step, visited, history)]

    def _improve(self, label: Label, view: View, step: int) -> None:
        """A round: Newton steps for the weights in use and some of those found. Raises Stopped."""
        judge, curvature, n_used, b = self.judge, self.curvature, label.columns.size, label.b
        losses, strengths, squared = label.losses, judge.strengths, judge.squared
        # Of the features found those that have not many more rows than the label, in later rounds more: frequent words often
        # look wanted until the words that really tell the label are in use.
        rows, indptr = self.risk.rows, self.risk.index.columns.indptr
        budget = min((VALUES << step) * losses.n_positive * (1 + rows.data.size // rows.n_local), rows.data.size)
        found = view.found[: max(FIRST, n_used)]
        found = found[: max(1, int(np.searchsorted(np.cumsum(indptr[found + 1] - indptr[found]), budget, "right")))]
        chosen = np.concatenate([label.columns, found])
        local, w = judge.gather(label, chosen), np.concatenate([label.w, np.zeros(chosen.size - n_used)])
        tolerance, matrix = max(TIGHT * judge.max_gap * (judge.l1 or 1.0), LOOSE * view.beyond), local.matrix
        z, slopes, curves = np.empty((3, local.touched.size))
        gradient, d = np.empty((2, chosen.size + 1))
        n, n_values = chosen.size, matrix.values.size
        if dense := n <= DENSE or (n <= LARGEST and n * n <= 4 * n_values):  # a small matrix, or one that costs less than the rows
            curvature.begin(chosen, local, judge.n_rows, judge.l2)
        margins(matrix, w, b, z)
        sweeps, near = min(SWEEPS, 10 + LONG // (matrix.values.size + 1)), True
        total, worst = value(z, b, losses), math.inf
        for _ in range(STEPS):
            others = kernels.derivatives(matrix, z, b, losses, slopes, curves, gradient)
            before, worst = worst, kernels.violation(gradient, w, strengths)
            if worst <= tolerance:
                break
            goal = 0.1 * min(worst, tolerance) if squared else GOAL * worst
            if dense:
                if not curvature.known or (near and worst > SLOW * before):
                    curvature.take(local.touched, curves, loss_at(b, -1.0, squared)[2], others, judge.l2)
                near = kernels.solve_dense(curvature.H, gradient, w, strengths, goal, SWEEPS, d)
            else:
                kernels.solve_sparse(matrix, curves, others, gradient, w, strengths, goal, sweeps, d)
            b, total = kernels.search(matrix, z, b, losses, w, d, gradient, strengths, total)
            for _ in judge.stop.slices(()):  # a look whether to stop
                pass
        if dense and not curvature.known:  # no step was taken, so there is no matrix
            curvature.forget()
        judge.take_weights(label, local, chosen, w, b)
