"""`hpcml train bernoulli-nb` and its relatives."""

from __future__ import annotations

from hpcml.methods.bayes.block import HISTORY, BayesSolver, BernoulliNBSolver, history_line
from hpcml.methods.bayes.boosted import BoostedSolver
from hpcml.methods.bayes.memory import bytes_per_rank_bayes
from hpcml.methods.bayes.risk import BayesRisk, BoostedRisk, StagedRisk
from hpcml.methods.bayes.staged import StagedSolver, StagedSvmSolver
from hpcml.methods.linear.layout import Sharding
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.solver import History


def _method(name: str, solver: type[BayesSolver], risk: type[BayesRisk]) -> LinearMethod:
    history = History(HISTORY, history_line)
    return LinearMethod(name=name, solver=solver, sharding=Sharding.NONE, memory=bytes_per_rank_bayes, risk=risk, history=history)


BERNOULLI_NB = _method("bernoulli-nb", BernoulliNBSolver, BayesRisk)
BOOSTED_BAYES = _method("boosted-bayes", BoostedSolver, BoostedRisk)
STAGED_BAYES = _method("staged-bayes", StagedSolver, StagedRisk)
STAGED_SVM = _method("staged-svm", StagedSvmSolver, StagedRisk)
