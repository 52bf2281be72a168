"""`hpcml train svmperf`."""

from __future__ import annotations

from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.svmperf.svmperf import SvmperfSolver

METHOD = LinearMethod(name="svmperf", solver=SvmperfSolver)
