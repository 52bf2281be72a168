"""The methods of `hpcml train`: who trains a block of labels, and what each one allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from hpcml.methods.dual.dual import CHUNK_VALUES, dual
from hpcml.methods.liblinear.liblinear import liblinear
from hpcml.methods.linear.losses import LOSSES
from hpcml.methods.linear.objective import Objective, Risk
from hpcml.methods.linear.options import TrainOptions
from hpcml.methods.linear.plan import ASKED, FREELY, NEVER, Needs, bytes_per_rank, bytes_per_rank_dual
from hpcml.methods.probe.first_order import probe
from hpcml.methods.probe.pegasos import pegasos
from hpcml.methods.svmperf.svmperf import svmperf


class Method(NamedTuple):
    """`build(objective, labels, n_lanes, options, max_steps)` makes the block of a group of ranks (`convex.run.Block`)."""

    build: Callable
    max_steps: int  # unless the user sets it
    dormant: bool  # may it skip rows?
    bias: bool  # does it always have the constant feature?
    losses: tuple[str, ...]  # the first is the default
    shards: int  # FREELY, ASKED or NEVER
    options: tuple[str, ...]  # of TrainOptions those that it uses and some other methods do not
    about: str
    needs: Needs = bytes_per_rank  # how much memory
    risk: type[Risk] = Objective  # what it needs to know of the objective
    certified: bool = False  # does it give a duality gap, and take weights of positive rows?
    chunk: int = 0  # values of the rows that it takes in random order, if these may be streamed


METHODS = {
    "probe": Method(
        *(probe, 5000, True, False, tuple(LOSSES), FREELY, ("epsilon", "dormant", "seed")),
        "PROBE: subgradient steps from an estimated lower bound",
    ),
    "dual": Method(
        *(dual, 1000, False, False, ("squared-hinge", "hinge"), ASKED),
        ("dual_tol", "max_gap", "gap", "positive_weight", "seed"),
        *("dual coordinate descent for a block of labels, with a certified duality gap", bytes_per_rank_dual, Risk, True),
        chunk=CHUNK_VALUES,
    ),
    "pegasos": Method(
        *(pegasos, 500, False, True, ("hinge",), FREELY, ()), "Pegasos: full subgradient, step 1/(λt), projection, bias"
    ),
    "svmperf": Method(
        *(svmperf, 5000, False, False, ("hinge",), FREELY, ("svmperf_epsilon",)),
        "SVMperf: the 1-slack cutting-plane method, certified gap",
    ),
    "liblinear": Method(
        *(liblinear, 20000, False, False, ("hinge",), NEVER, ("liblinear_tol", "seed")), "LIBLINEAR: dual coordinate descent"
    ),
}
USES = {name: method.options for name, method in METHODS.items()}


def with_defaults(options: TrainOptions, losses: Sequence[str], before: Mapping[str, object]) -> TrainOptions:
    """The options with a loss and a bias. What nobody gave is as in the run that is continued, whose config.toml says `before`;
    else the first of `losses`, and an intercept."""
    loss, bias = options.loss, options.bias
    if loss is None:
        loss = str(before["loss"]) if before.get("loss") in losses else losses[0]
    if bias is None:
        bias = before.get("bias") is not False
    return replace(options, loss=loss, bias=bias)
