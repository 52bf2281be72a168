"""`hpcml train liblinear`."""

from __future__ import annotations

from hpcml.methods.liblinear.liblinear import LiblinearSolver
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.plan import Sharding

METHOD = LinearMethod(name="liblinear", solver=LiblinearSolver, sharding=Sharding.NONE)
