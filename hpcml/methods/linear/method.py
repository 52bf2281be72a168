"""The description by which a method with a weight vector for each label is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcml.kernels import elementwise
from hpcml.methods.linear.layout import LANES, Needs, Sharding, bytes_per_rank
from hpcml.methods.linear.objective import Objective, Risk
from hpcml.methods.linear.settings import Axis, OneByOne
from hpcml.methods.linear.solver import History, Solver

# Seconds left of `dual`, announced 6, 18 and 60 s after the beginning of 404,056 labels on 89,952 rows (convert synthetic text):
#     GROWTH  0: 15124, 9859, 6273        0.25: 2801, 2731, 2760        0.5: 504, 699, 1074
# On 34,914 rows, 72,374 labels, 2403 s: 2355 announced after 48 s with 0, 1945 with 0.25, both within a tenth after 480 s.
GROWTH = 0.25  # power of a label's positive rows by which its cost grows


def usual_costs(n_positive: np.ndarray, options: Any) -> np.ndarray:
    """The time that labels with so many positive rows take, in any unit."""
    return elementwise.power(n_positive, GROWTH)


@dataclass(frozen=True, kw_only=True)
class LinearMethod:
    """How labels are trained: the solver, and what the engine must know of it."""

    solver: Callable[..., Solver]  # (risk, labels, n_lanes, options): trains the labels of a rank group
    sharding: Sharding = Sharding.EXACT
    memory: Needs = bytes_per_rank  # the bytes that a rank takes
    risk: type[Risk] = Objective  # what it needs to know of the objective
    certified: bool = False  # does it give a duality gap?
    lanes: int = LANES  # labels that share a pass at most
    history: History | None = None  # None: the columns of `linear.solver`
    axes: tuple[Axis, ...] = ()  # what can be chosen for each label by cross-validation; nothing: `hpcml tune` has no such method
    fitter: Callable[..., Any] = OneByOne  # (method, risk, settings, options, n_lanes): fits labels at several settings
    costs: Callable[[np.ndarray, Any], np.ndarray] = usual_costs  # (positive rows of labels, options): for the time that is left
    chunk: int = 0  # values of the rows that it takes in random order, if these may be streamed
