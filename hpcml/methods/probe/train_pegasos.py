"""`hpcml train pegasos`."""

from __future__ import annotations

from functools import partial

from hpcml.methods.linear import train as linear
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.probe.pegasos import pegasos

METHOD = LinearMethod(name="pegasos", solver=pegasos)
train = partial(linear.train, METHOD)
