"""`hpcml train svmperf`."""

from __future__ import annotations

from functools import partial

from hpcml.methods.linear import train as linear
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.svmperf.svmperf import SvmperfSolver

METHOD = LinearMethod(name="svmperf", solver=SvmperfSolver)
train = partial(linear.train, METHOD)
