"""Dual coordinate descent row by row (Hsieh et al. 2008) in Python, for one label on one rank."""

import math
from dataclasses import dataclass

import numpy as np

from hpcml import rng

MASK = 2**64 - 1
SWEEPS = 10
FULL = 4  # passes of the first round over all rows
SUPPORT = (2, 2, 3, 4, 6), (1, 1, 2, 2, 3)  # before each of them and after the last, over the support vectors (hinge, squared)
INNER, REST = 0.6, 0.5  # of the tolerance: for the rows still looked at, and for the support vectors
IGNORED, CLOSE = (0.001, 0.1), 0.01  # of the tolerance: gradients that cause no step (hinge, squared), a gap that is small enough
MOVES = sorted(side * 0.001 * 2**k for side in (-1, 1) for k in range(7))  # of the intercept


def order(n_rows, seed, number, sweep, bounds=None):
    """The rows in the order of a pass: the chunks between `bounds` shuffled, and each one's rows."""
    key = int(rng.bits(seed, "order of rows", np.array([number << 32 | sweep]))[0])
    return shuffled([0, n_rows] if bounds is None else bounds, key)


def shuffled(bounds, key):
    """Fisher and Yates, drawing by SplitMix64."""
    state = key

    def shuffle(items):
        nonlocal state
        for i in range(len(items) - 1, 0, -1):
            state = (state + 0x9E3779B97F4A7C15) & MASK
            z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
            drawn = ((z >> 32) * (i + 1)) >> 32
            items[i], items[drawn] = items[drawn], items[i]
        return items

    chunks = shuffle(list(range(len(bounds) - 1)))
    return [row for c in chunks for row in shuffle(list(range(bounds[c], bounds[c + 1])))]


@dataclass
class Solution:
    w: np.ndarray
    f: float
    gap: float
    converged: bool
    violations: list[float]  # of every pass; the last one of all rows

    @property
    def steps(self):
        return len(self.violations)


class DualTwin:
    """The rows X (dense, in columns) with a label's signs; C of a row is its weight / (λ m)."""

    def __init__(self, X, lam, tol, seed=0, bias=False, max_gap=math.inf, max_steps=1000):
        self.X, self.lam, self.tol, self.seed, self.bias = X, lam, tol, seed, bias
        self.max_gap, self.max_steps = max_gap, max_steps
        self.norms = (X * X).sum(axis=1)

    def _label(self, sign, weight):
        base = 1 / (self.lam * len(self.X))
        self.sign = np.where(sign > 0, 1.0, -1.0)
        self.C = np.where(sign > 0, base * weight, base)


