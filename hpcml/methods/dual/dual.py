"""Dual coordinate descent for a panel of labels, each certified by its duality gap.

Problem (one per label): minimise f(w) = λ/2 ‖w‖² + 1/m Σ c_i ℓ(y_i w · x_i), or f(w) / λ = ½‖w‖² + Σ C_i ℓ with C_i = c_i / (λ m).
Algorithm: LIBLINEAR's dual coordinate descent with shrinking and its stopping rule (Hsieh et al. 2008, Algorithm 1), run for up to
16 labels ("lanes") in one pass over the rows.

Differences from LIBLINEAR:
1. Warm start. Each label starts from the solution for a label without positive rows; only its positive rows differ.
2. Working set. Most passes visit only support vectors (Blitz, Johnson & Guestrin 2015, choose one by bounds). A few passes over all
   rows add rows that became active. Gradients that are small relative to the tolerance cause no step.
3. Certificate. At the end, one pass over all rows in float64, with the weights as stored, gives gradients, objective and gap. A
   label that misses its tolerance continues from there. The intercept of a converged label is then moved to its optimum, because
   many rows have a margin of exactly 1.
4. Rounds. A round has a bounded number of passes; unfinished labels are regrouped into full panels for the next round.
5. Several ranks that share the rows: each takes steps on its own rows, and the sum is applied after every pass (CoCoA+, Ma et al.
   2015; σ′ = number of ranks, γ = 1).

A label's result depends on the label, the rows and the seed, not on the labels that share its panel.

Logistic regression (Yu, Huang & Lin 2011) differs in two ways. No dual reaches a bound, so every pass visits all rows. A pass
reduces the gradients so much that those at its end are predicted from the last two passes.
"""

import math
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.kernels.lanes import certify, combine
from hpcml.methods.dual import kernels
from hpcml.methods.dual.newton import reached_step_limit, run_newton
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.dual.panel import (
    ACCEPTED_GAP,
    CACHE_BYTES,
    EMPTY_LABEL,
    HALF,
    LEAST_ROWS,
    DualPanel,
    State,
    Training,
    iterate_rounds,
)
from hpcml.methods.dual.rare import RARE_ROWS, VALUES_PER_POSITIVE, RareLabelSolver
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.solver import CONVERGED, STEP_LIMIT, Finished, Solver, Turns
from hpcml.run.stop import NEVER, Stop

Passes = Generator[list[Finished], None, None]
Certificate = tuple[float, float, float]  # primal and dual objective / λ, range of the projected gradients

# The constants of a round were measured by `python -m launch.lab bench panels` with the hinge and tolerance 0.1: largest gap of the
# 150th to 165th labels of MeSH, and passes of the 16 most frequent labels of 100,000 generated rows (`convert synthetic text`).
#
# A label is ready when the largest violation in a full pass falls below this share of the tolerance. Below 1 because the
# certificate uses the final weights, whose violations can be larger. 0.3: gap 0.5 % on MeSH, 26 passes on generated rows; 0.6: 0.8
# %, 25 passes; 1.0: 2.5 %, 20 passes.
PASS_TOLERANCE = 0.6
# Share of the tolerance that ends passes over support vectors. 0.25: same gaps and passes; 1: gap 1.2 % on MeSH, 20 passes on
# generated rows.
SUPPORT_TOLERANCE = 0.5
# Passes over all rows in the first round. 2: gaps of 2.1 % on MeSH; 3: 1.2 times as long for 1,104 labels of 500 words, because
# more need a second round.
FULL_PASSES = 4
# Passes over support vectors before each full pass and after the last: few at first, when a label lacks rows. Hinge: 2 each time
# take 1.3 times as long for 7 labels of 20 Newsgroups, with gaps up to 1.0 % instead of 0.4 %; (1, 2, 3, 4, 5) has a mean gap of
# 0.49 % instead of 0.36 % for labels of generated rows. Squared hinge: 2 each time take 1.1 times as long for 20 Newsgroups.
SUPPORT_PASSES = (2, 2, 3, 4, 6)
SUPPORT_PASSES_SQUARED = (1, 1, 2, 2, 3)
# Half the passes of the second round; each further round has twice as many. 3: 21 passes instead of 25 on generated rows, but a
# mean gap of 0.19 % instead of 0.12 %; 30: the same as 10.
SWEEPS = 10
# Logistic: gradients below this multiple of the square root of the machine epsilon may be rounding errors.
PRECISE = 4.0
VIOLATION = 5  # index in a step of the history
# Trial moves of an intercept; 0 is excluded because hinges have kinks there.
MOVES = np.sort(np.outer([-1, 1], np.ldexp(0.001, np.arange(7))), axis=None)


