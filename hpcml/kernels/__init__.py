"""The only code that imports numba: compiled passes over CSR rows and blocks of weights.

Kernels get `njit` from here. They let go of Python's lock, so that other threads (the one that ends a program in time) can run.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from hpcml.errors import ConfigError
from hpcml.loading import KERNEL_BYTES, in_time, lacking

if lack := lacking(KERNEL_BYTES):
    raise ConfigError(lack)
with in_time():
    import numba
    import scipy.linalg.cython_blas  # noqa: F401 - which numba loads with the first kernel

from hpcml.kernels.cache import CompiledOnce, choose_cache

choose_cache()


def njit(function: Callable | None = None, **options: Any) -> Any:
    """numba's decorator, with what all kernels have."""
    if function is None:
        return partial(njit, **options)
    kernel = numba.njit(function, error_model="numpy", nogil=True, **options)
    kernel._cache = CompiledOnce(function)
    return kernel
