"""Training rows of dual coordinate descent, in memory or read from disk in chunks.

Rows are visited in random order, so a pass over streamed rows copies one chunk into memory and visits its rows. Most passes visit
only support vectors. The support vectors of each chunk are cached while there is room, and a pass whose rows are all cached does
not read the chunk.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hpcml import slices
from hpcml.data.compact import CompactRows
from hpcml.methods.dual.kernels import pack
from hpcml.mpi.memory import ask_for

# Values per chunk: rows are shuffled within a chunk.
CHUNK_VALUES = 1 << 24
# Values per prefetch: the next piece is prefetched while one is copied.
PIECE_VALUES = 1 << 18
Csr = tuple[np.ndarray, np.ndarray, np.ndarray]
RowFilter = Callable[[slice], np.ndarray]  # non-zero for the rows of a slice that are needed


class Chunk(NamedTuple):
    rows: slice
    csr: Csr


class RowChunks:
    """The rows of a rank, visited chunk by chunk in random order."""

    def __init__(self, rows: CompactRows, chunk_values: int, kept_values: int | None = None) -> None:
        """`kept_values` is the number of values to cache of streamed rows, or None if memory holds all rows. Raises MemoryError."""
        self.rows, self.is_streamed = rows, kept_values is not None
        cuts = np.searchsorted(rows.indptr, np.arange(0, rows.data.size + 1, chunk_values)[1:])
        self.bounds = np.unique(np.concatenate([[0], cuts, [rows.n_local]]))
        self.parts, self.all_rows = list(slices.row_slices(rows.n_local, rows.data.size)), slice(0, rows.n_local)
        if kept_values is not None:
            sizes = int(np.diff(rows.indptr[self.bounds]).max(initial=0)), min(kept_values, rows.data.size)
            types = rows.indices.dtype, rows.data.dtype
            self._chunk, self._pool = ([np.empty(size, kind) for kind in types] for size in sizes)
        self.clear_cache()

    def clear_cache(self) -> None:
        self._cached: dict[int, Csr] = {}
        self._n_cached = 0

    def chunks(self, order: np.ndarray, visited: RowFilter, to_cache: RowFilter) -> Iterator[tuple[Chunk, np.ndarray]]:
        """Yield the chunks in the order of a pass, each with its rows in `order`, and cache the rows selected by `to_cache`."""
        rows, position = self.rows, 0
        if not self.is_streamed:
            yield Chunk(self.all_rows, (rows.indptr, rows.indices, rows.data)), order
            return
        while position < order.size:
            number = int(np.searchsorted(self.bounds, order[position], "right")) - 1
            bounds = slice(int(self.bounds[number]), int(self.bounds[number + 1]))
            chunk_order = order[position : position + bounds.stop - bounds.start]
            position += chunk_order.size
            need = visited(bounds) != 0
            if not need.any():
                continue
            if (csr := self._cached_rows(number, need)) is not None:
                yield Chunk(bounds, csr), chunk_order
                continue
            csr = self._read(bounds)
            yield Chunk(bounds, csr), chunk_order
            self._cache_rows(number, csr, to_cache(bounds) != 0)

    def slices(self, needed: RowFilter | None = None) -> Iterator[tuple[slice, Csr]]:
        """Yield all rows in order, slice by slice, from the cache where it has the rows that are `needed`."""
        rows = self.rows
        if not self.is_streamed:
            for part in self.parts:
                yield part, (rows.indptr[part.start : part.stop + 1], rows.indices, rows.data)
            return
        for number, (first, last) in enumerate(pairwise(self.bounds.tolist())):
            cached = None if needed is None else self._cached_rows(number, needed(slice(first, last)) != 0)
            for inner in slices.row_slices(last - first, int(rows.indptr[last] - rows.indptr[first])):
                part = slice(first + inner.start, first + inner.stop)
                if cached is not None:
                    yield part, (cached[0][inner.start : inner.stop + 1], cached[1], cached[2])
                    continue
                indptr = rows.indptr[part.start : part.stop + 1]
                ask_for(rows.indices[indptr[0] : indptr[-1]], rows.data[indptr[0] : indptr[-1]])
                yield part, (indptr, rows.indices, rows.data)

    def _cached_rows(self, number: int, need: np.ndarray) -> Csr | None:
        """Return the cached rows of a chunk, or None if one of the needed rows (bool) is missing."""
        if (csr := self._cached.get(number)) is None:
            return None
        first, last = self.bounds[number : number + 2]
        complete = np.diff(csr[0]) == np.diff(self.rows.indptr[first : last + 1])
        return csr if complete[need].all() else None

    def _read(self, bounds: slice) -> Csr:
        """Copy a chunk into memory, piece by piece, so that at most two pieces occupy the page cache."""
        rows, (indices, data) = self.rows, self._chunk
        first, last = int(rows.indptr[bounds.start]), int(rows.indptr[bounds.stop])
        pieces = [slice(begin, min(begin + PIECE_VALUES, last)) for begin in range(first, last, PIECE_VALUES)]
        for number, piece in enumerate(pieces):
            if number == 0:
                ask_for(rows.indices[piece], rows.data[piece])
            for following in pieces[number + 1 : number + 2]:
                ask_for(rows.indices[following], rows.data[following])
            to = slice(piece.start - first, piece.stop - first)
            indices[to], data[to] = rows.indices[piece], rows.data[piece]
        return rows.indptr[bounds.start : bounds.stop + 1] - first, indices, data

    def _cache_rows(self, number: int, csr: Csr, selected: np.ndarray) -> None:
        self._cached.pop(number, None)
        size = int(np.diff(csr[0])[selected].sum())
        indices, data = (array[self._n_cached : self._n_cached + size] for array in self._pool)
        if indices.size == size:
            indptr = np.empty_like(csr[0])
            pack(*csr, selected, indptr, indices, data)
            self._cached[number] = indptr, indices, data
            self._n_cached += size
