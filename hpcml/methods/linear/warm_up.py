"""Compiling kernels before the ranks of a node train: a solver of the same kind trains two labels of six rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.data.compact import CompactRows
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
    """Return two labels of six rows, and options, that take the same kernels."""
    given = {name: value for name, value in vars(options).items() if name in CHOOSE_KERNELS}
    if "max_steps" in vars(options):
        given["max_steps"] = MAX_STEPS
    options = type(options)(**given)
    small = type(risk)(_few_rows(risk.rows), options, Profile())
    small.prepare(small.comm)
    return small.streamed(risk.chunk_values, risk.kept_values), options


def _few_rows(rows: CompactRows) -> CompactRows:
    """Return six rows and two labels in arrays of the same types, which are read-only where those of `rows` are."""

    def like(array: np.ndarray, values: list[float]) -> np.ndarray:
        small = np.array(values, array.dtype)
        small.flags.writeable = array.flags.writeable
        return small

    return replace(
        rows,
        comm=mpi.self_comm(),
        first=0,
        n_global=6,
        n_labels=2,
        n_features=3,
        n_columns=3,
        indptr=like(rows.indptr, [0, 2, 4, 6, 8, 10, 12]),
        indices=like(rows.indices, [0, 2, 0, 2, 0, 2, 1, 2, 1, 2, 1, 2]),
        data=like(rows.data, [1] * 12),
        label_indptr=like(rows.label_indptr, [0, 2, 3]),
        label_rows=like(rows.label_rows, [0, 1, 3]),
        counts=like(rows.counts, [3, 3, 6]),
        largest=like(rows.largest, [1] * 3),
        smallest=1.0,
        max_norm=1.5,
        scale=1.0,
        n_positive=like(rows.n_positive, [2, 1]),
        weights=None if rows.weights is None else like(rows.weights, [1] * 6),
    )
