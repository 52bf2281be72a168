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
def _feature_mass(density, j, c, v):
    """max(P(v | c) / δ, floor) for a value v that is not stored with feature j."""
    _counts, precisions, bandwidths, lows, starts, values, masses, _logs, table_starts, tables, shifts, floor = density
    precision, bandwidth = precisions[j], bandwidths[j, c]
    v = _rint(v / precision) * precision
    if starts[j] < starts[j + 1]:
        return max(_sum_values(starts, values, masses, precision, bandwidth, j, c, v) / precision, floor)
    k = j * bandwidths.shape[1] + c
    position = (v - lows[j, c]) * (PER_BANDWIDTH / bandwidth) + shifts[j, c]  # the first cell lies `shift` cells below the minimum
    return max(_mass_in_table(tables, table_starts[k], table_starts[k + 1], position) / precision, floor)


@cuda.jit(device=True)
def _value_at(density, j, v):
    """Index of the value v among the stored values of feature j, or −1."""
    starts, values = density[4], density[5]
    i = _first_at_least(values, starts[j], starts[j + 1], v)
    return i if i < starts[j + 1] and values[i] == v else -1


@cuda.jit
def density_dense(density, priors, X, out):
    """out[i, c] = priors[c] + Σ_j log P'(X[i, j] | c); one logarithm per group of tables."""
    i, c = divmod(cuda.grid(1), out.shape[1])
    if i >= out.shape[0]:
        return
    counts, starts, logs = density[0], density[4], density[7]
    total, product, waiting = priors[c], 1.0, 0
    for j in range(X.shape[1]):
        if counts[j] < 2:
            continue
        v = np.float64(X[i, j])
        at = _value_at(density, j, v)
        if at >= 0:
            total += logs[at, c]
        elif starts[j] < starts[j + 1]:
            total += math.log(_feature_mass(density, j, c, v))
        else:
            product *= _feature_mass(density, j, c, v)
            waiting += 1
            if waiting == PRODUCT:
                total += math.log(product)
                product, waiting = 1.0, 0
    out[i, c] = total + math.log(product)


@cuda.jit
def density_sparse(density, priors, zeros, indptr, indices, data, out):
    """out[i, c] = priors[c] + Σ log P'(x_j | c) − zeros[j, c] over the stored x_j of row i."""
    i, c = divmod(cuda.grid(1), out.shape[1])
    if i >= out.shape[0]:
        return
    counts, logs = density[0], density[7]
    total = priors[c]
    for k in range(indptr[i], indptr[i + 1]):
        j = indices[k]
        if counts[j] < 2:
            continue
        v = np.float64(data[k])
        at = _value_at(density, j, v)
        total -= zeros[j, c]
        total += logs[at, c] if at >= 0 else math.log(_feature_mass(density, j, c, v))
    out[i, c] = total


@cuda.jit(device=True)
def _gaussian_log(gaussians, j, c, v):
    """log P(v | c) of feature j."""
    precisions, means, deviations, floor = gaussians
    precision = precisions[j]
    away = (_rint(v / precision) * precision if precision > 0 else v) - means[j, c]
    half, deviation = precision / 2, deviations[j, c]
    return math.log(max(_below((away + half) / deviation) - _below((away - half) / deviation), floor))


@cuda.jit
def gaussian_dense(gaussians, priors, X, out):
    """out[i, c] = priors[c] + Σ_j log P(X[i, j] | c)."""
    i, c = divmod(cuda.grid(1), out.shape[1])
    if i >= out.shape[0]:
        return
    total = priors[c]
    for j in range(X.shape[1]):
        total += _gaussian_log(gaussians, j, c, np.float64(X[i, j]))
    out[i, c] = total


@cuda.jit
def gaussian_sparse(gaussians, priors, zeros, indptr, indices, data, out):
    """out[i, c] = priors[c] + Σ log P(x_j | c) − zeros[j, c] over the stored x_j of row i."""
    i, c = divmod(cuda.grid(1), out.shape[1])
    if i >= out.shape[0]:
        return
    total = priors[c]
    for k in range(indptr[i], indptr[i + 1]):
        total += _gaussian_log(gaussians, indices[k], c, np.float64(data[k])) - zeros[indices[k], c]
    out[i, c] = total


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
