"""The methods of `hpcml train`: who trains a block of labels, and what each one allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hpcml.convex.first_order import pegasos, probe
from hpcml.convex.liblinear import liblinear
from hpcml.convex.svmperf import svmperf


class Method(NamedTuple):
    """`build(objective, labels, n_lanes, options, max_steps)` makes the block of a group of ranks (`convex.run.Block`)."""

    build: Callable
    max_steps: int  # unless the user sets it
    dormant: bool  # may it skip rows?
    bias: bool  # does it always have the constant feature?
    losses: tuple[str, ...] | None  # None: any convex loss
    shares_rows: bool  # can the rows be divided among ranks?
    about: str


METHODS = {
    "probe": Method(probe, 5000, True, False, None, True, "PROBE: subgradient steps from an estimated lower bound"),
    "pegasos": Method(pegasos, 500, False, True, ("hinge",), True, "Pegasos: full subgradient, step 1/(λt), projection, bias"),
    "svmperf": Method(svmperf, 5000, False, False, ("hinge",), True, "SVMperf: the 1-slack cutting-plane method, certified gap"),
    "liblinear": Method(liblinear, 20000, False, False, ("hinge",), False, "LIBLINEAR: dual coordinate descent"),
}
