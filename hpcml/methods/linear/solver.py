"""Solvers: one trains the labels of a rank group, and hands over those that are done.

solver = method.solver(risk, labels, n_lanes, options)
for finished in solver.solve(range(labels.size), NEVER):  # turn after turn
    ...
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.files.table import csv_text
from hpcml.kernels.lanes import WIDTHS
from hpcml.kernels.lanes.products import score_rows
from hpcml.methods.linear.objective import Risk
from hpcml.run.driver import Job
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER, Stop

CONVERGED, DEGENERATE, STEP_LIMIT = range(3)  # of STATUS
CYCLES = ("normal", "test", "retest")  # of PROBE: what kind of cycle a step belongs to
HISTORY = ("step", "f", "phi", "cycle", "eta", "grad_norm", "active_rows", "violators", "seconds")  # what is recorded of a step
CHOOSE_KERNELS = "loss", "precision", "solver", "rate"  # other options keep their defaults, so that training is short
MAX_STEPS = 20  # pegasos takes all 500 steps of its default: 35 ms


def history_line(step: tuple[float, ...]) -> str:
    """The numbers of a step (`HISTORY`) as text."""
    number, f, phi, cycle, eta, norm, active, violators, seconds = step
    return f"{number:.0f},{f:.17g},{phi:.6g},{CYCLES[int(cycle)]},{eta:.9g},{norm:.9g},{active:.0f},{violators:.0f},{seconds:.3f}"


class History(NamedTuple):
    """The record of a label's steps: columns of history.csv, and a step's numbers as text."""

    columns: tuple[str, ...] = HISTORY
    line: Callable[[tuple[float, ...]], str] = history_line

    def lines(self, label: str, steps: list[tuple[float, ...]]) -> bytes:
        """Return the lines of a label."""
        name = csv_text([[label]]).removesuffix("\n")
        return "".join(f"{name},{self.line(step)}\n" for step in steps).encode()


class SparseWeightsOf(NamedTuple):
    """Weights that are not 0, their columns (ascending), and an intercept that is no column."""

    columns: np.ndarray
    values: np.ndarray
    intercept: float


class Support(NamedTuple):
    """The rows of this rank whose dual is not 0 (ascending), and β_i = s_i α_i y_i of each, s_i the weight of the row.

    Over all ranks Σ β_i x_i = w, up to rounding; or up to the gap, where Newton's method has solved the label. An intercept may
    differ: it is moved to the minimum afterwards.
    """

    rows: np.ndarray
    duals: np.ndarray  # β, float64


class Finished(NamedTuple):
    """A label that has left: its weights (n_columns, or sparse), f over all rows, how it went."""

    label: int
    w: np.ndarray | SparseWeightsOf
    f: float
    status: int
    steps: int
    visited: float  # mean share of the rows visited per step
    history: list[tuple[float, ...]]
    gap: float | None = None  # (f − bound) / f, where a bound on min f is certified
    support: Support | None = None  # if the sink needs it
    scores: np.ndarray | None = None  # (n_local) x_i · w with the intercept, float64, if the sink needs them


Turns = Generator[list[Finished], None, None]


class Packed(NamedTuple):
    """A label in training, as a checkpoint holds it: enough for any number of ranks to go on."""

    w: np.ndarray  # (n_columns)
    best: np.ndarray  # (n_columns)
    rows: np.ndarray  # (n_global) bytes
    numbers: np.ndarray
    history: np.ndarray  # (steps or more, len(HISTORY)); what is beyond its steps does not matter


class Solver:
    """Trains the labels of a rank group. It knows rows and labels, and no folder, clock or file.

    A method makes it of what the labels have in common (`Risk`), the numbers in the data of all labels of the run, how many labels
    share a pass, and options. Making one is local and allocates everything; it may raise MemoryError.
    """

    packs = False  # can a checkpoint hold labels in training? Else these begin anew
    one_by_one = False  # does it train one label after the other, whatever share a pass?
    has_duals = False  # can it give the support of a label?
    needs_support = False  # does its sink need that? See `turns_of`

    def solve(self, labels: Sequence[int], stop: Stop) -> Turns:
        """Collective over the group. Train labels (places in the run); each turn yields those done.

        A turn takes seconds at most, or looks at `stop` in between. Raises Stopped, NonFiniteError, on all ranks of the group.
        """
        raise NotImplementedError

    def compile_rest(self, risk: Any) -> None:
        """Run the kernels that training `risk` may need, but not that of this solver's few rows (`warm_up`). Local."""

    def pack(self) -> list[Packed]:
        """Collective over the group, between turns or after Stopped. The labels in training."""
        return []

    def unpack(self, packed: Packed) -> None:
        """Collective over the group, before `solve`. Take up a label; if the solver `packs`."""
        raise NotImplementedError


