"""Slow reference implementations of kernels and of Algorithm 1."""

from functools import partial

import numpy as np
from scipy.special import ndtr

LOSSES = {  # loss -> (value, slope) of the margin z, by their definitions
    "hinge": lambda z: (max(0.0, 1 - z), -1.0 if z < 1 else 0.0),
    "huber": lambda z: (0.0, 0.0) if z >= 1 else ((1 - z) ** 2, -2 * (1 - z)) if z >= -1 else (-4 * z, -4.0),
    "logistic": lambda z: (float(np.logaddexp(0, -z)), -float(np.exp(-np.logaddexp(0, z)))),
}


def pass_over_rows(loss, X, sign, w):
    """Σ ℓ(y w·x), Σ ℓ′ y x, and the number of rows with ℓ′ ≠ 0; X dense, y = `sign`."""
    pairs = [LOSSES[loss](z) for z in sign * (X @ w)]
    values, slopes = np.array(pairs).reshape(-1, 2).T
    return values.sum(), (slopes * sign) @ X, (slopes != 0).sum()


def sleep(key, row, step):
    """Steps that a row sleeps: SplitMix64's finaliser on key, row and step, in Python's integers."""
    mask = 2**64 - 1
    x = key ^ ((row * 0x9E3779B97F4A7C15 + step * 0xC2B2AE3D27D4EB4F) & mask)
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return 5 + ((x >> 32) * 11 >> 32)


class DormantRows:
    """Which rows a label visits, row by row."""

    def __init__(self, n_rows, key, first=0):
        self.key, self.first = key, first
        self.quiet, self.until = [0] * n_rows, [None] * n_rows  # until: the step at which a dormant row is tested

    def awake(self, step):
        return np.array([until is None or until == step for until in self.until])

    def visit(self, step, violates):
        for row, awake in enumerate(self.awake(step)):
            if not awake:
                continue
            if violates[row]:
                self.quiet[row], self.until[row] = 0, None
                continue
            self.quiet[row] += 1
            if self.until[row] is not None or self.quiet[row] == 10:
                self.until[row] = step + 1 + sleep(self.key, self.first + row, step)


VALUES = {  # loss -> its values at many margins
    "hinge": lambda z: np.maximum(0, 1 - z),
    "squared-hinge": lambda z: np.maximum(0, 1 - z) ** 2,
    "huber": lambda z: np.where(z >= -1, np.maximum(0, 1 - z) ** 2, -4 * z),
    "logistic": lambda z: np.logaddexp(0, -z),
    "squared": lambda z: (1 - z) ** 2 / 2,
}


def objective(loss, X, sign, w, lam, weight=1.0):
    """λ/2 ‖w‖² + (1/m) Σ c ℓ(y w·x) with weights c of positive rows; X dense or sparse, y = `sign`."""
    return lam / 2 * (w @ w) + (np.where(sign > 0, weight, 1.0) * VALUES[loss](sign * (X @ w))).mean()


hinge_objective = partial(objective, "hinge")


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


def kernel_log_densities(x, labels, weights, queries):
    """log P'(v | c) of one feature, (queries, classes), by a sum over all training values (see `KernelNB`)."""
    values = np.unique(x[weights > 0])
    out = np.zeros((len(queries), labels.max() + 1))
    if len(values) == 1:
        return out
    gap = max((values[-1] - values[0]) / (len(values) - 1), 1e-6)
    weights = weights * max(1, (weights > 0).sum() / weights.sum())
    for c in range(out.shape[1]):
        mine = (labels == c) & (weights > 0)
        own, w = np.rint(x[mine] / gap) * gap, weights[mine]
        h = max((own.max() - own.min()) / np.sqrt(w.sum()), gap / 6)
        distances = np.abs(np.rint(np.asarray(queries) / gap)[:, None] * gap - own)  # the lower tails keep their digits
        mass = (ndtr((gap / 2 - distances) / h) - ndtr((-gap / 2 - distances) / h)) @ w / w.sum()
        out[:, c] = np.log(np.maximum(mass / gap, 1e-75))
    return out


def gaussian_naive_bayes(X, labels, weights, queries):
    """Joint log-probabilities (queries, classes) as Weka's NormalEstimator has them, value by value."""
    weights = weights * max(1, np.count_nonzero(weights) / weights.sum())
    out = []
    for query in queries:
        for c in range(labels.max() + 1):
            total = np.log((weights[labels == c].sum() + 1) / (weights.sum() + labels.max() + 1))
            for j, x in enumerate(X.T):
                values = np.unique(x[weights > 0])
                gap = (values[-1] - values[0]) / (len(values) - 1) if len(values) > 1 else 0.01
                own, w = np.rint(x[labels == c] / gap) * gap, weights[labels == c]
                mean = np.average(own, weights=w)
                deviation = max(np.sqrt(np.average((own - mean) ** 2, weights=w)), gap / 6)
                away = np.rint(query[j] / gap) * gap - mean
                total += np.log(max(ndtr((away + gap / 2) / deviation) - ndtr((away - gap / 2) / deviation), 1e-75))
            out.append(total)
    return np.reshape(out, (len(queries), -1))


def kernel_naive_bayes(X, labels, weights, queries):
    """Joint log-probabilities (queries, classes) of the model of `KernelNB`; X and queries dense."""
    scaled = weights * max(1, (weights > 0).sum() / weights.sum())
    prior = np.bincount(labels, scaled) + 1
    columns = zip(X.T, queries.T, strict=True)
    return np.log(prior / prior.sum()) + sum(kernel_log_densities(x, labels, weights, v) for x, v in columns)
