"""Statistical kernels against SciPy and scikit-learn."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.isotonic import isotonic_regression

from hpcml.conversion.synthetic_kernels import normal
from hpcml.evaluation.chance_kernels import hypergeometric_tail
from hpcml.kernels.rows import first_at_least, transpose
from hpcml.methods.bayes.kernels import pool


def test_normal_quantiles():
    shares = np.concatenate([np.linspace(0, 1, 1001)[1:-1], np.logspace(-300, -3, 100), 1 - np.logspace(-15, -3, 50)])
    np.testing.assert_allclose(normal(shares), stats.norm.ppf(shares), rtol=4e-15, atol=1e-15)


@pytest.mark.parametrize("n_rows", [1, 7, 40, 3_000, 1_000_000])
def test_tails_of_the_hypergeometric_distribution(n_rows):
    rng = np.random.default_rng(n_rows)
    marked, drawn = rng.integers(0, n_rows + 1, 300), rng.integers(0, n_rows + 1, 300)
    marked[:150] = np.minimum(marked[:150], rng.integers(1, 30, 150))
    near = np.rint(marked * (drawn / n_rows) + rng.normal(0, 3, 300) * np.sqrt(np.minimum(marked, drawn) / 4))
    hits = np.clip(near, 0, np.minimum(marked, drawn) + 1)
    found, expected = hypergeometric_tail(hits, n_rows, marked, drawn), stats.hypergeom.sf(hits - 1, n_rows, marked, drawn)
    np.testing.assert_allclose(found, expected, rtol=1e-11 + 6e-15 * n_rows, atol=1e-15)
    assert n_rows < 40 or ((expected > 1e-3) & (expected < 0.9)).sum() > 30


@pytest.mark.parametrize("seed", range(5))
def test_pooled_values_are_isotonic_regression(seed):
    rng = np.random.default_rng(seed)
    values, weights = rng.normal(size=200) + np.linspace(0, seed, 200), rng.uniform(0.1, 3.0, 200)
    expected = isotonic_regression(values, sample_weight=weights)
    ends = np.zeros(200, dtype=np.int64)
    n_blocks = pool(values, weights.copy(), ends)
    assert 1 < n_blocks < 200 and ends[n_blocks - 1] == 200
    np.testing.assert_allclose(np.repeat(values[:n_blocks], np.diff(ends[:n_blocks], prepend=0)), expected, rtol=1e-12)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize(("first", "last"), [(0, 20), (5, 20), (0, 7), (3, 3)])
@pytest.mark.parametrize("positive", [False, True])
def test_transpose(positive, first, last, index):
    X = sp.random(15, 20, 0.3, "csr", random_state=np.random.default_rng(0), data_rvs=np.random.default_rng(1).standard_normal)
    missing = (np.arange(first, last) % 4 == 1) & positive  # columns without a place
    kept = X.toarray()[:, first:last] * ~missing
    expected = sp.csc_matrix(kept * (kept > 0) if positive else kept)
    indptr, indices = X.indptr.astype(np.int64), X.indices.astype(index)
    places = np.where(missing, -1, expected.indptr[:-1]).astype(np.int64)
    rows, values = np.full(expected.nnz, -1, np.int32), np.full(expected.nnz, np.nan)
    if positive:
        transpose(indptr[:-1], indptr[1:], indices, X.data, first, places, rows, values, True)
    else:
        transpose(indptr[:-1], indptr[1:], indices, X.data, first, places, rows, values)
        again, only_rows = expected.indptr[:-1].astype(np.int64), np.full(expected.nnz, -1, np.int32)
        transpose(indptr[:-1], indptr[1:], indices, None, first, again, only_rows, None)
        assert np.array_equal(only_rows, rows)
    assert np.array_equal(rows, expected.indices) and np.array_equal(values, expected.data)
    assert np.array_equal(places, np.where(missing, -1, expected.indptr[1:]))


def test_first_at_least_is_searchsorted():
    values = np.unique(np.random.default_rng(0).integers(0, 40, 30))
    for begin, end in ((0, values.size), (3, 9), (4, 4)):
        for key in range(-1, 42):
            assert first_at_least(values, begin, end, key) == begin + np.searchsorted(values[begin:end], key)
