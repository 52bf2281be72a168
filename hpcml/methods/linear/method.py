"""Description of a method with a weight vector per label."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hpcml.methods.linear.layout import LANES, MemoryModel, Sharding, bytes_per_rank
from hpcml.methods.linear.objective import Objective, Risk
from hpcml.methods.linear.settings import Axis, SolverFitter
from hpcml.methods.linear.solver import History, Solver


@dataclass(frozen=True, kw_only=True)
class LinearMethod:
    solver: Callable[..., Solver]  # (risk, labels, n_lanes, options)
    sharding: Sharding = Sharding.EXACT
    memory: MemoryModel = bytes_per_rank
    risk: type[Risk] = Objective
    certified: bool = False  # gives a duality gap
    lanes: int = LANES  # maximum labels per pass
    history: History = field(default_factory=History)
    axes: tuple[Axis, ...] = ()  # options that `hpcml tune` chooses per label
    fitter: Callable[..., Any] = SolverFitter  # (method, risk, settings, options, n_lanes): fits labels at several settings
    costs: Callable[[np.ndarray, Any], np.ndarray] | None = None  # (positive rows, options): see `run.shares_of`
    copies: bool = False  # the solver copies the result of a label to labels with the same positive rows
    leaves_out: Callable[[Any], bool] = lambda options: False  # counts leave-one-out scores; then `solver.costs_of` gives C
    chunk: int = 0  # values per shuffled chunk, if rows can be streamed
