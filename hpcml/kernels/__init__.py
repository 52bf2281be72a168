"""The only code that imports numba: compiled passes over CSR rows and blocks of weights.

    @njit
    def sums(indptr, data, out):  # arrays in, `out` last; no allocation of the size of the data
        for row in range(indptr.size - 1):
            out[row] = data[indptr[row] : indptr[row + 1]].sum()

Kernels get `njit` from here. They let go of Python's lock, so that other threads (the one that ends
a program in time) can run. A kernel that one room alone needs lies in that room; those that several
share lie here, by subject: `rows`, `scores`, `top`, `text`, `density`, `tree`. Instructions written
by hand are in `lanes`. `cache` keeps compiled kernels for the next process. Begin with `rows`.
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
    import numba.extending
    import scipy.linalg.cython_blas  # noqa: F401 - which numba loads with the first kernel

if numba.config.DISABLE_JIT:
    raise ConfigError("NUMBA_DISABLE_JIT is set, but hpcml's kernels work only if numba compiles them; unset it")

from hpcml.kernels.cache import CompiledOnce, choose_cache

choose_cache()


def njit(function: Callable | None = None, **options: Any) -> Any:
    """numba's decorator, with what all kernels have."""
    if function is None:
        return partial(njit, **options)
    kernel = numba.njit(function, error_model="numpy", nogil=True, **options)
    kernel._cache = CompiledOnce(function)
    return kernel


def by_constant(choose: Callable[[Any], Any]) -> Any:
    """Return a function f that kernels can call: f(constant, ...) is choose(constant)(...), chosen when the kernel is compiled.

    The constant is a number or a text of the closure that the kernel is, so numba keeps a form of the kernel for each. A closure
    over the chosen kernel itself would be compiled anew in every process.
    """

    def chosen(constant, *given):
        raise NotImplementedError

    @numba.extending.overload(chosen, prefer_literal=True, jit_options={"forceinline": True})
    def choice(constant, *given):  # without types, as the function that it returns
        if not isinstance(constant, numba.types.Literal):  # numba asks without the constant if it fails with it
            return None
        kernel = choose(constant.literal_value)
        return lambda constant, *given: kernel(*given)

    return chosen
