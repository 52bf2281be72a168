"""LIBLINEAR's dual coordinate descent (Hsieh et al. 2008), as scikit-learn carries it, on the same objective.

LIBLINEAR minimises ½‖w‖² + C Σ ℓ, which with C = 1/(λ m) is f(w)/λ. It needs all rows on every rank; the labels are scattered
over the ranks, each of which trains one at a time.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import deque

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.errors import ConfigError
from hpcml.methods.liblinear.options import LiblinearOptions
from hpcml.methods.linear.block import CONVERGED, STEP_LIMIT, Finished
from hpcml.methods.linear.objective import Objective

MAX_VALUES = 2**31 - 1  # LIBLINEAR counts values in int32


class LiblinearBlock:
    """The labels of one rank (`hpcml.methods.linear.run.Block`). A label is never half done: there is nothing for a checkpoint."""

    packing = None

    def __init__(self, objective: Objective, labels: np.ndarray, tolerance: float, seed: int, max_steps: int) -> None:
        """`labels` are the numbers in the data of all labels of the run. Raises MemoryError, ConfigError for too much data."""
        rows = objective.rows
        if rows.data.size > MAX_VALUES:
            raise ConfigError(f"the rows have {rows.data.size:,} values, but liblinear can take {MAX_VALUES:,}: try another method")
        from sklearn.svm import LinearSVC  # takes seconds: not for the other methods

        self.objective, self.labels, self.max_steps = objective, labels, max_steps
        self.solver = LinearSVC(
            loss="hinge",
            C=1.0 / (objective.lam * rows.n_global),
            fit_intercept=False,  # a bias is a column of the rows
            tol=tolerance,
            max_iter=max_steps,
            random_state=seed,
        )
        indptr = rows.indptr.astype(np.int32)
        self.matrix = sp.csr_matrix((rows.data.astype(np.float64), rows.indices, indptr), (rows.n_local, rows.n_columns))
        self.waiting: deque[int] = deque()

    @property
    def busy(self) -> bool:
        """Whether there is anything left to train."""
        return bool(self.waiting)

    def warm_up(self) -> None:
        """Compile the kernels. Local."""
        self.objective.warm_up()

    def fill(self) -> None:
        """Nothing: a label begins and ends in one turn."""

    @mpi.collective
    def settle(self) -> None:
        """Collective. Nothing is ever on its way."""

    @mpi.collective
    def turn(self, seconds: float) -> list[Finished]:
        """Collective over the group, which is one rank. One label from its beginning to its end."""
        label, begin = self.waiting[0], time.monotonic()
        number = int(self.labels[label])
        with self.objective.profile("compute"):
            w, steps = self._fit(number)
        with self.objective.profile("finish"):
            f = self.objective.value(w, number)
        self.waiting.popleft()
        n_rows, status = self.objective.rows.n_global, STEP_LIMIT if steps >= self.max_steps else CONVERGED
        line = (steps, f, math.nan, 0, math.nan, math.nan, n_rows, math.nan, seconds + time.monotonic() - begin)
        return [Finished(label, w, f, status, steps, 1.0, [line])]

    def _fit(self, number: int) -> tuple[np.ndarray, int]:
        """w (n_columns) in the precision of the model, and the number of passes over the rows (shrinking not counted). Local."""
        from sklearn.exceptions import ConvergenceWarning

        rows = self.objective.rows
        y = np.full(rows.n_local, -1)
        y[rows.rows_of(number)] = 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the label's status says it
            self.solver.fit(self.matrix, y)
        return self.solver.coef_[0].astype(self.objective.weight_type), int(self.solver.n_iter_)


def liblinear(objective: Objective, labels: np.ndarray, n_lanes: int, options: LiblinearOptions, max_steps: int) -> LiblinearBlock:
    """LIBLINEAR; `--labels-per-pass` means nothing to it. Raises MemoryError and ConfigError."""
    return LiblinearBlock(objective, labels, options.liblinear_tol, options.seed, max_steps)
