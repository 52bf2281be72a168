"""Dual coordinate descent row by row (Hsieh et al. 2008), in Python's numbers: what `dual` does with one label on one rank."""

import math
from dataclasses import dataclass

import numpy as np

from hpcml import rng

MASK = 2**64 - 1
SWEEPS = 10
INNER = 0.6  # of the tolerance: for the rows still looked at


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
    alpha: np.ndarray
    f: float
    gap: float
    violation: float  # the range of the projected gradients of all rows
    steps: int
    violations: list[float]  # of every pass; the last one of all rows


class Twin:
    """The rows X (dense, in columns) with a label's signs; C of a row is its weight / (λ m)."""

    def __init__(self, X, lam, squared, tol, seed=0, max_gap=math.inf, max_steps=1000):
        self.X, self.lam, self.squared, self.tol, self.seed = X, lam, squared, tol, seed
        self.max_gap, self.max_steps = max_gap, max_steps
        self.sparse = [[(j, v) for j, v in enumerate(row) if v != 0] for row in X.tolist()]
        self.norms = [sum(v * v for _, v in row) for row in self.sparse]

    def _label(self, sign, weight):
        base = 1 / (self.lam * len(self.X))
        self.sign = np.where(sign > 0, 1.0, -1.0)
        self.C = np.where(sign > 0, base * weight, base)
        self.top = np.full(len(self.X), math.inf) if self.squared else self.C
        self.diagonal = 0.5 / self.C if self.squared else np.zeros(len(self.X))

    def _pass(self, w, alpha, active, highest, lowest, rows):
        """One pass, in place. The extremes (0 among them) of the projected gradients before each step."""
        most = least = 0.0
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
            if projected == 0:
                continue
            curvature = self.norms[i] + self.diagonal[i]
            alpha[i] = min(max(a - gradient / curvature, 0.0), top) if curvature else top
            for j, v in self.sparse[i]:
                w[j] += (alpha[i] - a) * y * v
        return most, least

    def _descend(self, w, alpha, active, tolerance, number, steps, limit):
        """Passes of round `number`, at most `limit`, until the active rows have converged: the passes' ranges, and whether."""
        highest, lowest, ranges = math.inf, -math.inf, []
        while True:
            most, least = self._pass(w, alpha, active, highest, lowest, order(len(self.X), self.seed, number, len(ranges)))
            ranges.append(most - least)
            highest, lowest = most or math.inf, least or -math.inf
            ready = ranges[-1] <= tolerance or steps + len(ranges) >= self.max_steps
            if ready or len(ranges) == limit:
                return ranges, ready

    def certificate(self, w, alpha):
        """f, the relative duality gap, and the projected gradients of all rows."""
        short = np.maximum(0, 1 - self.sign * (self.X @ w))
        primal = 0.5 * w @ w + (self.C * (short**2 if self.squared else short)).sum()
        dual = alpha.sum() - 0.5 * w @ w - 0.5 * (self.diagonal * alpha**2).sum()
        gradient = self.sign * (self.X @ w) - 1 + self.diagonal * alpha
        projected = np.where(alpha == 0, np.minimum(gradient, 0), np.where(alpha == self.top, np.maximum(gradient, 0), gradient))
        far = ((alpha == 0) & (gradient > self.tol)) | ((alpha == self.top) & (gradient < -self.tol))
        return self.lam * primal, max(0.0, primal - dual) / primal, projected, ~far

    def solve(self, sign, weight=1.0):
        """Train the label that the rows with sign > 0 have."""
        n, d = self.X.shape
        self._label(-np.ones(n), 1.0)  # the label that nobody has
        w, alpha = np.zeros(d), np.zeros(n)
        self._descend(w, alpha, [True] * n, INNER * self.tol, 0, 0, self.max_steps)
        self._label(sign, weight)
        w += (alpha * (sign > 0)) @ self.X  # they were negative
        alpha[sign > 0] = 0
        active, tolerance, ranges, number = [True] * n, self.tol, [], 0
        while True:
            more, ready = self._descend(w, alpha, active, INNER * tolerance, number, len(ranges), SWEEPS << number)
            ranges += more
            w = (self.sign * alpha) @ self.X
            f, gap, projected, near = self.certificate(w, alpha)
            violation = max(projected.max(), 0) - min(projected.min(), 0)
            if (violation <= tolerance and gap <= self.max_gap) or len(ranges) >= self.max_steps:
                ranges[-1] = violation
                return Solution(w, alpha, f, gap, violation, len(ranges), ranges)
            tolerance = tolerance / 2 if violation <= tolerance else tolerance
            active = (near | (np.array(active) & (not ready))).tolist()
            number += 1


def objective(X, sign, w, lam, squared=False, weight=1.0):
    """λ/2 ‖w‖² + (1/m) Σ c ℓ with weights c of positive rows; X dense or sparse, in float64."""
    short = np.maximum(0, 1 - sign * (X @ w))
    return lam / 2 * (w @ w) + (np.where(sign > 0, weight, 1.0) * (short**2 if squared else short)).mean()
