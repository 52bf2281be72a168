"""The functions of `elementary` for arrays: `log(x)` is float64 of x's shape.

An array is passed over once, by a kernel of its own for each function, which is compiled when it is
first used. The bits are those of single numbers.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from hpcml.kernels import elementary, njit


@njit
def _exp(x, out):
    for i in range(x.size):
        out[i] = elementary.exp(x[i])


@njit
def _expm1(x, out):
    for i in range(x.size):
        out[i] = elementary.expm1(x[i])


@njit
def _log(x, out):
    for i in range(x.size):
        out[i] = elementary.log(x[i])


@njit
def _log1p(x, out):
    for i in range(x.size):
        out[i] = elementary.log1p(x[i])


@njit
def _log2(x, out):
    for i in range(x.size):
        out[i] = elementary.log2(x[i])


@njit
def _erf(x, out):
    for i in range(x.size):
        out[i] = elementary.erf(x[i])


@njit
def _erfc(x, out):
    for i in range(x.size):
        out[i] = elementary.erfc(x[i])


@njit
def _sigmoid(x, out):
    for i in range(x.size):
        out[i] = elementary.sigmoid(x[i])


@njit
def _softplus(x, out):
    for i in range(x.size):
        out[i] = elementary.softplus(x[i])


@njit
def _sin(x, out):
    for i in range(x.size):
        out[i] = elementary.sin(x[i])


@njit
def _cos(x, out):
    for i in range(x.size):
        out[i] = elementary.cos(x[i])


@njit
def _power(x, y, out):
    for i in range(x.size):
        out[i] = elementary.power(x[i], y[i])


def over(kernel: Callable[..., None], *given: ArrayLike) -> np.ndarray:
    """What a kernel makes of the numbers of arrays (float64, broadcast), each place on its own."""
    arrays = [np.asarray(x, dtype=np.float64, order="C") for x in given]
    out = np.empty(np.broadcast_shapes(*(x.shape for x in arrays)))
    kernel(*((x if x.shape == out.shape else np.array(np.broadcast_to(x, out.shape))).reshape(-1) for x in arrays), out.reshape(-1))
    return out


def exp(x: ArrayLike) -> np.ndarray:
    """exp(x)."""
    return over(_exp, x)


def expm1(x: ArrayLike) -> np.ndarray:
    """exp(x) − 1."""
    return over(_expm1, x)


def log(x: ArrayLike) -> np.ndarray:
    """log(x): −∞ of 0, nan of less."""
    return over(_log, x)


def log1p(x: ArrayLike) -> np.ndarray:
    """log(1 + x): −∞ of −1, nan of less."""
    return over(_log1p, x)


def log2(x: ArrayLike) -> np.ndarray:
    """log₂(x), exact of powers of two."""
    return over(_log2, x)


def erf(x: ArrayLike) -> np.ndarray:
    """The error function."""
    return over(_erf, x)


def erfc(x: ArrayLike) -> np.ndarray:
    """1 − erf(x)."""
    return over(_erfc, x)


def sigmoid(x: ArrayLike) -> np.ndarray:
    """1 / (1 + exp(−x))."""
    return over(_sigmoid, x)


def softplus(x: ArrayLike) -> np.ndarray:
    """log(1 + exp(x))."""
    return over(_softplus, x)


def sin(x: ArrayLike) -> np.ndarray:
    """sin(x) for |x| < 2^20."""
    return over(_sin, x)


def cos(x: ArrayLike) -> np.ndarray:
    """cos(x) for |x| < 2^20."""
    return over(_cos, x)


def power(x: ArrayLike, y: ArrayLike) -> np.ndarray:
    """x^y, for x ≥ 0."""
    return over(_power, x, y)
