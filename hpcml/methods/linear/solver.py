"""The solver interface: a solver trains the labels of a rank group and yields finished ones.

solver = method.solver(risk, labels, n_lanes, options)
for finished in solver.solve(range(labels.size), NEVER):  # one turn per iteration
    ...
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.files.table import format_csv
from hpcml.kernels.lanes import WIDTHS
from hpcml.leave_one_out import decide
from hpcml.methods.linear.objective import Risk
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER, Stop

CONVERGED, DEGENERATE, STEP_LIMIT = range(3)  # indices of STATUS
CYCLES = ("normal", "test", "retest")  # of PROBE
HISTORY = ("step", "f", "phi", "cycle", "eta", "grad_norm", "active_rows", "violators", "seconds")
CPU_SECONDS = "cpu_seconds"  # last column of history.csv, on the last line of a label
CHOOSE_KERNELS = "loss", "precision", "solver", "rate"  # options that a warm-up must copy; others keep their defaults
MAX_STEPS = 20  # of a warm-up: pegasos would take all 500 steps of its default, 35 ms


def history_line(step: tuple[float, ...]) -> str:
    number, f, phi, cycle, eta, norm, active, violators, seconds = step
    return f"{number:.0f},{f:.17g},{phi:.6g},{CYCLES[int(cycle)]},{eta:.9g},{norm:.9g},{active:.0f},{violators:.0f},{seconds:.3f}"


class History(NamedTuple):
    columns: tuple[str, ...] = HISTORY
    line: Callable[[tuple[float, ...]], str] = history_line

    def lines(self, label: str, steps: list[tuple[float, ...]], cpu_seconds: float) -> bytes:
        name = format_csv([[label]]).removesuffix("\n")
        lines = [f"{name},{self.line(step)}," for step in steps]
        return "\n".join([*lines[:-1], *(f"{line}{cpu_seconds:.6f}\n" for line in lines[-1:])]).encode()


class SparseWeightsOf(NamedTuple):
    """Non-zero weights, their ascending columns, and an intercept that is not a column."""

    columns: np.ndarray
    values: np.ndarray
    intercept: float


class Finished(NamedTuple):
    label: int  # index in the run
    w: np.ndarray | SparseWeightsOf  # (n_columns)
    f: float  # over all rows
    status: int
    steps: int
    visited: float  # mean share of the rows visited per step
    history: list[tuple[float, ...]]
    gap: float | None = None  # (f − bound) / f, if certified
    scores: bytes = b""  # counts of the leave-one-out scores (`hpcml.leave_one_out`)
    above: np.ndarray | None = None  # ascending rows that include all with scores above −1, if known


Turns = Generator[list[Finished], None, None]


class Packed(NamedTuple):
    """A label in training in a checkpoint, independent of the number of ranks."""

    w: np.ndarray  # (n_columns)
    best: np.ndarray  # (n_columns)
    rows: np.ndarray  # (n_global) bytes
    numbers: np.ndarray
    history: np.ndarray  # (at least steps, len(HISTORY)); further lines are ignored


class Solver:
    """Trains the labels of a rank group. It knows no folder, clock or file.

    The constructor gets the shared objective (`Risk`), the numbers in the data of all labels of the run, the number of labels per
    pass, and options. It is not collective, allocates all memory, and may raise MemoryError.
    """

    packs = False  # checkpoints hold labels in training; otherwise these restart
    one_by_one = False  # trains one label after another

    def solve(self, labels: Sequence[int], stop: Stop) -> Turns:
        """Train labels (indices in the run); each turn yields the labels that it finished. Collective over the group.

        A turn takes seconds at most, or checks `stop`. Raises Stopped, NonFiniteError, on all ranks of the group.
        """
        raise NotImplementedError

    def compile_rest(self, risk: Any) -> None:
        """Run kernels that training `risk` may need and that `warm_up` did not run."""

    def pack(self) -> list[Packed]:
        return []

    def unpack(self, packed: Packed) -> None:
        """Restore a label in training, before `solve`. Collective over the group."""
        raise NotImplementedError


def lanes_of(finished: Sequence[Finished], n_columns: int) -> tuple[np.ndarray, int, np.ndarray]:
    """Return the weights (n_columns width, flat) of at most 16 labels, the width, and the intercepts that are not columns."""
    width = min(each for each in WIDTHS if each >= len(finished))
    dtype = np.result_type(np.float32, *(done.w.values if isinstance(done.w, SparseWeightsOf) else done.w for done in finished))
    w, intercepts = np.zeros((n_columns, width), dtype), np.zeros(len(finished))
    for lane, done in enumerate(finished):
        if isinstance(done.w, SparseWeightsOf):
            w[done.w.columns, lane], intercepts[lane] = done.w.values, done.w.intercept
        else:
            w[:, lane] = done.w
    return w.reshape(-1), width, intercepts


def warm_up(make: Callable[..., Solver], risk: Risk, options: Any, sink: Callable[..., Turns] | None = None) -> None:
    small, options = small_problem(risk, options)
    solver = make(small, np.arange(2), 2, options)
    turns = solver.solve([0, 1], NEVER)
    for _ in turns if sink is None else sink(turns, small, solver, NEVER):
        pass
    solver.compile_rest(risk)
    if sink is not None:
        decide.warm_up()


def small_problem(risk: Risk, options: Any) -> tuple[Risk, Any]:
    """Return a problem of two labels and six rows, and options, that use the kernels (types, read-only arrays) of `risk`."""
    copied = {name: value for name, value in vars(options).items() if name in CHOOSE_KERNELS}
    if "max_steps" in vars(options):
        copied["max_steps"] = MAX_STEPS
    options, rows = type(options)(**copied), risk.rows
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
