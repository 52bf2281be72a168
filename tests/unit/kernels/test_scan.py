"""Score bounds of rows for several labels against NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp

from hpcml.kernels.lanes import WIDTHS, scan

N, D = 50, 40


@pytest.fixture
def matrix():
    """Rows of no to 20 values; the first of each row, up to `ends`, are those that count."""
    rng = np.random.default_rng(1)
    X = sp.random(N, D, 0.3, "lil", np.float32, rng)
    X[7] = 0
    X = X.tocsr()
    sizes = np.diff(X.indptr)
    return X, X.indptr[:-1].astype(np.int64) + rng.integers(0, sizes + 1)


@pytest.mark.parametrize("lanes", WIDTHS)
def test_bounds(matrix, lanes):
    X, ends = matrix
    rng = np.random.default_rng(lanes)
    w, bounds = (rng.normal(size=(n, lanes)).astype(np.float32) for n in (D, N))
    first = sp.csr_matrix(X)
    counts = np.arange(X.nnz) < np.repeat(ends, np.diff(X.indptr))
    first.data = np.where(counts, X.data, 0)
    expected = bounds + first @ w.astype(float)
    found = bounds.copy()
    scan.raise_bounds((X.indptr.astype(np.int64), X.indices, X.data), ends, w.reshape(-1), found.reshape(-1), lanes)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lanes", WIDTHS)
def test_rows_above_thresholds(lanes):
    rng = np.random.default_rng(lanes)
    bounds = rng.integers(0, 5, (N, lanes)).astype(np.float32)
    bounds[3] = np.nan  # is to be found
    thresholds = np.where(np.arange(lanes) % 3 == 2, np.inf, rng.integers(0, 6, lanes)).astype(np.float32)
    counts, found = np.full(16, 9), np.full((lanes, N), -1, np.int32)
    scan.rows_above(bounds.reshape(-1), thresholds, lanes, counts, found)
    for lane in range(lanes):
        expected = np.flatnonzero(~(bounds[:, lane] < thresholds[lane]))
        np.testing.assert_array_equal(found[lane, : counts[lane]], expected)
