"""The only code that imports numba: compiled passes over CSR rows and blocks of weights.

    @njit
    def sums(indptr, data, out):  # arrays in, `out` last; no allocation of the size of the data
        for row in range(indptr.size - 1):
            out[row] = data[indptr[row] : indptr[row + 1]].sum()

Kernels use this `njit`, which releases the GIL so that the thread that ends a program in time can run. Kernels of one package lie
in that package; shared ones lie here, by subject, and hand-written instructions in `lanes`. `cache` stores compiled kernels.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from hpcml.errors import ConfigError
from hpcml.loading import KERNEL_BYTES, in_program, in_time, lacking

if lack := lacking(KERNEL_BYTES):
    raise ConfigError(lack)
with in_time():
    import numba
    import numba.extending

if numba.config.DISABLE_JIT:
    raise ConfigError("NUMBA_DISABLE_JIT is set, but hpcml's kernels work only if numba compiles them; unset it")

from hpcml.kernels.cache import CompiledOnce, choose_cache

choose_cache()
if in_program:  # numba would read the entry points of all installed packages for extensions, of which no kernel uses one
    numba.core.entrypoints._already_initialized = True


def njit(function: Callable | None = None, **options: Any) -> Any:
    if function is None:
        return partial(njit, **options)
    kernel = numba.njit(function, error_model="numpy", nogil=True, **options)
    kernel._cache = CompiledOnce(function)
    return kernel


def by_constant(choose: Callable[[Any], Any]) -> Any:
    """Return a function for kernels: f(constant, ...) calls choose(constant)(...), chosen at compile time.

    The constant is in the kernel's closure, so numba caches one form per constant; a closure over the chosen kernel would be
    recompiled in every process.
    """

    def chosen(constant, *arguments):
        raise NotImplementedError

    @numba.extending.overload(chosen, prefer_literal=True, jit_options={"forceinline": True})
    def choice(constant, *arguments):  # no annotations, like the function that it returns
        if not isinstance(constant, numba.types.Literal):  # numba retries without the constant after a failure
            return None
        kernel = choose(constant.literal_value)
        return lambda constant, *arguments: kernel(*arguments)

    return chosen
