"""The tail of the hypergeometric distribution."""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.elementary import exp, log
from hpcml.kernels.elementwise import over

_HALF_LOG_TURN = 0.9189385332046727  # ½ log 2π
_STIRLING = 32.0  # from this number on Stirling's series is exact in float64


@njit
def _log_factorial(n):
    if n < _STIRLING:
        product = 1.0
        for k in range(2, np.int64(n) + 1):
            product *= k
        return log(product)
    z = 1.0 / (n * n)
    return (n + 0.5) * log(n) - n + _HALF_LOG_TURN + (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z / 1680.0))) / n


@njit
def _log_choose(n, k):
    return _log_factorial(n) - _log_factorial(k) - _log_factorial(n - k)


@njit
def _tail(k, n, n_marked, n_drawn):
    """P(at least k of the drawn items are marked), for n_drawn of n items without replacement."""
    if k <= max(0.0, n_drawn + n_marked - n):
        return 1.0
    if k > min(n_marked, n_drawn):
        return 0.0
    upper = k * (n + 2.0) > (n_drawn + 1.0) * (n_marked + 1.0)  # above the mode; else 1 minus the lower tail
    k = k if upper else k - 1.0
    logs = _log_choose(n_marked, k) + _log_choose(n - n_marked, n_drawn - k) - _log_choose(n, n_drawn)
    term, total = 1.0, 0.0
    while term > 1e-17 * total:
        total += term
        if upper:
            term *= (n_marked - k) * (n_drawn - k) / ((k + 1.0) * (n - n_marked - n_drawn + k + 1.0))
            k += 1.0
        else:
            term *= k * (n - n_marked - n_drawn + k) / ((n_marked - k + 1.0) * (n_drawn - k + 1.0))
            k -= 1.0
    p = exp(logs) * total
    return min(p, 1.0) if upper else max(1.0 - p, 0.0)


@njit
def _tails(n, hits, n_marked, n_drawn, out):
    for i in range(out.size):
        out[i] = _tail(hits[i], n, n_marked[i], n_drawn[i])


def hypergeometric_tail(hits: np.ndarray, n_rows: int, n_marked: np.ndarray, n_drawn: np.ndarray | int) -> np.ndarray:
    """Return the probability that at least `hits` of `n_drawn` random rows of `n_rows` are among `n_marked` rows.

    Counts are numbers or arrays of equal shape. The relative error is about 3e-15 n_rows.
    """
    return over(lambda *counts_and_out: _tails(float(n_rows), *counts_and_out), hits, n_marked, n_drawn)
