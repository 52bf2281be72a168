"""Streamed rows of dual coordinate descent: chunks read and rows cached."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from hpcml.methods.dual.chunks import RowChunks

N = 40


@pytest.fixture
def matrix():
    rng = np.random.default_rng(3)
    sizes = rng.integers(0, 10, N)
    indices = np.concatenate([rng.choice(50, size, replace=False) for size in sizes]).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return sp.csr_matrix((rng.random(indices.size, np.float32) + 1, indices, indptr), (N, 50))


@pytest.fixture
def streamed(matrix, monkeypatch):
    read, original = [], RowChunks._read

    def watched(self, own):
        read.append(own.start)
        return original(self, own)

    monkeypatch.setattr(RowChunks, "_read", watched)

    def make(kept):
        rows = SimpleNamespace(indptr=matrix.indptr.astype(np.int64), indices=matrix.indices, data=matrix.data, n_local=N)
        return RowChunks(rows, 30, kept), read

    return make


def orders(rows, seed):
    rng, bounds = np.random.default_rng(seed), rows.bounds
    chunks = rng.permutation(bounds.size - 1)
    return np.concatenate([rng.permutation(np.arange(bounds[c], bounds[c + 1])) for c in chunks]).astype(np.int32), bounds[chunks]


def visit(rows, order, matrix, visited, kept):
    seen = []
    for (own, csr), some in rows.chunks(order, lambda own: visited[own], lambda own: kept[own]):
        for row in some[visited[some]].tolist():
            begin, end = csr[0][row - own.start : row - own.start + 2]
            expected = matrix[row]
            np.testing.assert_array_equal(csr[1][begin:end], expected.indices)
            np.testing.assert_array_equal(csr[2][begin:end], expected.data)
            seen.append(row)
    assert seen == [row for row in order.tolist() if visited[row]]


def test_second_pass_reads_only_uncached_chunks(matrix, streamed):
    every, some = np.ones(N, np.bool_), np.arange(N) % 3 == 0
    sizes = np.diff(matrix.indptr)
    for kept, complete in ((sizes[some].sum(), True), (sizes[some].sum() - 1, False), (0, False)):
        rows, read = streamed(int(kept))
        assert rows.bounds.size > 4
        order, chunks = orders(rows, 1)
        read.clear()
        visit(rows, order, matrix, every, some)
        assert read == chunks.tolist()  # all, in the order of the pass
        read.clear()
        visit(rows, orders(rows, 2)[0], matrix, some, some)
        assert (read == []) == complete
        if kept == 0:
            holding = [start for start, end in pairwise(rows.bounds.tolist()) if some[start:end].any()]
            assert sorted(read) == holding
