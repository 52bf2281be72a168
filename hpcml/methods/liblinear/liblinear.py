"""LIBLINEAR's dual coordinate descent (Hsieh et al. 2008), as included in scikit-learn.

LIBLINEAR minimises ½‖w‖² + C Σ ℓ, which is f(w)/λ for C = 1/(λ m). It needs all rows on every rank; the labels are distributed over
the ranks, each of which trains one at a time.
"""

import math
import warnings
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from hpcml.errors import ConfigError
from hpcml.methods.liblinear.options import LiblinearOptions
from hpcml.methods.linear.layout import Sharding
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import Objective
from hpcml.methods.linear.solver import CONVERGED, STEP_LIMIT, Finished, Solver, Turns
from hpcml.run.stop import Stop

MAX_VALUES = 2**31 - 1  # LIBLINEAR counts values in int32


class LiblinearSolver(Solver):
    """Trains the labels of one rank, one after another; it has no state to checkpoint."""

    one_by_one = True

    def __init__(self, objective: Objective, labels: np.ndarray, n_lanes: int, options: LiblinearOptions) -> None:
        rows = objective.rows
        if rows.data.size > MAX_VALUES:
            raise ConfigError(f"the rows have {rows.data.size:,} values; liblinear allows {MAX_VALUES:,} (use another method)")
        from sklearn.svm import LinearSVC  # the import takes seconds

        self.objective, self.labels, self.max_steps = objective, labels, options.step_limit
        self.solver = LinearSVC(
            loss="hinge",
            C=1.0 / (objective.lam * rows.n_global),
            fit_intercept=False,  # the bias is a column of the rows
            tol=options.liblinear_tol,
            max_iter=self.max_steps,
            random_state=options.seed,
        )
        indptr = rows.indptr.astype(np.int32)
        self.matrix = sp.csr_matrix((rows.data.astype(np.float64), rows.indices, indptr), (rows.n_local, rows.n_columns))

    def solve(self, labels: Sequence[int], stop: Stop) -> Turns:
        from sklearn.exceptions import ConvergenceWarning

        rows = self.objective.rows
        for label in labels:
            number = int(self.labels[label])
            y = np.full(rows.n_local, -1)
            y[rows.rows_of(number)] = 1
            with self.objective.profile("compute"), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # reported as the label's status
                self.solver.fit(self.matrix, y)
            w, steps = self.solver.coef_[0].astype(self.objective.weight_type), int(self.solver.n_iter_)  # shrinking not counted
            with self.objective.profile("finish"):
                f = self.objective.value(w, number, stop)
            n_rows, status = rows.n_global, STEP_LIMIT if steps >= self.max_steps else CONVERGED
            line = (steps, f, math.nan, 0, math.nan, math.nan, n_rows, math.nan, stop.seconds)
            yield [Finished(label, w, f, status, steps, 1.0, [line])]


METHOD = LinearMethod(solver=LiblinearSolver, sharding=Sharding.NONE)
