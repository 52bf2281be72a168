"""Naive Bayes on a GPU, by numba-cuda: what `density`, `gaussian` and `joint` compute of rows, in
double precision.

A thread has a row and a class and adds up the features in the order that the CPU has; `gaps` has a
thread for each row. The last bits are not the CPU's, whose sums may be fused otherwise and whose
exp, log and erf are others.

Importing this module imports numba.cuda; it takes no device until one is asked for. The older
numba.cuda that numba still contains cannot compile these kernels: it must be that of numba-cuda.
"""

# ruff: noqa: E402 - numba.cuda is imported when numba-cuda may stand in its place
import importlib
import math
from contextlib import suppress
from types import FunctionType

import numpy as np

from hpcml.kernels import density, gaussian
from hpcml.kernels.density import PER_BANDWIDTH, PRODUCT
from hpcml.kernels.rows import first_at_least

NAME = "numba"  # of the compiler
with suppress(ImportError):
    # It puts numba-cuda in the place of numba.cuda. Python loads it at its start, but not from folders added by a .pth file.
    importlib.import_module("_numba_cuda_redirector")
    NAME = f"numba-cuda {importlib.import_module('numba_cuda').__version__}"
from numba import config, cuda
from numba.cuda.cudadrv import driver, error

THREADS = 128  # of a block
ERRORS = (driver.CudaAPIError, error.CudaSupportError)
HAS_PACKAGE = bool(config.ENABLE_CUDASIM) or "numba_cuda" in cuda.__file__  # the simulator needs none


class CompilationError(Exception):
    """numba-cuda could not compile a kernel."""


def _of_cpu(kernel):
    """A kernel of the CPU's, compiled for the device, with erf and erfc of the device."""
    names = {**kernel.py_func.__globals__, "erf": math.erf, "erfc": math.erfc}
    return cuda.jit(device=True)(FunctionType(kernel.py_func.__code__, names))


_cell_mass, _mass_in_table, _first_at_least, _below = map(
    _of_cpu, (density.cell_mass, density.mass_in_table, first_at_least, gaussian.below)
)


def count() -> int:
    """How many devices there are; 0 also if there is no driver."""
    return len(cuda.gpus) if cuda.is_available() else 0


def select(number: int) -> None:
    """Use this device from now on."""
    cuda.select_device(number)


def free_bytes() -> float:
    """Memory of the device that is free; the simulator has no end of it."""
    return float(cuda.current_context().get_memory_info()[0])


def to_device(array: np.ndarray):
    """An array on the device; of size 1 if it is empty, for nothing is ever read from it then."""
    return cuda.to_device(np.ascontiguousarray(array) if array.size else np.zeros((1,) * array.ndim, array.dtype))


def empty(*shape: int):
    """Room for float64 on the device."""
    return cuda.device_array(shape, np.float64)


def launch(kernel, n_threads: int, *arguments) -> None:
    """Run a kernel with at least this number of threads. Raises one of ERRORS, or CompilationError (for new types)."""
    try:
        if n_threads:
            kernel[-(-n_threads // THREADS), THREADS](*arguments)
    except ERRORS:
        raise
    except Exception as error:  # numba raises its own, and TypeError, ValueError, AssertionError
        raise CompilationError(f"{NAME} could not compile the kernel ({error})") from error


@cuda.jit(device=True)
def _rint(x):
    """The nearest whole number, of two the even one."""
    whole = math.floor(x)
    rest = x - whole
    if rest > 0.5 or (rest == 0.5 and whole % 2.0 != 0.0):
        return whole + 1.0
    return whole


@cuda.jit(device=True)
def _sum_values(starts, values, masses, precision, bandwidth, j, c, v):
    """P(v | c) of a feature with few values."""
    total = 0.0
    for i in range(starts[j], starts[j + 1]):
        if masses[i, c] > 0:
            total += masses[i, c] * _cell_mass(v - _rint(values[i] / precision) * precision, precision, bandwidth)
    return total


@cuda.jit(device=True)
def _feature_mass(density, j, c, v):
    """max(P(v | c) / δ, floor) of feature j, which has no values of its own, or not v."""
    _counts, precisions, bandwidths, lows, starts, values, masses, _logs, table_starts, tables, shifts, floor = density
    precision, bandwidth = precisions[j], bandwidths[j, c]
    v = _rint(v / precision) * precision
    if starts[j] < starts[j + 1]:
        return max(_sum_values(starts, values, masses, precision, bandwidth, j, c, v) / precision, floor)
    k = j * bandwidths.shape[1] + c
    place = (v - lows[j, c]) * (PER_BANDWIDTH / bandwidth) + shifts[j, c]  # the first cell is `shift` below the lowest value
    return max(_mass_in_table(tables, table_starts[k], table_starts[k + 1], place) / precision, floor)


@cuda.jit(device=True)
def _value_at(density, j, v):
    """Where feature j has the value v among those of its own; −1 if it has not."""
    starts, values = density[4], density[5]
    i = _first_at_least(values, starts[j], starts[j + 1], v)
    return i if i < starts[j + 1] and values[i] == v else -1


@cuda.jit
def density_dense(density, priors, X, out):
    """out[i, c] = priors[c] + Σ_j log P'(X[i, j] | c); one logarithm for a group of tables."""
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
    """out[i] = the largest p(c | row i) less the second largest."""
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
