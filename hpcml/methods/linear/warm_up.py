"""Compiling kernels before the ranks of a node train: a solver of the same kind trains two labels of six rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.solver import Solver
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER

CHOOSE_KERNELS = "loss", "precision", "solver", "rate"  # other options keep their defaults, so that training is short
MAX_STEPS = 20  # pegasos takes all 500 steps of its default: 35 ms


def warm_up(make: Callable[..., Solver], risk: Risk, options: Any) -> None:
    """Compile, or load, the kernels that `make`'s solver needs for `risk` and options. Local."""
    small, options = small_problem(risk, options)
    solver = make(small, np.arange(2), 2, options)
    for _ in solver.solve([0, 1], NEVER):
        pass
    solver.compile_rest(risk)


def small_problem(risk: Risk, options: Any) -> tuple[Risk, Any]:
    """Return two labels of six rows, and options, that take the same kernels.

    The arrays have the types of those of `risk`, and are read-only where these are.
    """
    given = {name: value for name, value in vars(options).items() if name in CHOOSE_KERNELS}
    if "max_steps" in vars(options):
        given["max_steps"] = MAX_STEPS
    options, rows = type(options)(**given), risk.rows
    arrays = {
        "indptr": [0, 2, 4, 6, 8, 10, 12],
        "indices": [0, 2, 0, 2, 0, 2, 1, 2, 1, 2, 1, 2],
        "data": [1] * 12,
        "label_indptr": [0, 2, 3],
        "label_rows": [0, 1, 3],
        "counts": [3, 3, 6],
        "largest": [1] * 3,
        "n_positive": [2, 1],
        "weights": [1] * 6,
    }
    few: dict[str, Any] = {}
    for name, values in arrays.items():
        if (array := getattr(rows, name)) is not None:
            few[name] = np.array(values, array.dtype)
            few[name].flags.writeable = array.flags.writeable
    sizes: dict[str, Any] = {"first": 0, "n_global": 6, "n_labels": 2, "n_features": 3, "n_columns": 3}
    rows = replace(rows, comm=mpi.self_comm(), smallest=1.0, max_norm=1.5, scale=1.0, **sizes, **few)
    small = type(risk)(rows, options, Profile())
    small.prepare(small.comm)
    small.chunk_values, small.kept_values = risk.chunk_values, risk.kept_values
    return small, options
