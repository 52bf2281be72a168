"""What training many labels must know of a method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hpcml.methods.linear.block import History
from hpcml.methods.linear.objective import Objective, Risk
from hpcml.methods.linear.plan import LANES, Needs, Sharding, bytes_per_rank


@dataclass(frozen=True)
class LinearMethod:
    """`build(risk, labels, n_lanes, options, max_steps)` makes the block of a group of ranks (`linear.run.Block`)."""

    name: str
    build: Callable
    sharding: Sharding = Sharding.EXACT
    needs: Needs = bytes_per_rank  # how much memory
    risk: type[Risk] = Objective  # what it needs to know of the objective
    certified: bool = False  # does it give a duality gap?
    lanes: int = LANES  # labels that share a pass at most
    history: History | None = None  # None: the columns of `linear.block`
    chunk: int = 0  # values of the rows that it takes in random order, if these may be streamed
