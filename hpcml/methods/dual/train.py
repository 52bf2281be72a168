"""`hpcml train dual`."""

from __future__ import annotations

from hpcml.methods.dual.by_loss import dual
from hpcml.methods.dual.chunks import CHUNK_VALUES
from hpcml.methods.dual.fitter import DualFitter
from hpcml.methods.dual.memory import bytes_per_rank_dual
from hpcml.methods.linear.layout import Sharding
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.settings import LAMBDA, Axis

WEIGHT = Axis("positive_weight", (1.0, 4.0), 4.0, least=1.0)
METHOD = LinearMethod(
    solver=dual,
    sharding=Sharding.INEXACT,
    memory=bytes_per_rank_dual,
    risk=Risk,
    certified=True,
    axes=(LAMBDA, WEIGHT),
    fitter=DualFitter,
    chunk=CHUNK_VALUES,
)
