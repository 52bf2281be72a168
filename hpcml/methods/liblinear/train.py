"""`hpcml train liblinear`."""

from __future__ import annotations

from hpcml.methods.liblinear.liblinear import LiblinearSolver
from hpcml.methods.linear.layout import Sharding
from hpcml.methods.linear.method import LinearMethod

METHOD = LinearMethod(name="liblinear", solver=LiblinearSolver, sharding=Sharding.NONE)
