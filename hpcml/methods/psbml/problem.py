"""The problem to be trained on, as one rank of the torus sees it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from hpcml import mpi, rng
from hpcml.data.labels import Classes
from hpcml.data.shard import Rows, read_rows
from hpcml.log import plural
from hpcml.methods.psbml.options import PsbmlOptions
from hpcml.methods.psbml.selection import VALIDATION
from hpcml.methods.psbml.torus import Placement
from hpcml.model import learner as learners
from hpcml.run.profile import Profile


class RowsInMemory:
    """All rows, in the place of a dataset file."""

    def __init__(self, X: sp.csr_matrix) -> None:
        self.X, self.nnz = X, X.nnz
        self.n_rows, self.n_features = X.shape


@dataclass
class TorusProblem:
    """The data, the torus and the base learner. Rows are called by their places in the split."""

    comm: mpi.Comm
    dataset: Any  # a DataFile or RowsInMemory
    split: str
    classes: Classes
    start: np.ndarray  # the node on which each row begins, or VALIDATION
    placement: Placement
    learner: learners.Learner
    dense: bool
    options: PsbmlOptions
    profile: Profile = field(default_factory=Profile)

    @property
    def n_nodes(self) -> int:
        """The nodes of the torus."""
        return self.placement.torus.n_nodes

    @cached_property
    def place_type(self) -> type:
        """The type of places."""
        return np.int32 if self.classes.rows.size < 2**31 else np.int64

    @cached_property
    def first_slots(self) -> dict[int, np.ndarray]:
        """The rows with which each node here begins."""
        return {node: np.flatnonzero(self.start == node).astype(self.place_type) for node in self.placement.nodes}

    @cached_property
    def largest_node(self) -> int:
        """How many rows the largest node has."""
        return int(np.bincount(self.start[self.start >= 0], minlength=self.n_nodes).max())

    @property
    def about(self) -> str:
        """The learner and the rows it is trained on, for people."""
        n_validation = int(np.count_nonzero(self.start == VALIDATION))
        return (
            f"{self.learner} on {plural(self.start.size - n_validation, 'row')} "
            f"× {plural(self.dataset.n_features, 'feature')} ({'dense' if self.dense else 'sparse'}), "
            f"{plural(n_validation, 'row')} to validate; torus {self.options.grid}, {self.options.neighbourhood}"
        )

    @cached_property
    def origin(self) -> bytes:
        """A digest that a continued run must have in common with its beginning (32 bytes)."""
        text = f"{self.dataset.fingerprint} {self.classes.names}"
        return hashlib.sha256(text.encode() + self.classes.rows.tobytes() + self.classes.of.tobytes()).digest()

    @property
    def kept_dense(self) -> bool:
        """Whether rows are kept, and travel, dense: where that takes no more room."""
        return self.dense and 2 * self.dataset.nnz >= self.dataset.n_rows * self.dataset.n_features

    def read(self, places: np.ndarray) -> Rows:
        """Rows (ascending places) as they are kept and travel. Local; raises DataError, OSError."""
        return read_rows(self.dataset, self.classes.rows[places], self.kept_dense, check=False)  # `read_classes` has checked them

    def prepared(self, matrix: Rows) -> Rows:
        """Rows as the base learner takes them."""
        return matrix.toarray() if self.dense and not isinstance(matrix, np.ndarray) else matrix

    def train(self, matrix: Rows, places: np.ndarray, purpose: str, number: int) -> Any:
        """A classifier of some rows. Local. Random by (seed, purpose, number) alone."""
        seed = int(rng.bits(self.options.seed, f"psbml {purpose}", np.array(number))) >> 32
        return learners.fit(self.learner, self.prepared(matrix), self.classes.of[places], seed)

    @contextmanager
    def computing(self, phase: str) -> Iterator[None]:
        """Count the time of the body; stretch it on the rank that is to be slow (an experiment)."""
        begin = time.perf_counter()
        with self.profile(phase):
            yield
            if self.options.slow_rank == self.comm.rank:
                time.sleep((self.options.slow_factor - 1.0) * (time.perf_counter() - begin))
