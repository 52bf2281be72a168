"""Dual coordinate descent for many labels at once, certified by the duality gap.

LIBLINEAR's algorithm (Hsieh et al. 2008, Algorithm 1 with shrinking, and its stopping rule) minimises ½‖w‖² + Σ C_i ℓ, which with
C_i = c_i / (λ m) is f(w) / λ for rows of weight c_i. Here it runs for the labels of a panel at once (`lanes`), all of which begin
together. Five things differ:
- Each label is warm-started from the solution for a label without positive rows.
- Most passes visit a label's support vectors only: its working set (Blitz, Johnson & Guestrin 2015, choose one by bounds). A few
  passes over all rows add the rows that it lacks. Gradients that are small beside the tolerance cause no step.
- At the end, one pass over all rows, in float64 and with the weights as they are saved, gives the gradients, the objective and the
  gap. They tell whether the label is done; if not, it continues with them. The intercept of a label that is done is then moved to
  where the objective is least, since a margin of 1 is where most rows lie.
- Labels go through rounds of a bounded number of passes. Those that are not done after one share the next with others of its kind.
- Ranks that share the rows each take the steps of their own rows, and the sum of these is applied after every pass (CoCoA+, Ma et
  al. 2015, with its safe σ′ = number of ranks and γ = 1).

The result for a label depends on the label, the rows and the seed, not on which labels share its panel.

Logistic regression (Yu, Huang & Lin 2011) differs from the hinges in two ways. No dual is ever at a bound, so every pass is over
all rows. And a pass reduces the gradients so much that those at its end are predicted from the last two passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.kernels.lanes import certify, combine
from hpcml.methods.dual import kernels
from hpcml.methods.dual.newton import improve, is_over
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.dual.panel import CACHE_BYTES, CLOSE, HALF, LEAST_ROWS, NO_POSITIVES, DualPanel, State, Training, in_rounds
from hpcml.methods.dual.rare import VALUES_PER_POSITIVE, RareLabelSolver
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.solver import CONVERGED, STEP_LIMIT, Finished, Solver, Support, Turns
from hpcml.run.stop import NEVER, Stop

Passes = Generator[list[Finished], None, None]
Verdict = tuple[float, float, float]

# The constants of a round, measured by `python -m launch.lab bench panels` with the hinge and tolerance 0.1: the largest gap of
# the 150th to 165th labels of MeSH, and the passes of the 16 most frequent labels of 100,000 generated rows
# (`convert synthetic text`).
# A pass has the gradients at each visit; the certificate has those at the last weights, which may be larger: so less is asked.
# INNER = 0.3: gap 0.5 % instead of 0.8 % on MeSH, 26 passes instead of 25 on generated rows; 1: 2.5 %, and 20 passes.
INNER = 0.6  # of the tolerance: what a pass over all rows, or those that are still looked at, must come to
# REST = 0.25: the same gaps and passes; 1: gap 1.2 % on MeSH, 20 passes on generated rows.
REST = 0.5  # of the tolerance: what the support vectors must come to before all rows are looked at
# FULL_PASSES = 2 has gaps of 2.1 % on MeSH; 3 takes 1.2 times as long for 1,104 labels of 500 words: more need a second round.
# The passes between are few at first, when a label lacks rows, and more as it nears its end. Hinge: 2 each time take 1.3 times as
# long for 7 labels of 20 Newsgroups, with gaps up to 1.0 % instead of 0.4 %; (1, 2, 3, 4, 5) has a mean gap of 0.49 % instead of
# 0.36 % for labels of generated rows. Squared hinge: 2 each time take 1.1 times as long for 20 Newsgroups.
FULL_PASSES = 4  # of the first round, over all rows
SUPPORT_PASSES = (2, 2, 3, 4, 6)  # before each of these, and after the last one, over the support vectors
SUPPORT_PASSES_SQUARED = (1, 1, 2, 2, 3)  # the same for the squared hinge
# SWEEPS = 3: 21 passes instead of 25 on generated rows, but a mean gap of 0.19 % instead of 0.12 %; 30: the same as 10.
SWEEPS = 10  # half as many as in the second round; every further one has twice as many as the one before
PRECISE = 4.0  # logistic: times the root of a unit in the last place; a gradient that rounding errors may hold up
VIOLATION = 5  # of a step's numbers in the history
NO_SUPPORT = Support(np.zeros(0, np.int64), np.zeros(0))  # of weights that are all 0
# Moves of an intercept that are tried; not 0, where hinges have their kinks.
MOVES = np.sort(np.outer([-1, 1], np.ldexp(0.001, np.arange(7))), axis=None)


def rare_limit(risk: Risk, options: DualOptions) -> int:
    """Return the largest number of rows of a rare label; 0: no label is rare."""
    if risk.comm.size > 1 or options.loss == "logistic" or options.precision != "single":
        return 0
    return risk.rows.data.size // VALUES_PER_POSITIVE


class DualSolver(DualPanel, Solver):
    """The labels of a rank group, panel by panel; a panel that is not done begins anew when a run is resumed."""

    has_duals = True

    def __init__(self, risk: Risk, labels: np.ndarray, n_lanes: int, options: DualOptions) -> None:
        """`labels` are the numbers in the data of all labels of the run. Raises MemoryError, NonFiniteError."""
        super().__init__(risk, labels, n_lanes, options)
        self.max_gap = math.inf if options.max_gap is None else options.max_gap
        self.rare_limit = rare_limit(risk, options)
        self.start: State | None = None  # the solution for a label without positive rows
        self.rare_labels: RareLabelSolver | None = None  # made when it is needed

    def compile_rest(self, risk: Risk) -> None:
        """Train a label as a rare one, if `risk` may have such. Local."""
        self.rare_limit = min(1, rare_limit(risk, self.options))
        if self.rare_limit:
            for _ in self.solve([1], NEVER):
                pass

    def solve(self, labels: Sequence[int], stop: Stop) -> Turns:
        """Collective over the group. A turn is a pass over the active rows of a panel, or a scan of all rows for rare labels."""
        self.stop, passes = stop, self._logistic_passes if self.is_logistic else self._hinge_passes
        rare = [self.risk.rows.n_positive[self.labels[label]] <= self.rare_limit for label in labels]
        in_panels = [label for label, is_rare in zip(labels, rare, strict=True) if not is_rare]
        tolerance = self.options.dual_tol
        if in_panels and self.start is None:
            costs = self.costs_of(NO_POSITIVES)
            with self.risk.profile("compute"):
                self.begin([Training(NO_POSITIVES, NO_POSITIVES, tolerance)], [costs])
            yield from passes()
            self.start = State(self.w, self.alpha, cost=float(costs[1]))
            yield []
        for number, lanes, unfinished in in_rounds(
            in_panels, lambda place: Training(place, int(self.labels[place]), tolerance), self.n_lanes, self.n_lanes
        ):
            with self.risk.profile("compute"):
                self.begin(lanes, [self.costs_of(label.number) for label in lanes], self.start, number)
            yield from passes()
            done, others = self.certify()
            unfinished += others
            yield done
        if any(rare):
            self.rare_labels = self.rare_labels or RareLabelSolver(self, self.conclude, self.max_gap)
            yield []
            alone = [label for label, is_rare in zip(labels, rare, strict=True) if is_rare]
            yield from self.rare_labels.solve(alone, self.labels, self.n_lanes, stop)

    def _hinge_passes(self) -> Passes:
        """Collective. Make the passes of a round, with a turn's end between two of them.

        In the first round, passes over the support vectors lead to a pass over all rows, again and again; later rounds visit the
        rows that matter to each lane. The round ends when all lanes are ready, or after a fixed number of passes, so that the
        labels that remain can share a panel.
        """
        passes = SUPPORT_PASSES_SQUARED if self.is_squared else SUPPORT_PASSES
        n_full, n_support = 0, passes[0] if self.round == 0 and self.start is None else 0
        least_rows, everything = LEAST_ROWS * self.risk.rows.n_global, slice(0, self.active.size)
        while True:
            seconds = self.stop.seconds
            if full := self.round == 0 and n_support == passes[n_full]:
                n_full, n_support = n_full + 1, 0
                self.active[:] = np.uint16(sum(1 << lane for lane, label in enumerate(self.lanes) if not label.ready))
                self.set_aside(False)
                number = n_full
            else:
                n_support += 1
                number = n_support << 8 | n_full  # no other pass of the round has this one
            violations, active, moved = (numbers.tolist() for numbers in self.visit(number, full))
            for lane, label in enumerate(self.lanes):
                if label.ready or (label.resting and not full):
                    continue
                violation = label.record(violations[lane], active[lane], moved[lane], seconds, least_rows)
                label.ready = is_over(self, label)
                label.ready |= (full or self.round > 0) and violation <= INNER * label.tolerance
                label.resting = not full and violation <= REST * label.tolerance
            goes_on = sum(1 << lane for lane, label in enumerate(self.lanes) if not (label.ready or label.resting))
            if full:
                self.support(everything, self.active)
            else:
                self.set_aside()
            self.active &= np.uint16(goes_on)
            if self.round == 0 and not goes_on:
                n_support = passes[n_full]
            is_last = n_full >= FULL_PASSES and n_support >= passes[n_full]
            if self.round > 0:
                is_last = n_support >= SWEEPS << self.round
            if is_last or all(label.ready for label in self.lanes):
                return
            yield []

    def _logistic_passes(self) -> Passes:
        """Collective. Make the passes of a round, all over all rows, with a turn's end between two of them.

        The gradients at the end of a pass are expected to fall as in the pass before.
        """
        for number in range(SWEEPS << self.round):
            if number > 0:
                yield []
            seconds = self.stop.seconds
            violations, active, moved = (numbers.tolist() for numbers in self.visit(number))
            for lane, label in enumerate(self.lanes):
                if label.ready:
                    continue
                violation = label.record(violations[lane], active[lane], moved[lane], seconds)
                before = label.history[-2][VIOLATION] if len(label.history) > 1 else math.inf
                expected = violation * min(1.0, violation / before) if before > 0 else violation
                if expected <= INNER * label.tolerance or is_over(self, label):
                    label.ready = True
                    self.active &= np.uint16(~(1 << lane) & 0xFFFF)
            if all(label.ready for label in self.lanes):
                return

    def certify(self) -> tuple[list[Finished], list[Training]]:
        """Collective. The end of the round: judge the weights by all rows, in float64. The labels that are done, and those that
        are not, with their state.
        """
        risk, rows, width, stop, scores = self.risk, self.risk.rows, self.width, self.stop, self.scores
        sums, near = np.zeros((certify.N_SUMS, width)), np.zeros(rows.n_local, np.uint16)
        squares, shifts = np.zeros((2, width)), np.zeros(width)  # ‖w‖²; by how much to move the intercepts
        with risk.profile("finish"):
            # w = Σ alpha y x of all lanes, made anew; ‖w‖² in float64, and rounded as it is saved.
            half = min(width, HALF)
            v = self.doubles[: rows.n_columns * half]
            add_rows = combine.logistic_combine if self.is_logistic else combine.hinge_combine
            for first in range(0, width, half):
                v[:] = 0.0
                for part, csr in stop.slices(self.rows.slices(self.support)):
                    arrays = (self.norms[part], self.alpha[part.start * width : part.stop * width], self.positive[part])
                    add_rows(csr, *arrays, self.costs, first, v.reshape(-1, half))
                if risk.comm.size > 1:
                    mpi.allreduce_sum(risk.comm, v)
                combine.keep(v, half, self.w, width, first, both := np.zeros(2 * half))
                squares[:, first : first + half] = both.reshape(2, half)
            for part, csr in stop.slices(self.rows.slices()):
                z = scores[part.start * width : part.stop * width]
                kernels.certificate_scores(*csr, self.w, z, width, self.w.nbytes > CACHE_BYTES)
            # Slopes of the objectives at `MOVES` bracket the intercepts' minimum, in which they are taken as linear.
            own = self.w.reshape(-1, width)[-1].astype(np.float64) if rows.bias else np.zeros(width)
            costs = self.costs.reshape(-1)
            if rows.bias and not self.is_logistic:
                slopes = np.zeros((MOVES.size, width))
                for part in stop.slices(self.rows.parts):
                    state = scores[part.start * width : part.stop * width], self.positive[part], self.norms[part]
                    certify.slopes(*state, costs, self.is_squared, MOVES, slopes.reshape(-1), width)
                mpi.allreduce_sum(risk.comm, slopes)
                slopes += MOVES[:, None] + own
                shifts = np.array([crossing(MOVES, slope) for slope in slopes.T])  # slopes do not fall; beyond them, the last move
                shifts = (own + shifts).astype(risk.weight_type).astype(np.float64) - own
            # The losses, the projected gradients, and `near`: a bit for every lane that a row may still move.
            certify_rows = certify.logistic_certify if self.is_logistic else certify.hinge_certify
            for part in stop.slices(self.rows.parts):
                places, tables = slice(part.start * width, part.stop * width), (self.rules_of_lanes, costs, shifts)
                of_rows = (scores[places], self.alpha[places]), self.positive[part], self.norms[part]
                certify_rows(*of_rows, tables, near[part], sums.reshape(-1), width, self.options.dual_tol)
            extremes = sums[[certify.WORST]] if self.is_logistic else sums[[certify.MOST, certify.LEAST]] * [[1.0], [-1.0]]
            if risk.comm.size > 1:
                extremes = mpi.allreduce_maxima(risk.comm, extremes)
                mpi.allreduce_sum(risk.comm, sums)
        if self.is_logistic:
            primal, bound = 0.5 * squares[1] + sums[certify.LOSSES], sums[certify.ENTROPY] - 0.5 * squares[0]
        else:
            before, after, penalty = self.losses(self.costs, sums)
            primal, moved = 0.5 * squares[1] + before, 0.5 * (squares[1] + shifts * (shifts + 2 * own)) + after
            shifts = np.where(moved < primal, shifts, 0.0)
            primal, bound = np.minimum(moved, primal), sums[certify.ALPHA] - 0.5 * squares[0] - penalty

        def weights(lane: int, copy: bool) -> np.ndarray:
            w = self.w.reshape(-1, width)[:, lane]
            w = w.copy() if copy else w
            if shifts[lane]:
                w[-1] += shifts[lane]
            return w

        finished, others = list[Finished](), list[Training]()
        verdicts = zip(primal.tolist(), bound.tolist(), extremes.sum(axis=0).tolist(), strict=True)
        for lane, (label, verdict) in enumerate(zip(self.lanes, verdicts, strict=False)):
            is_at_precision = label.exact and not label.moved
            if self.is_logistic:
                seen = min(verdict[2], label.history[-1][VIOLATION])  # the weights of a pass have rounding errors that add up
                small = seen <= PRECISE * math.sqrt(np.finfo(self.w.dtype).eps)
                is_at_precision = (label.ready and not label.moved) or (small and gap_of(*verdict[:2]) > label.gap / 2)
            support = partial(self.support_of_lane, lane)
            one = self.conclude(label, self.costs[:, lane], verdict, is_at_precision, self.max_gap, partial(weights, lane), support)
            if one is not None:
                finished.append(one)
                continue
            w, alpha = (array.reshape(-1, width)[:, lane].copy() for array in (self.w, self.alpha))
            label.state = State(w, alpha, ((self.active | near) & np.uint16(1 << lane)) != 0)
            others.append(label)
        return finished, others

    def conclude(
        self,
        label: Training,
        costs: np.ndarray,
        verdict: Verdict,
        is_at_precision: bool,
        max_gap: float,
        weights: Callable[[bool], Any],
        support: Callable[[], Support],
    ) -> Finished | None:
        """Collective. Return the label if it is done, or given up at its best weights; None if it needs another round.

        `costs` (2) are C of positive and negative rows. `verdict` is of weights(copy), by all rows: the primal and the dual
        objective, divided by λ, and the range of the projected gradients; support() is theirs. `is_at_precision`: what is left is
        beyond the precision of the numbers. Raises NonFiniteError.
        """
        support_if_needed: Callable[[], Support | None] = support if self.needs_support else lambda: None
        risk, rows, (primal, bound, violation) = self.risk, self.risk.rows, verdict
        f, gap = risk.lam * primal, gap_of(primal, bound)
        risk.check_finite(np.array([f]), "objective", np.array([label.number]))
        converged = violation <= label.tolerance or gap <= CLOSE * label.tolerance
        done, over = converged and gap <= max_gap, is_over(self, label)
        if not done:
            positive = rows.weight_of(label.number)
            none = float(costs[0] * positive + costs[1] * (rows.total_weight - positive))
            label.keep_best(self.loss.VALUE_AT_ZERO * none, 0.0, lambda: ((np.zeros(0, np.int32), np.zeros(0)), NO_SUPPORT))
            label.keep_best(primal, bound, lambda: (weights(True), support_if_needed()))
        if not (done or over or is_at_precision):
            if converged and self.is_logistic:  # gaps go with the squares of the gradients
                label.tolerance *= min(0.5, 0.7 * math.sqrt(self.max_gap / gap))
            elif converged:
                label.tolerance /= 2
            label.exact, label.gap = not label.moved, gap
            label.ready = label.resting = label.moved = False
            return None
        if done:
            w, label.best_support = weights(False), support_if_needed()
        else:
            label.best_weights = as_dense(label.best_weights, rows.n_columns, risk.weight_type)
            if over and improve(self, label, costs, self.needs_support):
                done, violation = True, math.nan
            w, f, gap = label.best_weights, risk.lam * label.best_primal, label.best_gap
        last, share = label.history[-1], label.visited / (label.steps * rows.n_global)
        label.history[-1] = (label.steps, f, *last[2:5], violation, *last[6:])
        status, found = CONVERGED if done else STEP_LIMIT, label.best_support if self.needs_support else None
        return Finished(label.label, w, f, status, label.steps, share, label.history, gap, found)


def gap_of(primal: float, bound: float) -> float:
    """Return the duality gap, divided by the objective."""
    return max(primal - bound, 0.0) / max(primal, 1e-300)


def as_dense(weights: Any, n_columns: int, dtype: np.dtype) -> np.ndarray:
    """Return weights, given as (columns, values) or as an array (n_columns), as an array."""
    if isinstance(weights, tuple):
        (columns, values), weights = weights, np.zeros(n_columns, dtype)
        weights[columns] = values
    return weights


def crossing(moves: np.ndarray, slopes: np.ndarray) -> float:
    """Return the move at which slopes, which do not fall, are 0 if they are linear between moves; beyond them, the first or last.

    Not by np.interp, which fuses product and sum on some processors.
    """
    place = int(np.searchsorted(slopes, 0.0, "right"))
    if place in (0, moves.size):
        return float(moves[min(place, moves.size - 1)])
    below, above = moves[place - 1], moves[place]
    return float((above - below) / (slopes[place] - slopes[place - 1]) * (0.0 - slopes[place - 1]) + below)
