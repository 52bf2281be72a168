"""The functions of `elementary` for arrays: `log(x)` is float64 of x's shape.

Each function has a kernel of its own, compiled when it is first used. The bits are those of single
numbers.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from hpcml.kernels import elementary, njit


def over(kernel: Callable[..., None], *given: ArrayLike) -> np.ndarray:
    """Apply a kernel to arrays (float64, broadcast), element by element."""
    arrays = [np.asarray(x, dtype=np.float64, order="C") for x in given]
    out = np.empty(np.broadcast_shapes(*(x.shape for x in arrays)))
    kernel(*((x if x.shape == out.shape else np.array(np.broadcast_to(x, out.shape))).reshape(-1) for x in arrays), out.reshape(-1))
    return out


def _over_array(code: int) -> Callable[[ArrayLike], np.ndarray]:
    @njit
    def fill(x, out):
        for i in range(x.size):  # `code` is a constant; a closure over a kernel would miss numba's cache in every process
            if code == 0:
                out[i] = elementary.exp(x[i])
            elif code == 1:
                out[i] = elementary.expm1(x[i])
            elif code == 2:
                out[i] = elementary.log(x[i])
            elif code == 3:
                out[i] = elementary.log1p(x[i])
            elif code == 4:
                out[i] = elementary.log2(x[i])
            elif code == 5:
                out[i] = elementary.erf(x[i])
            elif code == 6:
                out[i] = elementary.erfc(x[i])
            elif code == 7:
                out[i] = elementary.sigmoid(x[i])
            elif code == 8:
                out[i] = elementary.softplus(x[i])
            elif code == 9:
                out[i] = elementary.sin(x[i])
            else:
                out[i] = elementary.cos(x[i])

    return lambda x: over(fill, x)


exp, expm1, log, log1p, log2, erf, erfc, sigmoid, softplus, sin, cos = map(_over_array, range(11))


@njit
def _power(x, y, out):
    for i in range(x.size):
        out[i] = elementary.power(x[i], y[i])


def power(x: ArrayLike, y: ArrayLike) -> np.ndarray:
    """Return x^y, for x ≥ 0."""
    return over(_power, x, y)
