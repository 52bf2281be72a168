"""Leave-one-out scores against fits without each row."""

import numpy as np
import pytest
import scipy.sparse as sp

from hpcml import mpi
from hpcml.data.compact import compact_rows
from hpcml.data.shard import Shard
from hpcml.errors import ConfigError
from hpcml.leave_one_out.cells import EDGES, N_CELLS, constant_counts, pack_counts, unpack_counts
from hpcml.leave_one_out.scores import LabelWeights, LeaveOneOut
from hpcml.methods.dual.options import DualOptions

SELF = mpi.self_comm()


def problem(X, y, bias, fold=True):
    """Return compact rows of one label, and the same rows as a dense matrix."""
    X, labels = sp.csr_matrix(X, dtype=np.float32), sp.csr_matrix(y[:, None])
    csr = X.indptr.astype(np.int64), X.indices, X.data
    shard = Shard.of_csr(csr, X.shape[1], 1, (labels.indptr.astype(np.int64), labels.indices))
    rows, _ = compact_rows(SELF, shard, bias, fold=fold)
    return rows, sp.csr_matrix((rows.data.astype(float), rows.indices, rows.indptr), (rows.n_local, rows.n_columns)).toarray()


def fit(A, y, costs):
    """Minimise ½‖w‖² + Σ C [1 − y A w]₊² to machine precision, without an intercept."""
    C, sign, w = np.where(y, *costs), np.where(y, 1.0, -1.0), np.zeros(A.shape[1])

    def value(w):
        return w @ w / 2 + C @ np.maximum(0, 1 - sign * (A @ w)) ** 2

    for _ in range(100):  # Newton's method with step halving
        S = sign * (A @ w) < 1
        H = np.eye(w.size) + 2 * (A[S].T * C[S]) @ A[S]
        step = np.linalg.solve(H, 2 * A[S].T @ (C * sign)[S]) - w
        if np.abs(step).max() < 1e-12:
            return w
        eta = 1.0
        while value(w + eta * step) > value(w) and eta > 1e-9:
            eta /= 2
        w = w + eta * step
    raise AssertionError("not converged")


def left_out(rows, A, y, costs, bias):
    """Return the scores of the rows by fits without each of them, by `LeaveOneOut`, and by the fit on all rows; and the counts."""
    w = fit(A, y, costs)
    scores = A @ w
    refit = scores.copy()
    slack = np.where(y, 1 - scores, 1 + scores) > 0
    same = np.ones(y.size, bool)  # rows without which the others with slack remain the same
    for i in np.flatnonzero(slack):
        others = np.arange(y.size) != i
        v = fit(A[others], y[others], costs)
        refit[i] = A[i] @ v
        same[i] = ((np.where(y, 1 - A @ v, 1 + A @ v) > 0) == slack)[others].all()
    columns = np.arange(rows.n_columns - bias)
    label = LabelWeights(0, np.array(costs), columns, w[columns], w[-1] if bias else 0.0)
    sink = LeaveOneOut(rows, lambda: [slice(0, 7), slice(7, rows.n_local)])
    (above,) = sink._rows_above([label], iter)
    chosen, positive, found = sink._leave_out(label, above)
    assert positive.tolist() == y[chosen].tolist()
    assert sorted(chosen.tolist()) == np.flatnonzero(slack | y).tolist()
    ours = scores.copy()
    ours[chosen] = found
    (counts,) = sink.count([label], iter)
    assert not sink.sums.any() and not sink.w.any()
    assert counts.sum(axis=1).tolist() == [y.size, y.sum()]
    cells = np.bincount(np.searchsorted(EDGES, found, "right"), minlength=N_CELLS)
    np.testing.assert_array_equal(counts[0, 1:], cells[1:])
    return refit, ours, scores, slack, same


@pytest.mark.parametrize("costs", [(0.1, 0.1), (1.0, 1.0), (30.0, 30.0), (20.0, 2.0)])
def test_is_exact_for_rows_of_one_feature(costs):
    rng = np.random.default_rng(1)
    X = np.zeros((60, 4))
    X[np.arange(60), rng.integers(4, size=60)] = rng.uniform(0.5, 2, 60)  # H is diagonal
    y = rng.random(60) < 0.4
    refit, ours, scores, slack, same = left_out(*problem(X, y, False), y, costs, False)
    assert (slack & same).sum() >= 10
    np.testing.assert_allclose(ours[same], refit[same], rtol=1e-6, atol=1e-8)
    assert np.abs(scores - refit).max() > 0.01


