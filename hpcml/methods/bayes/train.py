"""`hpcml train bernoulli-nb` and its relatives."""

from __future__ import annotations

import numpy as np

from hpcml.methods.bayes.block import HISTORY, BayesSolver, BernoulliNBSolver, history_line
from hpcml.methods.bayes.boosted import BoostedSolver
from hpcml.methods.bayes.memory import bytes_per_rank_bayes
from hpcml.methods.bayes.options import BernoulliNBOptions, BoostedBayesOptions, StagedBayesOptions, StagedSvmOptions
from hpcml.methods.bayes.risk import BayesRisk, BoostedRisk, StagedRisk
from hpcml.methods.bayes.staged import StagedSolver, StagedSvmSolver
from hpcml.methods.linear.layout import Sharding
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.solver import History


def solver(risk: BayesRisk, labels: np.ndarray, n_lanes: int, options: BernoulliNBOptions) -> BayesSolver:
    """The solver of the labels of a rank. Raises MemoryError."""
    if isinstance(options, BoostedBayesOptions):
        return BoostedSolver(risk, labels, options)
    if isinstance(options, StagedSvmOptions):
        return StagedSvmSolver(risk, labels, options)
    return StagedSolver(risk, labels, options) if isinstance(options, StagedBayesOptions) else BernoulliNBSolver(risk, labels)


def _method(name: str, risk: type[BayesRisk]) -> LinearMethod:
    return LinearMethod(
        name=name,
        solver=solver,
        sharding=Sharding.NONE,
        memory=bytes_per_rank_bayes,
        risk=risk,
        history=History(HISTORY, history_line),
    )


BERNOULLI_NB, BOOSTED_BAYES = _method("bernoulli-nb", BayesRisk), _method("boosted-bayes", BoostedRisk)
STAGED_BAYES, STAGED_SVM = _method("staged-bayes", StagedRisk), _method("staged-svm", StagedRisk)
