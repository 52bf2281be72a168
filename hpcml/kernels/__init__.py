"""The only code that imports numba: compiled passes over CSR rows and blocks of weights."""

from hpcml.kernels.cache import choose_cache

choose_cache()
