"""`hpcml train bernoulli-nb` and its relatives."""

from __future__ import annotations

from hpcml.methods.bayes.block import HISTORY, BayesSolver, BernoulliNBSolver, history_line
from hpcml.methods.bayes.boosted import BoostedSolver
from hpcml.methods.bayes.risk import BayesRisk
from hpcml.methods.bayes.staged import StagedSolver, StagedSvmSolver
from hpcml.methods.linear.layout import Sharding
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.solver import History


def bytes_per_rank_bayes(n_values: int, n_rows: int, n_columns: int, n_lanes: int, shards: int, weight_bytes: int) -> int:
    """Bytes: the rows; of a row weights and scores; of a column counts and weights."""
    return 8 * n_values + 120 * n_rows + 56 * n_columns


def _method(name: str, solver: type[BayesSolver]) -> LinearMethod:
    history = History(HISTORY, history_line)
    return LinearMethod(
        name=name, solver=solver, sharding=Sharding.NONE, memory=bytes_per_rank_bayes, risk=BayesRisk, history=history
    )


BERNOULLI_NB = _method("bernoulli-nb", BernoulliNBSolver)
BOOSTED_BAYES = _method("boosted-bayes", BoostedSolver)
STAGED_BAYES = _method("staged-bayes", StagedSolver)
STAGED_SVM = _method("staged-svm", StagedSvmSolver)
