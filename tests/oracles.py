"""Slow textbook twins of the kernels and of Algorithm 1, straight from the formulas."""

import numpy as np


def hinge_pass(X, sign, w):
    """Σ [1 − y w·x]₊, Σ −y x over the violating rows, and their number; X dense, y = `sign`."""
    margins = sign * (X @ w)
    violating = margins < 1
    return np.maximum(0, 1 - margins).sum(), -(sign[violating][:, None] * X[violating]).sum(axis=0), violating.sum()


def hinge_objective(X, sign, w, lam):
    return lam / 2 * (w @ w) + np.maximum(0, 1 - sign * (X @ w)).mean()


def probe(f_and_g, d, gamma=2 / 3, ccf=2, epsilon=0.05, max_steps=5000):
    """Algorithm 1 as printed (with the restored bookkeeping): (f_min, w_min, list of f, φ, cycle type per step)."""
    w = np.zeros(d)
    f_before = f_min = last_f_min = 1e100
    w_min = w
    phi, upticks, iterations, cycle, last_average = gamma, 0, 0, "normal", None
    trace = []
    for _ in range(max_steps):
        iterations += 1
        f, g = f_and_g(w)
        if f > f_before:
            upticks += 1
        f_before = f
        if f < f_min:
            f_min, w_min = f, w
        if upticks == ccf:
            if cycle == "normal":
                if f_min == last_f_min:
                    phi, cycle = phi * gamma, "test"
            elif cycle == "test":
                phi = phi / gamma
                last_average = (last_f_min - f_min) / iterations
                cycle = "retest"
            elif cycle == "retest":
                if (last_f_min - f_min) / iterations <= last_average:
                    phi = phi * gamma
                cycle = "normal"
            upticks, iterations, last_f_min = 0, 0, f_min
        trace.append((f, phi, cycle))
        if phi < epsilon or not g.any():
            break
        delta = f - (1 - phi) * f_min
        w = w - delta / (g @ g) * g
    return f_min, w_min, trace
