"""`hpcml train elastic-net`."""

from __future__ import annotations

from functools import partial

import numpy as np

from hpcml.methods.extreme.delayed import DelayedBlock
from hpcml.methods.extreme.judge import HISTORY, ElasticRisk, history_line
from hpcml.methods.extreme.newton import NewtonBlock
from hpcml.methods.extreme.options import ElasticNetOptions
from hpcml.methods.extreme.plan import bytes_per_rank_elastic
from hpcml.methods.linear import train as linear
from hpcml.methods.linear.block import History
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.plan import Sharding


def build(
    risk: ElasticRisk, labels: np.ndarray, n_lanes: int, options: ElasticNetOptions, max_steps: int
) -> NewtonBlock | DelayedBlock:
    """What trains the labels of a rank by the chosen solver. Raises ConfigError, MemoryError."""
    if options.solver == "newton":
        return NewtonBlock(risk, labels, options, max_steps)
    return DelayedBlock(risk, labels, n_lanes, options)


METHOD = LinearMethod(
    "elastic-net", build, Sharding.NONE, bytes_per_rank_elastic, ElasticRisk, certified=True, history=History(HISTORY, history_line)
)
train = partial(linear.train, METHOD)
