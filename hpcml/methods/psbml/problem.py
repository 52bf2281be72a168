"""The problem to be trained on, as one rank of the torus sees it, and the rows that the rank has seen."""

from __future__ import annotations

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
    """All rows, in the place of a dataset file."""

    def __init__(self, X: sp.csr_matrix) -> None:
        self.X, self.nnz = X, X.nnz
        self.n_rows, self.n_features = X.shape


@dataclass
class TorusProblem:
    """The data, the torus and the base learner. Rows are called by their places in the split.

    `first_slots` are the rows with which each node here begins.
    """

    comm: mpi.Comm
    dataset: Any  # a DataFile or RowsInMemory
    split: str
    classes: Classes
    start: np.ndarray  # the node on which each row begins, or VALIDATION
    torus: Torus
    learner: learners.Learner
    dense: bool
    options: PsbmlOptions
    profile: Profile = field(default_factory=Profile)

    def __post_init__(self) -> None:
        self.place_type = np.int32 if self.classes.rows.size < 2**31 else np.int64
        self.first_slots = {node: np.flatnonzero(self.start == node).astype(self.place_type) for node in self.torus.nodes}

    @cached_property
    def origin(self) -> bytes:
        """A digest that a continued run must have in common with its beginning (32 bytes)."""
        text = f"{self.dataset.fingerprint} {self.classes.names}"
        return hashlib.sha256(text.encode() + self.classes.rows.tobytes() + self.classes.of.tobytes()).digest()

    def read(self, places: np.ndarray) -> Rows:
        """Rows (ascending places) as they are kept and travel: dense where that takes no more room. Raises DataError, OSError."""
        data = self.dataset
        dense = self.dense and 2 * data.nnz >= data.n_rows * data.n_features
        if isinstance(data, RowsInMemory):
            return data.X[places].toarray() if dense else data.X[places]
        return read_rows(data, self.classes.rows[places], dense, check=False)  # `read_classes` has checked them

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


def distinct(parts: Iterable[np.ndarray]) -> np.ndarray:
    """The places of all parts, ascending, each once; ten times as fast as `np.unique` (a hash)."""
    places = np.sort(np.concatenate(list(parts)))
    return places[np.concatenate([[True], places[1:] != places[:-1]])[: places.size]]


class RowStore:
    """Rows by their places in the split, all CSR or dense. A row travels to a rank once."""

    def __init__(self, problem: TorusProblem, slots: dict[int, np.ndarray]) -> None:
        """Read the rows in the slots of the nodes here. Raises DataError, OSError, MemoryError."""
        self.n_features = problem.dataset.n_features
        self.places = distinct([np.empty(0, problem.place_type), *slots.values()])
        self.matrix = problem.read(self.places)
        self._known: dict[int, np.ndarray] = {}  # rank: places that it has from here or that came from there, ascending

    def take(self, places: np.ndarray) -> Rows:
        """Rows by their places (any order, repeats). Raises KeyError for one never seen."""
        at = np.minimum(np.searchsorted(self.places, places), max(0, self.places.size - 1))
        if places.size and (self.places.size == 0 or (self.places[at] != places).any()):
            raise KeyError("a row was named that never arrived")
        return self.matrix[at]

    def letter(self, rank: int, places: np.ndarray) -> mpi.Arrays:
        """A letter to a rank with those of some rows (ascending places) that it has not seen."""
        known = self._known.get(rank, places[:0])
        new = places[~np.isin(places, known, assume_unique=True)]
        self._known[rank] = distinct([known, new])
        rows = self.take(new)
        if isinstance(rows, np.ndarray):
            return [new, rows.reshape(-1)]
        return [new, np.diff(rows.indptr).astype(np.int32), rows.indices.astype(np.int32), rows.data]

    def open_letter(self, rank: int, arrays: mpi.Arrays) -> None:
        """Take in what `letter` of another rank wrote, but for rows that are here already."""
        places, *parts = arrays
        self._known[rank] = distinct([self._known.get(rank, places[:0]), places])
        new = np.flatnonzero(~np.isin(places, self.places, assume_unique=True))
        if not new.size:
            return
        everything = np.concatenate([self.places, places[new]])
        order = np.argsort(everything, kind="stable")
        if isinstance(self.matrix, np.ndarray):
            matrix = np.concatenate([self.matrix, parts[0].reshape(-1, self.n_features)[new]])
        else:
            sizes, indices, data = parts
            rows = sp.csr_matrix((data, indices, offsets(sizes)), (sizes.size, self.n_features))
            matrix = sp.vstack([self.matrix, rows[new]], format="csr")
        self.matrix, self.places = matrix[order], everything[order]