class HingeTwin(DualTwin):
    """The twin of the hinge."""

    squared = False

    def __init__(self, X, *given, **more):
        super().__init__(X, *given, **more)
        self.sparse = [[(j, v) for j, v in enumerate(row) if v != 0] for row in X.tolist()]
        self.norms = [sum(v * v for _, v in row) for row in self.sparse]

    def _label(self, sign, weight):
        super()._label(sign, weight)
        self.top = np.full(len(self.X), math.inf) if self.squared else self.C
        self.diagonal = 0.5 / self.C if self.squared else np.zeros(len(self.X))

    def _pass(self, w, alpha, active, highest, lowest, ignored, rows):
        """One pass, in place. The extremes (0 among them) of the projected gradients before each step, and whether one moved."""
        most = least = 0.0
        moved = False
        for i in rows:
            if not active[i]:
                continue
            a, top, y = alpha[i], self.top[i], self.sign[i]
            gradient = y * sum(v * w[j] for j, v in self.sparse[i]) - 1 + self.diagonal[i] * a
            if (a == 0 and gradient > highest) or (a == top and gradient < lowest):
                active[i] = False
                continue
            projected = min(gradient, 0.0) if a == 0 else max(gradient, 0.0) if a == top else gradient
            most, least = max(most, projected), min(least, projected)
            if abs(projected) <= ignored:
                continue
            curvature = self.norms[i] + self.diagonal[i]
            alpha[i] = min(max(a - gradient / curvature, 0.0), top) if curvature else top
            moved |= bool(alpha[i] != a)
            for j, v in self.sparse[i]:
                w[j] += (alpha[i] - a) * y * v
        return most, least, moved

    def _round(self, w, alpha, active, tolerance, ignored, number, steps):
        """The passes of a round, in place, of a label that has made so many before. (ranges, rows still looked at, moved)."""
        n, ranges, any_moved, most_support = len(self.X), [], False, SUPPORT[self.squared]
        highest, lowest, full, support = math.inf, -math.inf, 0, 0 if active is not None else most_support[0]
        while True:
            over_all = number == 0 and support == most_support[full]
            if over_all:
                full, support, active, highest, lowest = full + 1, 0, [True] * n, math.inf, -math.inf
            else:
                support += 1
            rows = order(n, self.seed, number, full if over_all else support << 8 | full)
            most, least, moved = self._pass(w, alpha, active, highest, lowest, ignored, rows)
            any_moved |= moved
            ranges.append(most - least)
            ready = steps + len(ranges) >= self.max_steps
            ready |= (over_all or number > 0) and ranges[-1] <= INNER * tolerance
            rests = not over_all and ranges[-1] <= REST * tolerance
            if over_all:
                active = list(alpha != 0)
            else:
                highest, lowest = most or math.inf, least or -math.inf
            if ready or rests:
                active = [False] * n
                support = most_support[full] if number == 0 else support
            done = full == FULL and support == most_support[full] if number == 0 else rests or support == SWEEPS << number
            if ready or done:
                return ranges, active, any_moved

    def _shift(self, w):
        """Where the intercept is to go from where it is: to the least objective, as a linear slope between MOVES has it."""
        if not self.bias:
            return 0.0
        slopes = []
        for move in MOVES:
            short = np.maximum(0, 1 - self.sign * (self.X @ w + move))
            losses = 2 * short if self.squared else (short > 0).astype(float)
            slopes.append(w[-1] + move - (self.C * self.sign * losses).sum())
        if slopes[0] > 0 or slopes[-1] < 0:
            return MOVES[0] if slopes[0] > 0 else MOVES[-1]
        k = max(k for k in range(len(MOVES)) if slopes[k] <= 0)
        if slopes[k] == 0 or k + 1 == len(MOVES):
            return MOVES[k]
        return MOVES[k] - slopes[k] * (MOVES[k + 1] - MOVES[k]) / (slopes[k + 1] - slopes[k])

    def primal(self, w):
        """f / λ."""
        short = np.maximum(0, 1 - self.sign * (self.X @ w))
        return 0.5 * w @ w + (self.C * (short**2 if self.squared else short)).sum()

    def certificate(self, w, alpha):
        """The weights with a better intercept, their f, the relative duality gap; of w, the range of the projected gradients of
        all rows, and which rows may move."""
        better = w.copy()
        better[-1] += self._shift(w)
        better, primal = min(((w, self.primal(w)), (better, self.primal(better))), key=lambda pair: pair[1])
        dual = alpha.sum() - 0.5 * w @ w - 0.5 * (self.diagonal * alpha**2).sum()
        gradient = self.sign * (self.X @ w) - 1 + self.diagonal * alpha
        projected = np.where(alpha == 0, np.minimum(gradient, 0), np.where(alpha == self.top, np.maximum(gradient, 0), gradient))
        far = ((alpha == 0) & (gradient > self.tol)) | ((alpha == self.top) & (gradient < -self.tol))
        violation = max(projected.max(), 0) - min(projected.min(), 0)
        return better, self.lam * primal, max(0.0, primal - dual) / primal, violation, ~far

    def solve(self, sign, weight=1.0):
        """Train the label that the rows with sign > 0 have."""
        n, d = self.X.shape
        share = IGNORED[self.squared]
        self._label(-np.ones(n), 1.0)  # the label that nobody has
        w, alpha = np.zeros(d), np.zeros(n)
        self._round(w, alpha, None, self.tol, share * self.tol, 0, 0)
        self._label(sign, weight)
        w += (alpha * (sign > 0)) @ self.X  # they were negative
        alpha[sign > 0] = 0
        active, tolerance, ranges, number, exact = list((alpha != 0) | (sign > 0)), self.tol, [], 0, False
        while True:
            ignored = 0.0 if exact else share * tolerance
            more, active, moved = self._round(w, alpha, active, tolerance, ignored, number, len(ranges))
            ranges += more
            w = (self.sign * alpha) @ self.X
            better, f, gap, violation, near = self.certificate(w, alpha)
            converged = violation <= tolerance or gap <= CLOSE * tolerance
            still = exact and not moved
            if (converged and gap <= self.max_gap) or len(ranges) >= self.max_steps or still:
                ranges[-1] = violation
                return Solution(better, f, gap, converged and gap <= self.max_gap, ranges)
            tolerance = tolerance / 2 if converged else tolerance
            exact, active, number = not moved, (near | np.array(active)).tolist(), number + 1


class SquaredHingeTwin(HingeTwin):
    """That of the squared hinge, whose duals have no upper bound."""

    squared = True
