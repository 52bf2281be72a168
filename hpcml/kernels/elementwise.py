"""The functions of `elementary` for arrays: `log(x)` is float64 with the shape of x, with the bits of the scalar functions.

Each function has its own kernel, compiled on first use.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from hpcml.kernels import by_constant, elementary, njit


def over(kernel: Callable[..., None], *inputs: ArrayLike) -> np.ndarray:
    arrays = [np.asarray(x, dtype=np.float64, order="C") for x in inputs]
    out = np.empty(np.broadcast_shapes(*(x.shape for x in arrays)))
    kernel(*((x if x.shape == out.shape else np.array(np.broadcast_to(x, out.shape))).reshape(-1) for x in arrays), out.reshape(-1))
    return out


def _over_array(name: str) -> Callable[[ArrayLike], np.ndarray]:
    @njit
    def fill(x, out):
        for i in range(x.size):
            out[i] = _function(name, x[i])

    return lambda x: over(fill, x)


_function = by_constant(lambda name: getattr(elementary, name))
exp, expm1, log, log1p, log2, erfc, sigmoid, softplus = map(
    _over_array, ("exp", "expm1", "log", "log1p", "log2", "erfc", "sigmoid", "softplus")
)


@njit
def _power(x, y, out):
    for i in range(x.size):
        out[i] = elementary.power(x[i], y[i])


def power(x: ArrayLike, y: ArrayLike) -> np.ndarray:
    return over(_power, x, y)
