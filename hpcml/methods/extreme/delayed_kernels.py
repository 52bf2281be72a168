"""Compiled steps of stochastic gradient descent with delayed regularisation, for 16 labels ("lanes") that share each row.

`W` (n_columns × 16) holds the weights of column j for the lanes, brought current to step `psi[j]`: the
regularisation of the steps from psi[j] on is still to come. A step takes the gradient's move and then regularises, so that w
becomes sgn(w)·[|w| − ηλ₁]₊ / (1 + ηλ₂) (FoBoS), or sgn(w)·[(1 − ηλ₂)|w| − ηλ₁]₊ (truncated gradient).
"""

from __future__ import annotations

import math

import numpy as np

from hpcml.kernels import njit

LANES = 16
SMALL_RATE, SMALL_SHRINK = 1e-3, 1e-2  # below these a few terms of the series are exact in float64


@njit
def slopes(z: np.ndarray, positive: int, squared: bool, g: np.ndarray) -> None:
    """ℓ′ of the lanes' margins z; bit l of `positive` says whether the row has the label of lane l."""
    for lane in range(LANES):
        y = 1.0 if (positive >> lane) & 1 else -1.0
        g[lane] = z[lane] - y if squared else -y / (1.0 + math.exp(y * z[lane]))


@njit
def shrunk(w: float, factor: float, by: float) -> float:
    """sgn(w)·[factor |w| − by]₊."""
    size = abs(w) * factor - by
    return 0.0 if size <= 0.0 else math.copysign(size, w)


@njit
def tables(etas: np.ndarray, l2: float, truncated: bool, phi: np.ndarray, beta: np.ndarray) -> None:
    """Φ and B before each of the steps with these rates, and after the last (steps + 1 numbers each)."""
    phi[0], beta[0] = 1.0, 0.0
    for t in range(etas.size):
        phi[t + 1] = phi[t] * (1.0 - etas[t] * l2) if truncated else phi[t] / (1.0 + etas[t] * l2)
        beta[t + 1] = beta[t] + etas[t] / (phi[t + 1] if truncated else phi[t])


@njit
def sweep_tables(
    order: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    positive: np.ndarray,
    W: np.ndarray,
    psi: np.ndarray,
    b: np.ndarray,
    etas: np.ndarray,
    phi: np.ndarray,
    beta: np.ndarray,
    first: int,
    l1: float,
    squared: bool,
) -> None:
    """A step for each row in `order`, the steps first, first + 1 … since the tables were begun; their rates are in `etas`."""
    z, g = np.empty(LANES), np.empty(LANES)
    for s in range(order.size):
        i, k = order[s], first + s
        for lane in range(LANES):
            z[lane] = b[lane]
        for p in range(indptr[i], indptr[i + 1]):
            j, x = indices[p], data[p]
            q = psi[j]
            if q != k:
                factor = phi[k] / phi[q]
                by = phi[k] * l1 * (beta[k] - beta[q])
                psi[j] = k
                for lane in range(LANES):
                    w = W[j, lane]
                    size = abs(w) * factor - by
                    w = (size if w > 0 else -size) if size > 0 else 0.0
                    W[j, lane] = w
                    z[lane] += x * w
            else:
                for lane in range(LANES):
                    z[lane] += x * W[j, lane]
        slopes(z, positive[i], squared, g)
        for lane in range(LANES):
            g[lane] *= etas[k]
            b[lane] -= g[lane]
        for p in range(indptr[i], indptr[i + 1]):
            j, x = indices[p], data[p]
            for lane in range(LANES):
                W[j, lane] -= x * g[lane]


@njit
def flush_tables(W: np.ndarray, psi: np.ndarray, phi: np.ndarray, beta: np.ndarray, now: int, l1: float) -> None:
    """Bring all columns current to step `now` of the tables, and let that be step 0 of the next ones."""
    for j in range(psi.size):
        q = psi[j]
        if q != now:
            factor, by = phi[now] / phi[q], phi[now] * l1 * (beta[now] - beta[q])
            for lane in range(LANES):
                W[j, lane] = shrunk(W[j, lane], factor, by)
        psi[j] = 0