def documents(seed, n=150, d=120, words=12, n_positive=25):
    """Return rows of length 1 whose words are frequent to rare, and a label that depends on ten of them."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, d))
    for row in X:
        row[np.minimum((rng.random(words) ** 2 * d).astype(int), d - 1)] = rng.uniform(0.5, 1, words)
    strength = X[:, rng.choice(d // 2, 10, replace=False)].sum(axis=1) + 0.3 * rng.random(n)
    return X / np.linalg.norm(X, axis=1, keepdims=True), strength >= np.sort(strength)[-n_positive]


@pytest.mark.parametrize("bias", [True, False])
# The default λ has costs of about 1. The smaller λ, the less a diagonal says; its errors are measured here, not hoped for.
@pytest.mark.parametrize(
    ("costs", "share"), [((0.01, 0.01), 0.2), ((0.1, 0.1), 0.2), ((1.0, 1.0), 0.35), ((10.0, 1.0), 0.65), ((100.0, 100.0), 1.0)]
)
def test_agrees_with_refits(bias, costs, share):
    X, y = documents(0)
    rows, A = problem(X, y, bias)
    refit, ours, scores, slack, _ = left_out(rows, A, y, costs, bias)
    sink = LeaveOneOut(rows, lambda: [slice(0, rows.n_local)])
    b = fit(A, y, costs)[-1] if bias else 0.0
    ours = (ours - b) / np.where(slack | y, sink.stretch, 1) + b
    for part in (slack & y, slack & ~y):
        error, before = (np.sqrt(np.mean((each - refit)[part] ** 2)) for each in (ours, scores))
        assert error < share * before
        assert share == 1 or np.corrcoef(ours[part], refit[part])[0, 1] > 0.95


def test_scores_of_rows_of_length_1_lose_features_of_no_other_row():
    X, y = documents(1, n=40)
    X = np.hstack([X * np.sqrt(0.75), 0.5 * np.eye(40)])  # a feature that only this row has
    rows, _ = problem(X, y, True)
    known = X[:, (X != 0).sum(axis=0) > 1]
    stretch = LeaveOneOut(rows, lambda: [slice(0, 40)]).stretch
    np.testing.assert_allclose(stretch, 1 / np.linalg.norm(known, axis=1), rtol=1e-6)
    rows, _ = problem(3 * X, y, True)
    assert (LeaveOneOut(rows, lambda: [slice(0, 40)]).stretch == 1).all()


@pytest.mark.parametrize("case", ["duplicates", "one positive row", "empty rows"])
def test_extreme_rows(case):
    X, y = documents(2, n=60)
    if case == "duplicates":
        X, y = np.vstack([X, X]), np.hstack([y, y])
    elif case == "one positive row":
        y = np.arange(60) == 17
    else:
        X[[3, 17]], y[17] = 0, True
    _, ours, scores, *_ = left_out(*problem(X, y, True), y, (5.0, 5.0), True)
    assert np.isfinite(ours).all()
    if case == "one positive row":
        assert ours[17] < -0.5 < scores[17]


def test_no_scores_needs_the_squared_hinge():
    DualOptions(no_scores=True).validate()
    for loss in ("hinge", "logistic"):
        DualOptions(loss=loss).validate()
        with pytest.raises(ConfigError, match=f"--no-scores: has no effect with --loss {loss}"):
            DualOptions(loss=loss, no_scores=True).validate()


def test_packed_counts():
    counts = np.zeros((2, N_CELLS), np.int64)
    counts[:, [0, 7, 241]] = [[2**31 - 1, 5, 3], [0, 5, 1]]
    packed = unpack_counts(pack_counts(counts))
    assert packed["cells"].tolist() == [0, 7, 241]
    assert packed["n_rows"].tolist() == [2**31 - 1, 5, 3] and packed["n_positives"].tolist() == [0, 5, 1]
    for positive in (False, True):
        (cell,) = unpack_counts(constant_counts(9, positive))
        assert cell.tolist() == (int(np.searchsorted(EDGES, 1.0 if positive else -2.0, "right")), 9, 9 * positive)
