"""`hpcml train pegasos`."""

from __future__ import annotations

from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.probe.pegasos import pegasos

METHOD = LinearMethod(name="pegasos", solver=pegasos)