@njit
def catch_up(W: np.ndarray, j: int, rates: np.ndarray, n: int, l1: float, l2: float, truncated: bool) -> None:
    """Regularise a column n times, at a rate of each lane's own that does not change: in closed form.

    After n steps |w| is ρⁿ|w| − (λ₁/λ₂)(1 − ρⁿ), with ρ = 1/(1 + ηλ₂) or 1 − ηλ₂; or |w| − nηλ₁ if λ₂ = 0.
    """
    if l2 == 0.0:
        for lane in range(LANES):
            w = W[j, lane]
            size = abs(w) - n * rates[lane] * l1
            W[j, lane] = (size if w > 0 else -size) if size > 0 else 0.0
        return
    ratio, most, sign = l1 / l2, 0.0, -1.0 if truncated else 1.0
    for lane in range(LANES):
        most = max(most, rates[lane])
    if most * l2 <= SMALL_RATE and n * most * l2 <= SMALL_SHRINK:
        for lane in range(LANES):
            w, e = W[j, lane], sign * rates[lane] * l2
            u = sign * n * e * (1.0 - e * (1 / 2 - e * (1 / 3 - e * (1 / 4 - e * (1 / 5)))))  # n |log ρ|
            lost = u * (1.0 - u * (1 / 2) * (1.0 - u * (1 / 3) * (1.0 - u * (1 / 4) * (1.0 - u * (1 / 5) * (1.0 - u * (1 / 6))))))
            size = abs(w) - lost * (abs(w) + ratio)
            W[j, lane] = (size if w > 0 else -size) if size > 0 else 0.0
    else:
        for lane in range(LANES):
            lost = -math.expm1(-n * sign * math.log1p(sign * rates[lane] * l2))
            W[j, lane] = shrunk(W[j, lane], 1.0 - lost, lost * ratio)


@njit
def sweep_adagrad(
    order: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    positive: np.ndarray,
    W: np.ndarray,
    squares: np.ndarray,
    psi: np.ndarray,
    b: np.ndarray,
    b_squares: np.ndarray,
    alpha: float,
    first: int,
    l1: float,
    l2: float,
    truncated: bool,
    squared: bool,
) -> None:
    """As `sweep_tables`, at the rate α / √(Σ g²) of each column and lane; `squares` (like W) are 1 and the squares so far."""
    z, g, rates = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for s in range(order.size):
        i, k = order[s], first + s
        for lane in range(LANES):
            z[lane] = b[lane]
        for p in range(indptr[i], indptr[i + 1]):
            j, x = indices[p], data[p]
            if psi[j] != k:
                for lane in range(LANES):
                    rates[lane] = alpha / math.sqrt(squares[j, lane])
                catch_up(W, j, rates, k - psi[j], l1, l2, truncated)
                psi[j] = k
            for lane in range(LANES):
                z[lane] += x * W[j, lane]
        slopes(z, positive[i], squared, g)
        for lane in range(LANES):
            b_squares[lane] += g[lane] * g[lane]
            b[lane] -= alpha * g[lane] / math.sqrt(b_squares[lane])
        for p in range(indptr[i], indptr[i + 1]):
            j, x = indices[p], data[p]
            for lane in range(LANES):
                move = x * g[lane]
                squares[j, lane] += move * move
                W[j, lane] -= alpha * move / math.sqrt(squares[j, lane])


@njit
def flush_adagrad(
    W: np.ndarray, squares: np.ndarray, psi: np.ndarray, alpha: float, now: int, l1: float, l2: float, truncated: bool
) -> None:
    """Bring all columns current to step `now`, and let that be step 0."""
    rates = np.empty(LANES)
    for j in range(psi.size):
        if psi[j] != now:
            for lane in range(LANES):
                rates[lane] = alpha / math.sqrt(squares[j, lane])
            catch_up(W, j, rates, now - psi[j], l1, l2, truncated)
        psi[j] = 0
