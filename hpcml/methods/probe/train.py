"""`hpcml train probe`."""

from __future__ import annotations

from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.settings import LAMBDA
from hpcml.methods.probe.first_order import probe

METHOD = LinearMethod(name="probe", solver=probe, axes=(LAMBDA,))
