"""`hpcml train bernoulli-nb` and its relatives."""

from __future__ import annotations

from dataclasses import replace

from hpcml.methods.bayes.block import HISTORY, BernoulliNBSolver, history_line
from hpcml.methods.bayes.boosted import BoostedSolver
from hpcml.methods.bayes.risk import BayesRisk
from hpcml.methods.bayes.staged import StagedSolver, StagedSvmSolver
from hpcml.methods.linear.layout import Sharding
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.solver import History


def bytes_per_rank_bayes(n_values: int, n_rows: int, n_columns: int, n_lanes: int, shards: int, weight_bytes: int) -> int:
    """Bytes: the rows; of a row weights and scores; of a column counts and weights."""
    return 8 * n_values + 120 * n_rows + 56 * n_columns


BERNOULLI_NB = LinearMethod(
    solver=BernoulliNBSolver,
    sharding=Sharding.NONE,
    memory=bytes_per_rank_bayes,
    risk=BayesRisk,
    history=History(HISTORY, history_line),
)
BOOSTED_BAYES, STAGED_BAYES, STAGED_SVM = (
    replace(BERNOULLI_NB, solver=solver) for solver in (BoostedSolver, StagedSolver, StagedSvmSolver)
)
