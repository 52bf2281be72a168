"""The panel kernel against references, the rule for dormant rows, and independence of the bits."""

import numpy as np
import pytest
from support.make import random_data
from support.oracles import DormantRows, pass_over_rows

from hpcml import mpi
from hpcml.kernels.lanes import WIDTHS
from hpcml.losses import FIRST_ORDER, load_loss
from hpcml.methods.linear import panel_kernels as kernels


class Case:
    def __init__(self, X, Y, labels, loss="hinge", precision="f8", dormant=False, rounded=True, index="i4", first=0):
        self.X, self.loss, self.dormant, self.rounded, self.first = X, load_loss(loss), dormant, rounded, first
        self.panel_pass, _ = kernels.passes_of(loss)
        self.indices, self.data, self.indptr = X.indices.astype(index), X.data, X.indptr.astype(np.int64)
        self.precision, self.width = precision, len(labels)
        self.state = np.zeros((X.shape[0], self.width), np.uint8)
        self.state[Y[:, labels].toarray() != 0] |= kernels.POSITIVE
        self.keys = np.array(labels, np.uint64) * np.uint64(12345)
        largest = abs(X).max(axis=0).toarray().ravel()
        self.levels = mpi.grid_levels(self.loss.SLOPE_BOUND * largest * 200)
        self.norm = np.sqrt(X.multiply(X).sum(axis=1).max())

    def turn(self, W, step=0, rows=slice(None)):
        begin, end, _ = rows.indices(self.X.shape[0])
        w, g, sums = np.ascontiguousarray(W, self.precision).ravel(), np.zeros(W.size), np.zeros((4, self.width))
        bound = self.loss.VALUE_AT_ZERO + self.loss.SLOPE_BOUND * self.norm * np.sqrt((W**2).sum(axis=0))
        shifts = np.empty((2, self.width))
        for lane in range(self.width):
            shifts[0, lane], spacing = mpi.grid(200 * bound[lane])
            shifts[1, lane], _ = mpi.grid(200 * spacing)
        taken = kernels.RowRange(self.indptr[begin : end + 1], self.indices, self.data, self.first + begin)
        state, steps = self.state[begin:end].reshape(-1), np.full(self.width, step)
        arrays = kernels.PanelArrays(w, state, self.keys, steps, shifts, g, sums)
        rule = kernels.PassRule(int(self.dormant), int(self.rounded), self.levels, mpi.SHIFT_OF_LEVEL)
        self.panel_pass(taken, arrays, rule)
        return (g.reshape(W.shape), sums) if rows != slice(None) else (g.reshape(W.shape), sums[0] + sums[1], sums[2], sums[3])


@pytest.fixture
def problem():
    X, Y = random_data(3, 150, 40, 16)
    return X, Y, np.random.default_rng(1).normal(size=(40, 16))


@pytest.mark.parametrize("index", ["i4", "i8"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("loss", FIRST_ORDER)
def test_pass_is_the_textbook_sum(problem, loss, width, index):
    X, Y, W = problem
    labels, W = list(range(width)), W[:, :width]
    for precision, rtol in (("f8", 1e-13), ("f4", 1e-5)):
        G, losses, violators, visited = Case(X, Y, labels, loss, precision, index=index).turn(W)
        for lane in labels:
            sign = np.where(Y[:, [lane]].toarray().ravel() != 0, 1.0, -1.0)
            value, grad, count = pass_over_rows(loss, X.toarray().astype(float), sign, W[:, lane])
            assert losses[lane] == pytest.approx(value, rel=rtol)
            np.testing.assert_allclose(G[:, lane], grad, rtol=0, atol=1e-10 if precision == "f8" else 1e-3)
            assert (violators[lane], visited[lane]) == (count, 150)


@pytest.mark.parametrize("precision", ["f4", "f8"])
@pytest.mark.parametrize("loss", FIRST_ORDER)
def test_bits_depend_neither_on_the_width_nor_on_how_rows_are_divided(problem, loss, precision):
    X, Y, W = problem
    whole = Case(X, Y, list(range(16)), loss, precision).turn(W, rows=slice(0, 150))
    case = Case(X, Y, list(range(16)), loss, precision)
    parts = [case.turn(W, rows=slice(a, b)) for a, b in ((0, 7), (7, 7), (7, 130), (130, 150))]
    for number, total in enumerate(whole):
        assert (sum(part[number] for part in parts) == total).all()
    for width in WIDTHS:
        for first in range(0, 16, width):
            lanes = list(range(first, first + width))
            for some, all_ in zip(Case(X, Y, lanes, loss, precision).turn(W[:, lanes], rows=slice(0, 150)), whole, strict=True):
                assert (some == all_[..., lanes]).all()


@pytest.mark.parametrize("loss", ["hinge", "huber"])
@pytest.mark.parametrize("width", [1, 4, 16])
def test_dormant_rows_follow_the_printed_rule(problem, loss, width):
    X, Y, _ = problem
    rng = np.random.default_rng(5)
    case = Case(X, Y, list(range(width)), loss, dormant=True, first=1000)
    twins = [DormantRows(150, int(case.keys[lane]), first=1000) for lane in range(width)]
    signs = [np.where(Y[:, [lane]].toarray().ravel() != 0, 1.0, -1.0) for lane in range(width)]
    dense, share = X.toarray().astype(float), []
    # weights that most rows are happy with, and that change slowly, so that rows stay quiet, sleep, and wake up violating
    W = 6 * np.array([np.linalg.lstsq(dense, sign, rcond=None)[0] for sign in signs]).T
    for step in range(120):
        W += 0.1 * rng.normal(size=W.shape) * (1 + 3 * (step % 40 == 39))
        G, losses, violators, visited = case.turn(W, step)
        for lane, (twin, sign) in enumerate(zip(twins, signs, strict=True)):
            awake = twin.awake(step)
            value, grad, count = pass_over_rows(loss, dense[awake], sign[awake], W[:, lane])
            assert (visited[lane], violators[lane]) == (awake.sum(), count)
            assert losses[lane] == pytest.approx(value, rel=1e-12)
            np.testing.assert_allclose(G[:, lane], grad, rtol=0, atol=1e-10)
            twin.visit(step, sign * (dense @ W[:, lane]) < 1)
        share.append(visited.mean() / 150)
    assert share[9] == 1
    assert min(share) < 0.6
