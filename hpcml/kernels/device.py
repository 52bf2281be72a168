"""Naive Bayes scores on a GPU with numba-cuda: the sums of `density`, `gaussian` and `joint`, in double precision.

Each thread adds up the features of one row and class in the order of the CPU; `gaps` uses a thread per row. The last bits differ
from those of the CPU, which fuses sums differently and has other implementations of exp, log and erf.

Importing this module imports numba.cuda but initialises no device. The older numba.cuda inside numba cannot compile these kernels,
so the package numba-cuda is required."""

# ruff: noqa: E402 - numba.cuda is imported after numba-cuda had the chance to replace it
import importlib
import math
from contextlib import suppress
from types import FunctionType

import numpy as np

from hpcml.kernels import density, gaussian
from hpcml.kernels.density import PER_BANDWIDTH, PRODUCT
from hpcml.kernels.rows import first_at_least

NAME = "numba"  # compiler
with suppress(ImportError):
    # Replaces numba.cuda by numba-cuda. Python loads this redirector at its start, but not from folders added by a .pth file.
    importlib.import_module("_numba_cuda_redirector")
    NAME = f"numba-cuda {importlib.import_module('numba_cuda').__version__}"
from numba import config, cuda
from numba.cuda.cudadrv import driver, error

THREADS = 128  # per block
ERRORS = (driver.CudaAPIError, error.CudaSupportError)
HAS_PACKAGE = bool(config.ENABLE_CUDASIM) or "numba_cuda" in cuda.__file__  # the simulator needs none


class CompilationError(Exception):
    """numba-cuda could not compile a kernel."""


def _of_cpu(kernel):
    """A CPU kernel compiled for the device, with erfc of the device."""
    names = {**kernel.py_func.__globals__, "erfc": math.erfc}
    return cuda.jit(device=True)(FunctionType(kernel.py_func.__code__, names))


_cell_mass, _mass_in_table, _first_at_least, _below = map(
    _of_cpu, (density.cell_mass, density.mass_in_table, first_at_least, gaussian.below)
)


def count() -> int:
    """Return the number of devices; 0 without a driver."""
    return len(cuda.gpus) if cuda.is_available() else 0


def select(number: int) -> None:
    cuda.select_device(number)


def free_bytes() -> float:
    """Return the free memory of the device; infinite in the simulator."""
    return float(cuda.current_context().get_memory_info()[0])


def to_device(array: np.ndarray):
    """Return a copy on the device; an empty array becomes one element, since CUDA has no empty arrays."""
    return cuda.to_device(np.ascontiguousarray(array) if array.size else np.zeros((1,) * array.ndim, array.dtype))


def empty(*shape: int):
    return cuda.device_array(shape, np.float64)


def launch(kernel, n_threads: int, *arguments) -> None:
    """Run a kernel with at least `n_threads` threads. Raises one of ERRORS, or CompilationError."""
    try:
        if n_threads:
            kernel[-(-n_threads // THREADS), THREADS](*arguments)
    except ERRORS:
        raise
    except Exception as error:  # numba raises its own, and TypeError, ValueError, AssertionError
        raise CompilationError(f"{NAME} could not compile the kernel ({error})") from error


@cuda.jit(device=True)
def _rint(x):
    """Round to the nearest integer, ties to even."""
    whole = math.floor(x)
    rest = x - whole
    if rest > 0.5 or (rest == 0.5 and whole % 2.0 != 0.0):
        return whole + 1.0
    return whole


@cuda.jit(device=True)
def _sum_values(starts, values, masses, precision, bandwidth, j, c, v):
    """P(v | c) of a feature with stored values."""
    total = 0.0
    for i in range(starts[j], starts[j + 1]):
        if masses[i, c] > 0:
            total += masses[i, c] * _cell_mass(v - _rint(values[i] / precision) * precision, precision, bandwidth)
    return total


@cuda.jit(device=True)
def _density(density, j, c, v):
    """P'(v | c) of feature j, as a logarithm to add and a factor ≥ `floor`."""
    counts, precisions, bandwidths, lows, starts, values, masses, logs, table_starts, tables, shifts, floor = density
    if counts[j] < 2:
        return 0.0, 1.0
    precision, bandwidth, end = precisions[j], bandwidths[j, c], starts[j + 1]
    at = _first_at_least(values, starts[j], end, v)
    if at < end and values[at] == v:
        return logs[at, c], 1.0
    v = _rint(v / precision) * precision
    if starts[j] < end:
        mass = _sum_values(starts, values, masses, precision, bandwidth, j, c, v)
    else:
        k = j * bandwidths.shape[1] + c
        position = (v - lows[j, c]) * (PER_BANDWIDTH / bandwidth) + shifts[j, c]  # `shift` cells lie below the minimum
        mass = _mass_in_table(tables, table_starts[k], table_starts[k + 1], position)
    return 0.0, max(mass / precision, floor)


@cuda.jit(device=True)
def _gaussian(gaussians, j, c, v):
    """P(v | c) of feature j, as `_density`."""
    precisions, means, deviations, floor = gaussians
    precision = precisions[j]
    away = (_rint(v / precision) * precision if precision > 0 else v) - means[j, c]
    half, deviation = precision / 2, deviations[j, c]
    return 0.0, max(_below((away + half) / deviation) - _below((away - half) / deviation), floor)


def _kernels(terms):
    """Kernels for dense rows, with one logarithm per PRODUCT factors, and for sparse rows; see `_density` for `terms`."""

    @cuda.jit
    def add_dense(densities, priors, X, out):
        """out[i, c] = priors[c] + Σ_j log P(X[i, j] | c)."""
        i, c = divmod(cuda.grid(1), out.shape[1])
        if i >= out.shape[0]:
            return
        total, product = priors[c], 1.0
        for j in range(X.shape[1]):
            logarithm, factor = terms(densities, j, c, np.float64(X[i, j]))
            total += logarithm
            product *= factor
            if j % PRODUCT == PRODUCT - 1:
                total += math.log(product)
                product = 1.0
        out[i, c] = total + math.log(product)

    @cuda.jit
    def add_sparse(densities, priors, zeros, indptr, indices, data, out):
        """out[i, c] = priors[c] + Σ log P(x_j | c) − zeros[j, c] over the stored x_j of row i."""
        i, c = divmod(cuda.grid(1), out.shape[1])
        if i >= out.shape[0]:
            return
        total = priors[c]
        for k in range(indptr[i], indptr[i + 1]):
            logarithm, factor = terms(densities, indices[k], c, np.float64(data[k]))
            total += logarithm + math.log(factor) - zeros[indices[k], c]
        out[i, c] = total

    return add_dense, add_sparse


DENSITY, GAUSSIAN = _kernels(_density), _kernels(_gaussian)


@cuda.jit
def gaps(joint, out):
    """out[i] = largest p(c | row i) minus the second largest."""
    i = cuda.grid(1)
    if i >= out.shape[0]:
        return
    first, second = -math.inf, -math.inf
    for c in range(joint.shape[1]):
        value = joint[i, c]
        if value > first:
            first, second = value, first
        elif value > second:
            second = value
    whole = 0.0
    for c in range(joint.shape[1]):
        whole += math.exp(joint[i, c] - first)
    out[i] = (1.0 - math.exp(second - first)) / whole
