"""The training problem of one rank of the torus, and the rows that the rank has received."""

import hashlib
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from hpcml import mpi, rng
from hpcml.data.labels import Classes
from hpcml.data.shard import Rows, read_rows
from hpcml.methods.psbml.options import PsbmlOptions
from hpcml.methods.psbml.torus import Torus
from hpcml.model import learner as learners
from hpcml.partition import offsets
from hpcml.run.profile import Profile


class RowsInMemory:
    def __init__(self, X: sp.csr_matrix) -> None:
        self.X, self.nnz = X, X.nnz
        self.n_rows, self.n_features = X.shape


@dataclass
class TorusProblem:
    """The data, the torus and the base learner. Rows are identified by their positions in the split."""

    comm: mpi.Comm
    dataset: Any  # a DataFile or RowsInMemory
    split: str
    classes: Classes
    start: np.ndarray  # initial node of each row, or VALIDATION
    torus: Torus
    learner: learners.Learner
    dense: bool
    options: PsbmlOptions
    profile: Profile = field(default_factory=Profile)

    def __post_init__(self) -> None:
        self.position_type = np.int32 if self.classes.rows.size < 2**31 else np.int64
        self.first_slots = {node: np.flatnonzero(self.start == node).astype(self.position_type) for node in self.torus.nodes}

    @cached_property
    def origin(self) -> bytes:
        text = f"{self.dataset.fingerprint} {self.classes.names}"
        return hashlib.sha256(text.encode() + self.classes.rows.tobytes() + self.classes.of.tobytes()).digest()

    def read(self, positions: np.ndarray) -> Rows:
        """Return rows (ascending positions) as stored and sent: dense if that needs no more memory. Raises DataError, OSError."""
        data = self.dataset
        dense = self.dense and 2 * data.nnz >= data.n_rows * data.n_features
        if isinstance(data, RowsInMemory):
            return data.X[positions].toarray() if dense else data.X[positions]
        return read_rows(data, self.classes.rows[positions], dense, check=False)  # `read_classes` has checked them

    def prepared(self, matrix: Rows) -> Rows:
        return matrix.toarray() if self.dense and not isinstance(matrix, np.ndarray) else matrix

    def train(self, matrix: Rows, positions: np.ndarray, purpose: str, number: int) -> Any:
        """Return a classifier trained on rows. Its random numbers depend on (seed, purpose, number) only."""
        seed = int(rng.bits(self.options.seed, f"psbml {purpose}", np.array(number))) >> 32
        return learners.fit(self.learner, self.prepared(matrix), self.classes.of[positions], seed)

    @contextmanager
    def computing(self, phase: str) -> Iterator[None]:
        begin = time.perf_counter()
        with self.profile(phase):
            yield
            if self.options.slow_rank == self.comm.rank:
                time.sleep((self.options.slow_factor - 1.0) * (time.perf_counter() - begin))


def unique_sorted(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Return the unique positions of all parts, ascending; ten times as fast as `np.unique`, which uses a hash table."""
    positions = np.sort(np.concatenate(list(parts)))
    return positions[np.concatenate([[True], positions[1:] != positions[:-1]])[: positions.size]]


class RowStore:
    """Rows by their positions in the split, all CSR or all dense. A row is sent to a rank once."""

    def __init__(self, problem: TorusProblem, slots: dict[int, np.ndarray]) -> None:
        self.n_features = problem.dataset.n_features
        self.positions = unique_sorted([np.empty(0, problem.position_type), *slots.values()])
        self.matrix = problem.read(self.positions)
        self._known: dict[int, np.ndarray] = {}  # rank: positions sent to it or received from it, ascending

    def take(self, positions: np.ndarray) -> Rows:
        """Return rows by their positions (any order, repeats). Raises KeyError for a row that was never received."""
        at = np.minimum(np.searchsorted(self.positions, positions), max(0, self.positions.size - 1))
        if positions.size and (self.positions.size == 0 or (self.positions[at] != positions).any()):
            raise KeyError("row was never received")
        return self.matrix[at]

    def pack_for(self, rank: int, positions: np.ndarray) -> mpi.Arrays:
        """Return the rows (ascending positions) that a rank has not received yet, as arrays to send."""
        known = self._known.get(rank, positions[:0])
        new = positions[~np.isin(positions, known, assume_unique=True)]
        self._known[rank] = unique_sorted([known, new])
        rows = self.take(new)
        if isinstance(rows, np.ndarray):
            return [new, rows.reshape(-1)]
        return [new, np.diff(rows.indptr).astype(np.int32), rows.indices.astype(np.int32), rows.data]

    def unpack_from(self, rank: int, arrays: mpi.Arrays) -> None:
        """Add the rows that another rank sent with `pack_for`, except rows that are already here."""
        positions, *parts = arrays
        self._known[rank] = unique_sorted([self._known.get(rank, positions[:0]), positions])
        new = np.flatnonzero(~np.isin(positions, self.positions, assume_unique=True))
        if not new.size:
            return
        everything = np.concatenate([self.positions, positions[new]])
        order = np.argsort(everything, kind="stable")
        if isinstance(self.matrix, np.ndarray):
            matrix = np.concatenate([self.matrix, parts[0].reshape(-1, self.n_features)[new]])
        else:
            sizes, indices, data = parts
            rows = sp.csr_matrix((data, indices, offsets(sizes)), (sizes.size, self.n_features))
            matrix = sp.vstack([self.matrix, rows[new]], format="csr")
        self.matrix, self.positions = matrix[order], everything[order]
