"""Logistic regression by dual coordinate descent row by row (Yu, Huang & Lin 2011), and its certificate by numpy.

The dual of ½‖w‖² + Σ C log(1 + exp(−y w·x)): maximise −½‖Σ α y x‖² − Σ [α log α + (C − α) log(C − α) − C log C], 0 < α < C.
"""

import math

import numpy as np
from scipy.special import entr, expit

from support.oracles_dual import CLOSE, INNER, SWEEPS, DualTwin, Solution, order

U_OF_ZERO = -45.0  # log(α / (C − α)) of a dual that is as good as 0


def certificate(X, sign, C, w, u):
    """(primal, dual) objectives of weights w and of the duals α = C σ(u)."""
    share = expit(u)
    v = (sign * C * share) @ X
    primal = 0.5 * w @ w + (C * np.logaddexp(0, -sign * (X @ w))).sum()
    return primal, (C * (entr(share) + entr(expit(-u)))).sum() - 0.5 * v @ v


def sigmoid(u):
    return 1 / (1 + math.exp(-u)) if u > -700 else 0.0


def root(margin, kappa, u):
    """Where margin + κ (σ(v) − σ(u)) + v = 0, as near as a step goes: a tenth of the value at u."""
    a, v, rest = sigmoid(u), u, margin + u
    is_below = margin + kappa * (0.5 - a) > 0
    for _ in range(50):
        b = sigmoid(v)
        v -= rest / (1 + kappa * b * (1 - b))
        v = min(v, 0.0) if is_below else max(v, 0.0)
        rest = margin + kappa * (sigmoid(v) - a) + v
        if abs(rest) <= 0.1 * abs(margin + u):
            break
    return v


class LogisticTwin(DualTwin):
    """The twin of the logistic loss."""

    def _passes(self, w, u, number, before, limit):
        """At most so many passes of a round, in place: the largest gradients of each, and whether the label is ready."""
        found = []
        while len(found) < limit:
            most = 0.0
            for i in order(len(self.X), self.seed, number, len(found)):
                margin = float(self.sign[i] * (self.X[i] @ w))
                most = max(most, abs(margin + u[i]))
                if abs(margin + u[i]) <= 8 * np.finfo(float).eps * (1 + abs(u[i])):
                    continue
                v = root(margin, self.C[i] * self.norms[i], u[i])
                w += self.sign[i] * self.C[i] * (sigmoid(v) - sigmoid(u[i])) * self.X[i]
                u[i] = v
            found.append(most)
            last = [*before, *found][-2] if len(before) + len(found) > 1 else math.inf
            expected = most * min(1.0, most / last) if last else most
            if expected <= INNER * self.tol or len(before) + len(found) >= self.max_steps:
                return found, True
        return found, False

    def solve(self, sign, weight=1.0):
        """Train the label that the rows with sign > 0 have, from the solution of the label that none has."""
        w, u, steps, ready, number = np.zeros(self.X.shape[1]), np.full(len(self.X), U_OF_ZERO), [], False, 0
        self._label(-np.ones(len(self.X)), 1.0)
        while not ready:
            more, ready = self._passes(w, u, 0, steps, self.max_steps)
            steps += more
        w += (self.C * expit(u) * (sign > 0)) @ self.X
        u[sign > 0] = U_OF_ZERO
        self._label(sign, weight)
        steps = []
        while True:
            more, _ = self._passes(w, u, number, steps, SWEEPS << number)
            steps += more
            w = (self.sign * self.C * expit(u)) @ self.X
            primal, dual = certificate(self.X, self.sign, self.C, w, u)
            violation = np.abs(self.sign * (self.X @ w) + u).max()
            gap = max(0.0, primal - dual) / primal
            converged = violation <= self.tol or gap <= CLOSE * self.tol
            if converged or len(steps) >= self.max_steps:
                return Solution(w, self.lam * primal, gap, converged, [*steps[:-1], violation])
            number += 1
