"""Elementary lane loops, products, and bounds against NumPy, for every width."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from hpcml.kernels import njit
from hpcml.kernels.lanes import WIDTHS, elementary
from hpcml.kernels.lanes.bounds import raise_bounds, rows_above
from hpcml.kernels.lanes.products import add_lines, dot_rows
from hpcml.kernels.lanes.write import by_width
from hpcml.losses import logistic


@by_width(of=0)
def _extremes(lanes, x, y, at, larger, smaller):
    larger.put(at, lanes.larger(x.lanes(at), y.lanes(at)))
    smaller.put(at, lanes.smaller(x.lanes(at), y.lanes(at)))


@by_width(of=0)
def _elementary(lanes, x, at, exp, sigmoid, softplus):
    exp.put(at, elementary.exp(lanes, x.lanes(at)))
    sigmoid.put(at, elementary.sigmoid(lanes, x.lanes(at))[0])
    softplus.put(at, elementary.softplus(lanes, x.lanes(at)))


@njit
def extremes(x, y, larger, smaller, width):
    for at in range(0, x.size, width):
        _extremes(x, y, at, larger, smaller, width)


@njit
def extremes_of_four(x, y, larger, smaller):
    for at in range(0, x.size, 4):
        _extremes(x, y, at, larger, smaller, 4)


@njit
def functions(x, exp, sigmoid, softplus, width):
    for at in range(0, x.size, width):
        _elementary(x, at, exp, sigmoid, softplus, width)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", WIDTHS)
def test_extremes_of_zeros_and_nan(dtype, width):
    values = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3.0], dtype)
    x, y = (each.ravel().copy() for each in np.meshgrid(values, values))
    larger, smaller = np.empty_like(x), np.empty_like(x)
    extremes(x, y, larger, smaller, width)
    np.testing.assert_array_equal(larger.view(np.uint8), np.where(y > x, y, x).view(np.uint8))  # the bits: also the sign of a zero
    np.testing.assert_array_equal(smaller.view(np.uint8), np.where(y < x, y, x).view(np.uint8))
    extremes_of_four(x, y, known := np.empty_like(x), np.empty_like(x))
    np.testing.assert_array_equal(known.view(np.uint8), larger.view(np.uint8))


@pytest.mark.parametrize(("dtype", "close"), [(np.float32, 4e-7), (np.float64, 1e-15)])
def test_elementary_functions_are_the_same_in_every_lane(dtype, close):
    x = np.linspace(-60, 60, 1600).astype(dtype)
    found = {}
    for width in WIDTHS:
        functions(x, *(outputs := [np.empty_like(x) for _ in range(3)]), width)
        found[width] = np.array(outputs)
        assert (found[width] == found[1]).all()
    wide = x.astype(np.float64)
    np.testing.assert_allclose(found[1], [np.exp(wide), expit(wide), np.logaddexp(0, wide)], rtol=close)
    value, slope, _ = np.array([logistic.at(-each) for each in wide]).T  # the scalar form of the loss
    np.testing.assert_allclose(found[1][1:], [-slope, value], rtol=2 * close)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", WIDTHS)
def test_products_and_sums_of_rows(dtype, width):
    rng = np.random.default_rng(width)
    X = np.where(rng.random((9, 20)) < 0.4, rng.standard_normal((9, 20)), 0).astype(dtype)
    X[4] = 0
    indptr, (indices, data) = np.append(0, np.cumsum((X != 0).sum(axis=1))), (np.nonzero(X)[1].astype(np.int32), X[X != 0])
    w, rows = rng.standard_normal((20, width)).astype(dtype), np.array([8, 0, 4, 3])
    z = np.full(9 * width, 7.0)
    dot_rows(indptr, indices, data, 0, rows, w.ravel(), z, width, True)
    np.testing.assert_allclose(z.reshape(9, width)[rows], X[rows].astype(float) @ w.astype(float), rtol=1e-6, atol=1e-6)
    assert (z.reshape(9, width)[[1, 2, 5, 6, 7]] == 7.0).all()
    slopes, line = rng.standard_normal((9, width)), min(width, 8)
    starts = np.arange(0, 9 * width, line)
    for rounded, shift in ((False, 0.0), (True, 1.5 * 2.0**32)):
        g = np.zeros(20 * width)
        grids = np.zeros(20, np.uint8), np.array([shift])
        add_lines((indptr, indices, data), 0, starts, slopes.ravel(), g, width, grids, rounded)
        addends = X.astype(float)[:, :, None] * slopes[:, None, :]
        np.testing.assert_allclose(g, ((addends + shift) - shift).sum(axis=0).ravel(), rtol=0, atol=1e-12)


N, D = 50, 40


@pytest.fixture
def matrix():
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
    raise_bounds((X.indptr.astype(np.int64), X.indices, X.data), ends, w.reshape(-1), found.reshape(-1), lanes)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lanes", WIDTHS)
def test_rows_above_thresholds(lanes):
    rng = np.random.default_rng(lanes)
    bounds = rng.integers(0, 5, (N, lanes)).astype(np.float32)
    bounds[3] = np.nan  # is to be found
    thresholds = np.where(np.arange(lanes) % 3 == 2, np.inf, rng.integers(0, 6, lanes)).astype(np.float32)
    counts, found = np.full(16, 9), np.full((lanes, N), -1, np.int32)
    rows_above(bounds.reshape(-1), thresholds, lanes, counts, found)
    for lane in range(lanes):
        expected = np.flatnonzero(~(bounds[:, lane] < thresholds[lane]))
        np.testing.assert_array_equal(found[lane, : counts[lane]], expected)