def turns_of(solver: Solver, risk: Risk, labels: Sequence[int], stop: Stop, sink: Job | type[Job] = Job) -> Turns:
    """Return the turns of `solver.solve`, whose labels have the support and the scores if `sink` needs them.

    Raises NotImplementedError for what the method does not have.
    """
    if sink.needs_support and not solver.has_duals:
        raise NotImplementedError(f"{type(solver).__name__} has no duals, so its labels have no support")
    if sink.needs_scores and not risk.has_linear_scores:
        raise NotImplementedError(f"{type(solver).__name__} trains labels whose scores are not x · w")
    solver.needs_support = sink.needs_support
    turns = solver.solve(labels, stop)
    return _with_scores(turns, risk, stop) if sink.needs_scores else turns


def _with_scores(turns: Turns, risk: Risk, stop: Stop) -> Turns:
    with closing(turns):
        for finished in turns:
            scored = []
            for first in range(0, len(finished), WIDTHS[-1]):
                labels = finished[first : first + WIDTHS[-1]]
                scored += [label._replace(scores=row) for label, row in zip(labels, _scores_of(risk, labels, stop), strict=True)]
            yield scored


def _scores_of(risk: Risk, finished: Sequence[Finished], stop: Stop) -> np.ndarray:
    """Collective. Return the scores (k, n_local) of this rank's rows for at most 16 labels. Raises Stopped."""
    rows, (w, width, intercepts) = risk.rows, lanes_of(finished, risk.rows.n_columns)
    scores = np.empty((intercepts.size, rows.n_local))
    with risk.profile("finish"):
        for part in stop.slices(risk.slices()):
            out = np.empty((intercepts.size, part.stop - part.start))
            score_rows(rows.indptr[part.start : part.stop + 1], rows.indices, rows.data, w, width, out)
            scores[:, part] = out + intercepts[:, None]
    return scores


def lanes_of(finished: Sequence[Finished], n_columns: int) -> tuple[np.ndarray, int, np.ndarray]:
    """Return the weights (n_columns width, flat) of at most 16 labels, the width, and the intercepts that are no column."""
    width = min(each for each in WIDTHS if each >= len(finished))
    dtype = np.result_type(np.float32, *(done.w.values if isinstance(done.w, SparseWeightsOf) else done.w for done in finished))
    w, intercepts = np.zeros((n_columns, width), dtype), np.zeros(len(finished))
    for lane, done in enumerate(finished):
        if isinstance(done.w, SparseWeightsOf):
            w[done.w.columns, lane], intercepts[lane] = done.w.values, done.w.intercept
        else:
            w[:, lane] = done.w
    return w.reshape(-1), width, intercepts


def warm_up(make: Callable[..., Solver], risk: Risk, options: Any, sink: Job | type[Job] = Job) -> None:
    """Compile, or load, the kernels that `make`'s solver needs for `risk` and options, before the ranks of a node train. Local."""
    small, options = small_problem(risk, options)
    solver = make(small, np.arange(2), 2, options)
    for _ in turns_of(solver, small, [0, 1], NEVER, sink):
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
