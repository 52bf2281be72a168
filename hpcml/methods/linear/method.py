"""The description by which a method with a weight vector for each label is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hpcml.methods.linear.layout import LANES, Needs, Sharding, bytes_per_rank
from hpcml.methods.linear.objective import Objective, Risk
from hpcml.methods.linear.settings import Axis, OneByOne
from hpcml.methods.linear.solver import History, Solver


@dataclass(frozen=True, kw_only=True)
class LinearMethod:
    """How labels are trained: the solver, and what the engine must know of it."""

    solver: Callable[..., Solver]  # (risk, labels, n_lanes, options): trains the labels of a rank group
    sharding: Sharding = Sharding.EXACT
    memory: Needs = bytes_per_rank  # the bytes that a rank takes
    risk: type[Risk] = Objective  # what it needs to know of the objective
    certified: bool = False  # does it give a duality gap?
    lanes: int = LANES  # labels that share a pass at most
    history: History = field(default_factory=History)
    axes: tuple[Axis, ...] = ()  # what can be chosen for each label by cross-validation; nothing: `hpcml tune` has no such method
    fitter: Callable[..., Any] = OneByOne  # (method, risk, settings, options, n_lanes): fits labels at several settings
    costs: Callable[[np.ndarray, Any], np.ndarray] | None = None  # (positive rows of labels, options): see `run.shares_of`
    chunk: int = 0  # values of the rows that it takes in random order, if these may be streamed
