"""GPU versions of `KernelDensities` and `GaussianDensities`.

Training runs on the CPU and gives the same bits. The GPU sums the log densities of rows; confidences differ from the CPU's by less
than 1e-6. Files do not record the device: a saved classifier scores on the CPU.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.errors import DataError, OptionError
from hpcml.kernels.density import reach
from hpcml.model.densities import FLOOR, GaussianDensities, JointBayes, KernelDensities
from hpcml.model.learner import one_line

# Share of the device's free memory for one block of rows. Several ranks of a node may use the same device.
_MEMORY_SHARE = 0.25
_MAX_BLOCK_ROWS = 1 << 22
_DEVICE_ARRAYS: WeakKeyDictionary[Any, tuple[Any, ...]] = WeakKeyDictionary()  # of each classifier


def choose_device(comm: mpi.Comm) -> None:
    """Assign the GPUs of a node to its ranks, round robin. Collective over `comm`. Raises ConfigError if there is none."""
    with mpi.on_node(comm) as node:
        node_rank = node.rank
    with mpi.agreed(comm, "looking for a GPU"):
        try:
            from hpcml.kernels import device
        except ImportError as error:
            raise OptionError("device", "gpu", f"numba has no CUDA ({error}); install it: pip install 'hpcml[gpu]'") from None
        n_devices = device.count()
        if n_devices == 0:
            raise OptionError("device", "gpu", "no CUDA device or driver found on a node; remove it to use the CPU")
        if not device.HAS_PACKAGE:
            raise OptionError("device", "gpu", "numba-cuda is not installed; install it: pip install 'hpcml[gpu]'")
        with _device_errors():
            device.select(node_rank % n_devices)


@contextmanager
def _device_errors() -> Iterator[None]:
    from hpcml.kernels import device

    try:
        yield
    except device.CompilationError as error:
        raise DataError(f"GPU scoring failed: {one_line(error)}; install hpcml[gpu] or use --device cpu") from None
    except device.ERRORS as error:
        raise DataError(f"GPU scoring failed: {one_line(error)}; use fewer ranks per device, or --device cpu") from None


class _OnGpu(JointBayes):
    """Base class: rows are copied to the device block by block."""

    def _arrays_on_device(self) -> tuple[Any, ...]:
        """Return the kernels for dense and for CSR rows, the device arrays, and log P(0 | c) (n_features, n_classes)."""
        raise NotImplementedError

    def _joint_on_device(self, X: Any) -> Iterator[tuple[slice, Any]]:
        from hpcml.kernels import device

        if self not in _DEVICE_ARRAYS:
            _DEVICE_ARRAYS[self] = self._arrays_on_device()
        dense, sparse, arrays, zeros = _DEVICE_ARRAYS[self]
        n_classes, n_rows = self.classes_.size, X.shape[0]
        is_sparse = sp.issparse(X)
        priors = device.to_device(self.class_log_prior_ + zeros.sum(axis=0) if is_sparse else self.class_log_prior_)
        if is_sparse:
            zeros = device.to_device(zeros)
            row_bytes = X.nnz * (X.data.itemsize + X.indices.itemsize) // max(n_rows, 1) + 8
        else:
            row_bytes = X.itemsize * X.shape[1]
        n_at_once = max(1, int(min(_MEMORY_SHARE * device.free_bytes() / (row_bytes + 8 * (n_classes + 1)), _MAX_BLOCK_ROWS)))
        for begin in range(0, n_rows, n_at_once):
            block = slice(begin, min(begin + n_at_once, n_rows))
            n = block.stop - begin
            joint = device.empty(n, n_classes)
            if is_sparse:
                part = X[block]
                rows = (device.to_device(array) for array in (part.indptr, part.indices, part.data))
                device.launch(sparse, n * n_classes, arrays, priors, zeros, *rows, joint)
            else:
                device.launch(dense, n * n_classes, arrays, priors, device.to_device(X[block]), joint)
            yield block, joint

    def predict_joint_log_proba(self, X: Any) -> np.ndarray:
        X = self._rows(X)
        out = np.empty((X.shape[0], self.classes_.size))
        with _device_errors():
            for block, joint in self._joint_on_device(X):
                joint.copy_to_host(out[block])
        return out

    def confidence(self, X: Any) -> np.ndarray:
        from hpcml.kernels import device

        X = self._rows(X)
        out = np.empty(X.shape[0])
        with _device_errors():
            for block, joint in self._joint_on_device(X):
                gaps = device.empty(joint.shape[0])
                device.launch(device.gaps, joint.shape[0], joint, gaps)
                gaps.copy_to_host(out[block])
        return out


class KernelDensitiesOnGpu(_OnGpu, KernelDensities):
    def _arrays_on_device(self) -> tuple[Any, ...]:
        from hpcml.kernels import device

        ratios = self.precision_[:, None] / np.where(self.bandwidth_ > 0, self.bandwidth_, 1.0)
        shifts = [[float(reach(ratio)) for ratio in row] for row in ratios.tolist()]  # cells of a table below the lowest value
        arrays = (
            *(self.value_count_, self.precision_, self.bandwidth_, self.low_, self.value_start_, self.value_),
            *(self.value_mass_, self.value_log_, self.table_start_, self.table_, np.array(shifts).reshape(ratios.shape)),
        )
        return *device.DENSITY, (*map(device.to_device, arrays), FLOOR), self.zero_log_


class GaussianDensitiesOnGpu(_OnGpu, GaussianDensities):
    def _arrays_on_device(self) -> tuple[Any, ...]:
        from hpcml.kernels import device

        arrays = tuple(map(device.to_device, (self.precision_, self.mean_, self.deviation_)))
        return *device.GAUSSIAN, (*arrays, FLOOR), self._zero_log()
