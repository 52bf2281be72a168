"""The rows of dual coordinate descent: all in memory, or read from the disk chunk by chunk where memory is short.

A pass over streamed rows copies a chunk into memory, since its rows are visited at random, and visits it. Most passes are over
support vectors only. Those of a chunk stay in memory, as far as there is room: the working set. A pass that needs no other rows of
a chunk does not read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hpcml import slices
from hpcml.data.compact import CompactRows
from hpcml.methods.dual.kernels import pack
from hpcml.mpi.memory import ask_for

CHUNK_VALUES = 1 << 24  # rows of so many values are taken in random order before the next ones
PIECE_VALUES = 1 << 18  # are asked for while those before them are copied

Csr = tuple[np.ndarray, np.ndarray, np.ndarray]
Wanted = Callable[[slice], np.ndarray]  # which of these rows (not 0) a pass visits, or the next ones will


class Chunk(NamedTuple):
    """Rows in memory: which ones, and their CSR arrays."""

    own: slice
    csr: Csr


class RowChunks:
    """The rows of a rank. A pass takes them in random order, chunk by chunk."""

    def __init__(self, rows: CompactRows, chunk_values: int, kept_values: int | None = None) -> None:
        """`chunk_values`: of a chunk in which a pass goes at random. `kept_values`: rows are read from the disk, and there is room
        for so many values of the working set; None: memory, or the system's own cache, holds all rows. Local; raises MemoryError.
        """
        self.rows, self.is_streamed = rows, kept_values is not None
        cuts = np.searchsorted(rows.indptr, np.arange(0, rows.data.size + 1, chunk_values)[1:])
        self.bounds = np.unique(np.concatenate([[0], cuts, [rows.n_local]]))
        self.parts, self.all_rows = list(slices.row_slices(rows.n_local, rows.data.size)), slice(0, rows.n_local)
        if kept_values is not None:
            sizes = int(np.diff(rows.indptr[self.bounds]).max(initial=0)), min(kept_values, rows.data.size)
            types = rows.indices.dtype, rows.data.dtype
            self._chunk, self._pool = ([np.empty(size, kind) for kind in types] for size in sizes)
        self.forget()

    def forget(self) -> None:
        """Give up the working set: other rows will be needed. Local."""
        self._kept: dict[int, Csr] = {}
        self._taken = 0

    def chunks(self, order: np.ndarray, visited: Wanted, kept: Wanted) -> Iterator[tuple[Chunk, np.ndarray]]:
        """Yield chunks in the order of a pass, with those of `order` that are in them; of streamed rows not those without a row
        that is `visited`.

        When a chunk that was read is done with, those of its rows that are `kept` stay in memory if there is room. Local.
        """
        rows, place = self.rows, 0
        if not self.is_streamed:
            yield Chunk(self.all_rows, (rows.indptr, rows.indices, rows.data)), order
            return
        while place < order.size:
            number = int(np.searchsorted(self.bounds, order[place], "right")) - 1
            own = slice(int(self.bounds[number]), int(self.bounds[number + 1]))
            some = order[place : place + own.stop - own.start]
            place += some.size
            need = visited(own) != 0
            if not need.any():
                continue
            if (csr := self._holding(number, need)) is not None:
                yield Chunk(own, csr), some
                continue
            csr = self._read(own)
            yield Chunk(own, csr), some
            self._keep(number, csr, kept(own) != 0)

    def slices(self, needed: Wanted | None = None) -> Iterator[tuple[slice, Csr]]:
        """Yield all rows in their order, slice by slice; from the working set if it has those that are `needed`. Local."""
        rows = self.rows
        if not self.is_streamed:
            for some in self.parts:
                yield some, (rows.indptr[some.start : some.stop + 1], rows.indices, rows.data)
            return
        for number, (first, last) in enumerate(pairwise(self.bounds.tolist())):
            held = None if needed is None else self._holding(number, needed(slice(first, last)) != 0)
            for part in slices.row_slices(last - first, int(rows.indptr[last] - rows.indptr[first])):
                some = slice(first + part.start, first + part.stop)
                if held is not None:
                    yield some, (held[0][part.start : part.stop + 1], held[1], held[2])
                    continue
                indptr = rows.indptr[some.start : some.stop + 1]
                ask_for(rows.indices[indptr[0] : indptr[-1]], rows.data[indptr[0] : indptr[-1]])
                yield some, (indptr, rows.indices, rows.data)

    def _holding(self, number: int, need: np.ndarray) -> Csr | None:
        """Return the working set of a chunk, if it has all rows that are needed (bool)."""
        if (csr := self._kept.get(number)) is None:
            return None
        first, last = self.bounds[number : number + 2]
        complete = np.diff(csr[0]) == np.diff(self.rows.indptr[first : last + 1])
        return csr if complete[need].all() else None

    def _read(self, own: slice) -> Csr:
        """Read a chunk, piece by piece: no more than two pieces need lie in the system's cache."""
        rows, (indices, data) = self.rows, self._chunk
        first, last = int(rows.indptr[own.start]), int(rows.indptr[own.stop])
        pieces = [slice(begin, min(begin + PIECE_VALUES, last)) for begin in range(first, last, PIECE_VALUES)]
        for number, piece in enumerate(pieces):
            if number == 0:
                ask_for(rows.indices[piece], rows.data[piece])
            for after in pieces[number + 1 : number + 2]:
                ask_for(rows.indices[after], rows.data[after])
            to = slice(piece.start - first, piece.stop - first)
            indices[to], data[to] = rows.indices[piece], rows.data[piece]
        return rows.indptr[own.start : own.stop + 1] - first, indices, data

    def _keep(self, number: int, csr: Csr, kept: np.ndarray) -> None:
        """Put the rows that are `kept` (bool) of a chunk into the working set, if there is room."""
        self._kept.pop(number, None)
        size = int(np.diff(csr[0])[kept].sum())
        indices, data = (array[self._taken : self._taken + size] for array in self._pool)
        if indices.size == size:
            indptr = np.empty_like(csr[0])
            pack(*csr, kept, indptr, indices, data)
            self._kept[number] = indptr, indices, data
            self._taken += size
