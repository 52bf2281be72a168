"""The only code that imports numba: compiled passes over CSR rows and blocks of weights.

Kernels get `njit` from here. They let go of Python's lock, so that other threads (the one that ends a program in time) can run.
"""

from functools import partial

import numba

from hpcml.kernels.cache import choose_cache

choose_cache()
njit = partial(numba.njit, cache=True, error_model="numpy", nogil=True)
