"""Solvers: one trains the labels of a rank group, and hands over those that are done.

solver = method.solver(risk, labels, n_lanes, options)
for finished in solver.solve(range(labels.size), NEVER):  # turn after turn
    ...
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcml.files.table import csv_text
from hpcml.run.stop import Stop

CONVERGED, DEGENERATE, STEP_LIMIT = range(3)  # of STATUS
CYCLES = ("normal", "test", "retest")  # of PROBE: what kind of cycle a step belongs to
HISTORY = ("step", "f", "phi", "cycle", "eta", "grad_norm", "active_rows", "violators", "seconds")  # what is recorded of a step


def history_line(step: tuple[float, ...]) -> str:
    """The numbers of a step (`HISTORY`) as text."""
    number, f, phi, cycle, eta, norm, active, violators, seconds = step
    return f"{number:.0f},{f:.17g},{phi:.6g},{CYCLES[int(cycle)]},{eta:.9g},{norm:.9g},{active:.0f},{violators:.0f},{seconds:.3f}"


class History(NamedTuple):
    """The record of a label's steps: columns of history.csv, and a step's numbers as text."""

    columns: tuple[str, ...] = HISTORY
    line: Callable[[tuple[float, ...]], str] = history_line

    @property
    def header(self) -> bytes:
        """The first line of history.csv."""
        return (",".join(("label", *self.columns)) + "\n").encode()

    def lines(self, label: str, steps: list[tuple[float, ...]]) -> bytes:
        """Return the lines of a label."""
        name = csv_text([[label]]).removesuffix("\n")
        return "".join(f"{name},{self.line(step)}\n" for step in steps).encode()


class SparseWeightsOf(NamedTuple):
    """Weights that are not 0, their columns (ascending), and an intercept that is no column."""

    columns: np.ndarray
    values: np.ndarray
    intercept: float


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

    A method makes it of what the labels have in common (`Risk`), the numbers in the data of all
    labels of the run, how many labels share a pass, and options. Making one is local; it may raise
    MemoryError, for there is all that it needs room for.
    """

    packs = False  # can a checkpoint hold labels in training? Else these begin anew
    one_by_one = False  # does it train one label after the other, whatever share a pass?

    def solve(self, labels: Sequence[int], stop: Stop) -> Turns:
        """Collective over the group. Train labels (places in the run); each turn yields those done.

        A turn takes seconds at most, or looks at `stop` in between. Raises Stopped, NonFiniteError,
        on all ranks of the group.
        """
        raise AssertionError("a subclass says")

    def compile_rest(self, risk: Any) -> None:
        """Run the kernels that training `risk` may need, but not that of this solver's few rows (`warm_up`). Local."""

    def pack(self) -> list[Packed]:
        """Collective over the group, between turns or after Stopped. The labels in training."""
        return []

    def unpack(self, packed: Packed) -> None:
        """Collective over the group, before `solve`. Take up a label; if the solver `packs`."""
        raise AssertionError("a subclass says")