def rare_limit(risk: Risk, options: DualOptions) -> int:
    """Return the largest number of positive rows of a rare label; 0 if no label is treated as rare."""
    if risk.comm.size > 1 or options.loss == "logistic" or options.precision != "single":
        return 0
    limit = risk.rows.data.size // VALUES_PER_POSITIVE
    return int(max(limit, RARE_ROWS)) if limit else 0


class DualSolver(DualPanel, Solver):
    """Trains the labels of a rank group, panel by panel. A resumed run restarts unfinished panels."""

    def __init__(self, risk: Risk, labels: np.ndarray, n_lanes: int, options: DualOptions) -> None:
        super().__init__(risk, labels, n_lanes, options)
        self.max_gap = math.inf if options.max_gap is None else options.max_gap
        self.rare_limit = rare_limit(risk, options)
        self.start: State | None = None  # solution for a label without positive rows
        self.rare_labels: RareLabelSolver | None = None

    def compile_rest(self, risk: Risk) -> None:
        self.rare_limit = min(1, rare_limit(risk, self.options))
        if self.rare_limit:
            for _ in self.solve([1], NEVER):
                pass

    def solve(self, labels: Sequence[int], stop: Stop) -> Turns:
        """Yield finished labels. Of labels with the same positive rows and costs, one is trained and its result copied."""
        same: dict[object, list[int]] = {}
        for label in labels:
            number = int(self.labels[label])
            costs, rows = self.costs_of(number), self.risk.rows.rows_of(number)
            same.setdefault((costs.tobytes(), rows.tobytes()) if self.risk.comm.size == 1 else label, []).append(label)
        groups = {group[0]: group for group in same.values()}
        for finished in self._solve(list(groups), stop):
            yield [done._replace(label=label) for done in finished for label in groups[done.label]]

    def _solve(self, labels: Sequence[int], stop: Stop) -> Turns:
        """Yield finished labels. A turn is a pass over the active rows of a panel, or a scan of all rows for rare labels."""
        self.stop, passes = stop, self._logistic_passes if self.is_logistic else self._hinge_passes
        rare = [self.risk.rows.n_positive[self.labels[label]] <= self.rare_limit for label in labels]
        in_panels = [label for label, is_rare in zip(labels, rare, strict=True) if not is_rare]
        tolerance = self.options.dual_tol
        if in_panels and self.start is None:
            costs = self.costs_of(EMPTY_LABEL)
            with self.risk.profile("compute"):
                self.load_labels([Training(EMPTY_LABEL, EMPTY_LABEL, tolerance)], [costs])
            yield from passes()
            self.start = State(self.w, self.alpha, cost=float(costs[1]))
            yield []
        for number, lanes, unfinished in iterate_rounds(
            in_panels, lambda label: Training(label, int(self.labels[label]), tolerance), self.n_lanes, self.n_lanes
        ):
            with self.risk.profile("compute"):
                self.load_labels(lanes, [self.costs_of(label.number) for label in lanes], self.start, number)
            yield from passes()
            done, others = self.certify()
            unfinished += others
            yield done
        if any(rare):
            self.rare_labels = self.rare_labels or RareLabelSolver(self, self.finish_label, self.max_gap)
            yield []
            rare_labels = [label for label, is_rare in zip(labels, rare, strict=True) if is_rare]
            yield from self.rare_labels.solve(rare_labels, self.labels, self.n_lanes, stop)

    def _hinge_passes(self) -> Passes:
        """Make the passes of a round; a turn ends between two passes. Collective.

        In the first round, passes over support vectors alternate with passes over all rows; later rounds visit the rows that may
        change.
        """
        passes = SUPPORT_PASSES_SQUARED if self.is_squared else SUPPORT_PASSES
        n_full, n_support = 0, passes[0] if self.round == 0 and self.start is None else 0
        least_rows, all_rows = LEAST_ROWS * self.risk.rows.n_global, slice(0, self.active.size)
        while True:
            seconds = self.stop.seconds
            if full := self.round == 0 and n_support == passes[n_full]:
                n_full, n_support = n_full + 1, 0
                self.active[:] = np.uint16(sum(1 << lane for lane, label in enumerate(self.lanes) if not label.round_done))
                self.update_shrinking(False)
                number = n_full
            else:
                n_support += 1
                number = n_support << 8 | n_full  # unique in the round
            violations, active, moved = (numbers.tolist() for numbers in self.run_pass(number, full))
            for lane, label in enumerate(self.lanes):
                if label.round_done or (label.awaits_full_pass and not full):
                    continue
                violation = label.record(violations[lane], active[lane], moved[lane], seconds, least_rows)
                label.round_done = reached_step_limit(self, label)
                label.round_done |= (full or self.round > 0) and violation <= PASS_TOLERANCE * label.tolerance
                label.awaits_full_pass = not full and violation <= SUPPORT_TOLERANCE * label.tolerance
            unfinished = sum(1 << lane for lane, label in enumerate(self.lanes) if not (label.round_done or label.awaits_full_pass))
            if full:
                self.support(all_rows, self.active)
            else:
                self.update_shrinking()
            self.active &= np.uint16(unfinished)
            if self.round == 0 and not unfinished:
                n_support = passes[n_full]
            is_last = n_full >= FULL_PASSES and n_support >= passes[n_full]
            if self.round > 0:
                is_last = n_support >= SWEEPS << self.round
            if is_last or all(label.round_done for label in self.lanes):
                return
            yield []

    def _logistic_passes(self) -> Passes:
        """Make the passes of a round over all rows, whose gradients are predicted to fall as in the pass before."""
        for number in range(SWEEPS << self.round):
            if number > 0:
                yield []
            seconds = self.stop.seconds
            violations, active, moved = (numbers.tolist() for numbers in self.run_pass(number))
            for lane, label in enumerate(self.lanes):
                if label.round_done:
                    continue
                violation = label.record(violations[lane], active[lane], moved[lane], seconds)
                before = label.history[-2][VIOLATION] if len(label.history) > 1 else math.inf
                expected = violation * min(1.0, violation / before) if before > 0 else violation
                if expected <= PASS_TOLERANCE * label.tolerance or reached_step_limit(self, label):
                    label.round_done = True
                    self.active &= np.uint16(~(1 << lane) & 0xFFFF)
            if all(label.round_done for label in self.lanes):
                return

    def certify(self) -> tuple[list[Finished], list[Training]]:
        """Compute the certificate of each lane over all rows, in float64. Return finished and unfinished labels. Collective."""
        risk, rows, width, stop, scores = self.risk, self.risk.rows, self.width, self.stop, self.scores
        sums, near = np.zeros((certify.N_SUMS, width)), np.zeros(rows.n_local, np.uint16)
        squares, shifts = np.zeros((2, width)), np.zeros(width)  # ‖w‖² before and after rounding; moves of the intercepts
        with risk.profile("finish"):
            # Recompute w = Σ alpha y x in float64, then round it as it is saved.
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
                combine.write_rounded(v, half, self.w, width, first, both := np.zeros(2 * half))
                squares[:, first : first + half] = both.reshape(2, half)
            for part, csr in stop.slices(self.rows.slices()):
                z = scores[part.start * width : part.stop * width]
                kernels.certificate_scores(*csr, self.w, z, width, self.w.nbytes > CACHE_BYTES)
            # The objectives' slopes at MOVES bracket the best intercepts; they are interpolated linearly.
            intercepts = self.w.reshape(-1, width)[-1].astype(np.float64) if rows.bias else np.zeros(width)
            costs = self.costs.reshape(-1)
            if rows.bias and not self.is_logistic:
                slopes = np.zeros((MOVES.size, width))
                for part in stop.slices(self.rows.parts):
                    state = scores[part.start * width : part.stop * width], self.positive[part], self.norms[part]
                    certify.slopes(*state, costs, self.is_squared, MOVES, slopes.reshape(-1), width)
                mpi.allreduce_sum(risk.comm, slopes)
                slopes += MOVES[:, None] + intercepts
                shifts = np.array([crossing(MOVES, slope) for slope in slopes.T])
                shifts = (intercepts + shifts).astype(risk.weight_type).astype(np.float64) - intercepts
            # Losses, projected gradients, and in `near` one bit per lane in which the row may still change.
            certify_rows = certify.logistic_certify if self.is_logistic else certify.hinge_certify
            for part in stop.slices(self.rows.parts):
                pairs, tables = slice(part.start * width, part.stop * width), (self.rules_of_lanes, costs, shifts)
                row_arrays = (scores[pairs], self.alpha[pairs]), self.positive[part], self.norms[part]
                certify_rows(*row_arrays, tables, near[part], sums.reshape(-1), width, self.options.dual_tol)
            extremes = sums[[certify.WORST]] if self.is_logistic else sums[[certify.MOST, certify.LEAST]] * [[1.0], [-1.0]]
            if risk.comm.size > 1:
                extremes = mpi.allreduce_maxima(risk.comm, extremes)
                mpi.allreduce_sum(risk.comm, sums)
        if self.is_logistic:
            primal, bound = 0.5 * squares[1] + sums[certify.LOSSES], sums[certify.ENTROPY] - 0.5 * squares[0]
        else:
            before, after, penalty = self.losses(self.costs, sums)
            primal, moved = 0.5 * squares[1] + before, 0.5 * (squares[1] + shifts * (shifts + 2 * intercepts)) + after
            shifts = np.where(moved < primal, shifts, 0.0)
            primal, bound = np.minimum(moved, primal), sums[certify.ALPHA] - 0.5 * squares[0] - penalty

        def weights(lane: int, copy: bool) -> np.ndarray:
            w = self.w.reshape(-1, width)[:, lane]
            w = w.copy() if copy else w
            if shifts[lane]:
                w[-1] += shifts[lane]
            return w

        finished, unfinished = list[Finished](), list[Training]()
        certificates = zip(primal.tolist(), bound.tolist(), extremes.sum(axis=0).tolist(), strict=True)
        for lane, (label, certificate) in enumerate(zip(self.lanes, certificates, strict=False)):
            is_at_precision = label.ignores_none and not label.any_dual_changed
            if self.is_logistic:
                violation = min(certificate[2], label.history[-1][VIOLATION])  # rounding errors add up during a pass
                small = violation <= PRECISE * math.sqrt(np.finfo(self.w.dtype).eps)
                is_at_precision = (label.round_done and not label.any_dual_changed) or (
                    small and relative_gap(*certificate[:2]) > label.gap / 2
                )
            result = self.finish_label(
                label,
                self.costs[:, lane],
                certificate,
                is_at_precision,
                self.max_gap,
                partial(weights, lane),
            )
            if result is not None:
                finished.append(result)
                continue
            w, alpha = (array.reshape(-1, width)[:, lane].copy() for array in (self.w, self.alpha))
            label.state = State(w, alpha, ((self.active | near) & np.uint16(1 << lane)) != 0)
            unfinished.append(label)
        return finished, unfinished

    def finish_label(
        self,
        label: Training,
        costs: np.ndarray,
        certificate: Certificate,
        is_at_precision: bool,
        max_gap: float,
        weights: Callable[[bool], Any],
    ) -> Finished | None:
        """Return the label if it is done or at its limit (with its best weights), or None. Collective; raises NonFiniteError.

        `certificate` is that of weights(copy); `is_at_precision` says that rounding prevents further progress.
        """
        risk, rows, (primal, bound, violation) = self.risk, self.risk.rows, certificate
        f, gap = risk.lam * primal, relative_gap(primal, bound)
        risk.check_finite(np.array([f]), "objective", np.array([label.number]))
        converged = violation <= label.tolerance or gap <= ACCEPTED_GAP * label.tolerance
        done, over = converged and gap <= max_gap, reached_step_limit(self, label)
        if not done:
            positive = rows.label_weight(label.number)
            total_cost = float(costs[0] * positive + costs[1] * (rows.total_weight - positive))
            label.keep_best(self.loss.VALUE_AT_ZERO * total_cost, 0.0, lambda: (np.zeros(0, np.int32), np.zeros(0)))
            label.keep_best(primal, bound, lambda: weights(True))
        if not (done or over or is_at_precision):
            if converged and self.is_logistic:  # gaps are proportional to squared gradients
                label.tolerance *= min(0.5, 0.7 * math.sqrt(self.max_gap / gap))
            elif converged:
                label.tolerance /= 2
            label.ignores_none, label.gap = not label.any_dual_changed, gap
            label.round_done = label.awaits_full_pass = label.any_dual_changed = False
            return None
        if done:
            w = weights(False)
        else:
            label.best_weights = as_dense(label.best_weights, rows.n_columns, risk.weight_type)
            if over and run_newton(self, label, costs):
                done, violation = True, math.nan
            w, f, gap = label.best_weights, risk.lam * label.best_primal, label.best_gap
        last, share = label.history[-1], label.visited / (label.steps * rows.n_global)
        label.history[-1] = (label.steps, f, *last[2:5], violation, *last[6:])
        return Finished(label.label, w, f, CONVERGED if done else STEP_LIMIT, label.steps, share, label.history, gap)


def relative_gap(primal: float, bound: float) -> float:
    return max(primal - bound, 0.0) / max(primal, 1e-300)


def as_dense(weights: Any, n_columns: int, dtype: np.dtype) -> np.ndarray:
    if isinstance(weights, tuple):
        (columns, values), weights = weights, np.zeros(n_columns, dtype)
        weights[columns] = values
    return weights


def crossing(moves: np.ndarray, slopes: np.ndarray) -> float:
    """Return the move at which the non-decreasing `slopes` reach 0; np.interp fuses multiply and add on some processors."""
    i = int(np.searchsorted(slopes, 0.0, "right"))
    if i in (0, moves.size):
        return float(moves[min(i, moves.size - 1)])
    below, above = moves[i - 1], moves[i]
    return float((above - below) / (slopes[i] - slopes[i - 1]) * (0.0 - slopes[i - 1]) + below)
