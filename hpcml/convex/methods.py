"""The methods of `hpcml train`: who trains a block of labels, and what each one allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hpcml.convex.dual import CHUNK_VALUES, dual
from hpcml.convex.first_order import pegasos, probe
from hpcml.convex.liblinear import liblinear
from hpcml.convex.objective import Objective, Risk
from hpcml.convex.plan import ASKED, FREELY, NEVER, Needs, bytes_per_rank, bytes_per_rank_dual
from hpcml.convex.svmperf import svmperf
from hpcml.losses import DUAL_LOSSES, LOSSES


class Method(NamedTuple):
    """`build(objective, labels, n_lanes, options, max_steps)` makes the block of a group of ranks (`convex.run.Block`)."""

    build: Callable
    max_steps: int  # unless the user sets it
    dormant: bool  # may it skip rows?
    bias: bool  # does it always have the constant feature?
    losses: tuple[str, ...]
    shards: int  # FREELY, ASKED or NEVER
    about: str
    needs: Needs = bytes_per_rank  # how much memory
    risk: type[Risk] = Objective  # what it needs to know of the objective
    certified: bool = False  # does it give a duality gap, and take weights of positive rows?
    chunk: int = 0  # values of the rows that it takes in random order, if these may be streamed


METHODS = {
    "probe": Method(probe, 5000, True, False, tuple(LOSSES), FREELY, "PROBE: subgradient steps from an estimated lower bound"),
    "dual": Method(
        *(dual, 1000, False, False, tuple(DUAL_LOSSES), ASKED),
        *("dual coordinate descent for a block of labels, with a certified duality gap", bytes_per_rank_dual, Risk, True),
        chunk=CHUNK_VALUES,
    ),
    "pegasos": Method(pegasos, 500, False, True, ("hinge",), FREELY, "Pegasos: full subgradient, step 1/(λt), projection, bias"),
    "svmperf": Method(svmperf, 5000, False, False, ("hinge",), FREELY, "SVMperf: the 1-slack cutting-plane method, certified gap"),
    "liblinear": Method(liblinear, 20000, False, False, ("hinge",), NEVER, "LIBLINEAR: dual coordinate descent"),
}
