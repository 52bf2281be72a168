"""The fused kernel against its textbook twin, and the independence of its bits."""

import numpy as np
import pytest
from make import random_data
from oracles import hinge_pass

from hpcml import mpi
from hpcml.kernels import blocks, fused


def run(X, Y, labels, W, bias=0, rows=None, ones=False, index="i4", one_grid=True, exact=False):
    """`fused_pass` over rows of X: (G, losses, violators)."""
    rows = np.arange(X.shape[0]) if rows is None else rows
    data = np.broadcast_to(np.float32(1), X.nnz) if ones else X.data
    slots = np.full(Y.shape[1], -1)
    slots[labels] = np.arange(len(labels))
    G, sums = np.zeros_like(W), np.zeros((3, len(labels)))
    norm = np.sqrt(X.multiply(X).sum(axis=1).max() + 1)
    largest = np.append(abs(X).max(axis=0).toarray().ravel(), 1.0)[: W.shape[0]]
    levels = mpi.grid_levels(largest * X.shape[0])
    one_shift = mpi.SHIFT_OF_LEVEL[levels.max()] if one_grid else 0.0
    shifts = np.empty((2, len(labels)))
    shifts[0], spacing = mpi.grid(X.shape[0] * (1 + norm * np.sqrt((W**2).sum(axis=0)).max()))
    shifts[1], _ = mpi.grid(X.shape[0] * spacing)
    arrays = (X.indptr.astype("i8"), X.indices.astype(index), data, rows, Y.indptr.astype("i8"), Y.indices.astype("i4"))
    negative = np.full(len(labels), -1.0)
    fused.fused_pass(*arrays, slots, negative, W, bias, 0, int(exact), one_shift, levels, mpi.SHIFT_OF_LEVEL, shifts, G, sums)
    return G, sums[0] + sums[1], sums[2]


@pytest.fixture
def problem():
    X, Y = random_data(3, 150, 40, 9)
    W = np.random.default_rng(1).normal(size=(41, 9))
    return X, Y, W


@pytest.mark.parametrize("one_grid", [False, True])
@pytest.mark.parametrize("index", ["i4", "i8"])
@pytest.mark.parametrize("ones", [False, True])
@pytest.mark.parametrize("bias", [0, 1])
@pytest.mark.parametrize("labels", [[4], [2, 7], list(range(9))])
def test_pass_is_the_textbook_sum(problem, labels, bias, ones, index, one_grid):
    X, Y, W = problem
    if ones:
        X.data[:] = 1
    W = np.ascontiguousarray(W[: 40 + bias, labels])
    dense = np.hstack([X.toarray().astype(float), np.ones((150, bias))])
    G, losses, violators = run(X, Y, labels, W, bias, ones=ones, index=index, one_grid=one_grid)
    for lane, label in enumerate(labels):
        sign = np.where(Y[:, [label]].toarray().ravel() != 0, 1.0, -1.0)
        loss, grad, count = hinge_pass(dense, sign, W[:, lane])
        assert losses[lane] == pytest.approx(loss, rel=1e-13)
        np.testing.assert_allclose(G[:, lane], grad, rtol=0, atol=1e-10)
        assert violators[lane] == count


@pytest.mark.parametrize("one_grid", [False, True])
def test_bits_depend_neither_on_the_block_nor_on_the_order_of_rows(problem, one_grid):
    X, Y, W = problem
    W = np.ascontiguousarray(W[:40])
    labels = list(range(9))
    G, losses, _ = run(X, Y, labels, W, one_grid=one_grid)
    order = np.random.default_rng(2).permutation(150)
    parts = [run(X, Y, labels, W, rows=part, one_grid=one_grid) for part in np.array_split(order, 7)]
    assert (sum(part[0] for part in parts) == G).all()
    shuffled = run(X, Y, labels, W, rows=order, one_grid=one_grid)
    assert (shuffled[0] == G).all()
    assert (shuffled[1] == losses).all()
    for label in labels:
        alone = run(X, Y, [label], np.ascontiguousarray(W[:, [label]]), one_grid=one_grid)
        assert (alone[0][:, 0] == G[:, label]).all()


@pytest.mark.parametrize("labels", [[4], list(range(9))])
def test_where_addends_lie_on_the_grid_rounding_changes_no_bit(problem, labels):
    X, Y, W = problem
    X.data[:] = np.round(X.data * 64) / 64
    X.eliminate_zeros()
    W = np.ascontiguousarray(W[:40, labels])
    rounded, plain = (run(X, Y, labels, W, exact=exact) for exact in (False, True))
    assert (rounded[0] == plain[0]).all()
    assert (rounded[1] == plain[1]).all()


def test_rows_without_features_or_labels_count_in_the_loss():
    X, Y = random_data(0, 5, 4, 2, density=0.0)
    G, losses, violators = run(X, Y, [0, 1], np.ones((4, 2)))
    assert (losses == 5).all()
    assert (violators == 5).all()
    assert not G.any()


@pytest.mark.parametrize("n_lanes", [1, 3, 8])
def test_sweeps(n_lanes):
    rng = np.random.default_rng(0)
    W, G, eta = rng.normal(size=(30, n_lanes)), rng.normal(size=(30, n_lanes)), rng.random(n_lanes)
    gradient = 0.25 * W + 0.5 * G
    out = np.empty(n_lanes)
    blocks.gradient_squares(W, G, 0.25, 0.5, out)
    np.testing.assert_allclose(out, (gradient**2).sum(axis=0))
    expected = W - eta * gradient
    blocks.step(W, G, eta, 0.25, 0.5, out)
    np.testing.assert_allclose(W, expected)
    np.testing.assert_allclose(out, (W**2).sum(axis=0))
    copy = np.zeros((30, 2))
    blocks.copy_lanes(W, np.array([n_lanes - 1]), np.array([1]), copy)
    assert (copy[:, 1] == W[:, -1]).all()
    assert not copy[:, 0].any()
