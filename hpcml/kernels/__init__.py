"""The only code that imports numba: compiled passes over CSR rows and blocks of weights.

Kernels get `njit` from here. They let go of Python's lock, so that other threads (the one that ends a program in time) can run.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numba

from hpcml.kernels.cache import CompiledOnce, choose_cache

choose_cache()


def njit(function: Callable | None = None, **options: Any) -> Any:
    """numba's decorator, with what all kernels have."""
    if function is None:
        return partial(njit, **options)
    kernel = numba.njit(function, error_model="numpy", nogil=True, **options)
    kernel._cache = CompiledOnce(function)
    return kernel
