"""scikit-learn classifiers on shards: the same bits as on one rank with all rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from support import make
from support.make import random_data

from hpcml import DualClassifier, ProbeClassifier, PsbmlClassifier

pytestmark = pytest.mark.mpi
SHORT = {"epsilon": 0.25}  # three cycles or so
NO_YES = np.array(["no", "yes"], object)


def same(a, b):
    names = ("coef_", "intercept_", "n_iter_", "f_min_", "visited_", "classes_")
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in names)


def bounds(comm, n, empty):
    sizes = np.arange(1, comm.size + 1) * (np.arange(comm.size) != empty % comm.size if comm.size > 1 and empty is not None else 1)
    cuts = np.concatenate([[0], np.cumsum(sizes)]) * n // sizes.sum()
    return slice(int(cuts[comm.rank]), int(cuts[comm.rank + 1]))


@pytest.fixture(params=[None, 0], ids=["all", "first empty"])
def mine(request, comm):
    return bounds(comm, 60, request.param)


@pytest.fixture
def X():
    return random_data(4, 60, 30, 1, density=0.15)[0]  # some features occur in one row only, some in none


@pytest.mark.parametrize("kind", [ProbeClassifier, DualClassifier])
@pytest.mark.parametrize("target", ["label sets", "three classes", "two classes", "objects", "one class"])
def test_bits_of_one_rank(comm, mine, X, kind, target):
    y = np.sort(np.arange(60) % 3)  # the first ranks lack the last classes
    if target == "label sets":
        y = (random_data(5, 60, 5, 7, density=0.3)[1] != 0).astype(int).tolil()
        y[:, 1], y[:, 2], y[:30, 3] = 0, 1, 0
        y = y.tocsr()
    elif target != "one class":
        y = {"three classes": np.array(["ant", "bee", "fly"])[y], "two classes": y > 0, "objects": NO_YES[y // 2]}[target]
    else:
        y = 0 * y
    options = SHORT | {"loss": "huber" if target == "objects" else "hinge"} if kind is ProbeClassifier else {}
    alone, model = kind(labels_per_pass=3, **options).fit(X, y), kind(comm=comm, **options).fit(X[mine], y[mine])
    names = ["coef_", "intercept_", "n_iter_", "f_min_", "visited_", *(["gap_"] if kind is DualClassifier else [])]
    assert all(getattr(model, name).tobytes() == getattr(alone, name).tobytes() for name in names)
    assert model.classes_.tolist() == alone.classes_.tolist()
    assert sp.issparse(model.predict(X)) == sp.issparse(y)
    if target == "label sets":
        assert same(kind(comm=comm, **options).fit(X.toarray()[mine], y.toarray()[mine]), alone)


def test_y_of_empty_shards_has_no_effect(comm, X):
    mine = bounds(comm, 60, 0)
    Y = np.arange(120).reshape(60, 2) % 3 % 2
    alone = ProbeClassifier(**SHORT).fit(X, Y)
    for empty in ([], np.zeros((0, 5)), sp.csr_matrix((0, 2)), np.zeros(0, dtype=object)):
        y = Y[mine] if mine.start < mine.stop else empty
        assert same(ProbeClassifier(**SHORT, comm=comm).fit(X[mine], y), alone)


def mistakes(comm, X, y):
    odd = comm.rank == comm.size - 1
    bad = X.copy()
    bad.data[0] = np.nan
    yield {}, bad if odd else X, y, "Input X contains NaN"
    outside = X.copy()
    outside.indices[0] = 30
    yield {}, outside if odd else X, y, r"X: row \d: index 30, but expected 0 to 29"
    yield {}, X, [0, None, *y[2:]] if odd else y, r"y\[1\] is None"
    yield {}, X, y[:-1] if odd else y, "inconsistent numbers of samples"
    yield {}, X, y + 0.5 if odd else y, "Unknown label type"
    yield {"lam": "X/q"}, X, y, "lam=X/q: expected"
    yield {"epsilon": 7}, X, y, "epsilon=7.0: expected"
    yield {}, X * 0, y, "no usable features"
    if comm.size > 1:
        yield {}, X[:0], y[:0], "no rank has rows to train on"
        yield {}, X[:, :-1] if odd else X, y, f"X has 29 features on rank {comm.size - 1}, but 30 on rank 0"
        yield {}, X, y.astype(str) if odd else y, "numbers on some ranks but not on others"
        yield {}, X, [["a", "b"]] * 60 if odd else np.stack([y, y], 1), "y has names of labels on some ranks only"
        yield {}, X, np.stack([y, y], 1) if odd else y, f"rank {comm.size - 1} differs from rank 0"
        yield {}, X, np.stack([y] * (3 if odd else 2), 1), "y has 2 columns on some ranks, but 3 on others"
        yield {"loss": "huber" if odd else "hinge"}, X, y, "different parameters"
        yield {"epsilon": "x" if odd else 0.05}, X, y, "epsilon='x': expected a number"


def test_all_ranks_raise_the_same_error(comm, X):
    y = np.arange(60) % 2
    for arguments, X_mine, y_mine, sentence in mistakes(comm, X, y):
        with pytest.raises(ValueError, match=sentence) as error:
            ProbeClassifier(**arguments, comm=comm).fit(X_mine, y_mine)
        assert len(set(comm.allgather(str(error.value)))) == 1


@pytest.mark.more("ranks", one_in=2)
def test_dual_weights_have_the_bits_of_one_rank(comm, mine, X):
    y, weights = np.arange(60) % 3, np.arange(60) % 4 * 0.7 * (np.arange(60) > 12)  # the first ranks have rows of weight 0 only
    for parameters in ({}, {"class_weight": {2: 3.0}}, {"class_weight": "balanced"}):
        model = DualClassifier(**parameters, comm=comm).fit(X[mine], y[mine], weights[mine])
        assert same(model, DualClassifier(**parameters).fit(X, y, weights))
    ones = np.ones(mine.stop - mine.start) if comm.rank else None  # 1 each, on a rank that gives none
    assert same(DualClassifier(comm=comm).fit(X[mine], y[mine], ones), DualClassifier().fit(X, y))
    odd = comm.rank == comm.size - 1
    with pytest.raises(ValueError, match="expected a number of at least 0"):
        DualClassifier(comm=comm).fit(X, y, weights - odd)
    if comm.size > 1:
        with pytest.raises(ValueError, match="classifiers with different parameters"):
            DualClassifier(class_weight={0: 1 + odd}, comm=comm).fit(X, y)


@pytest.mark.more("ranks", one_in=2)
def test_psbml_has_the_bits_of_one_rank(comm, mine, X):
    words = np.array(["ant", "bee", "caterpillar"])[np.sort(np.arange(60) % 3)]
    for target, base, grid in ((words, "tree", "2x1"), (words == "ant", "linear-svm", "3x2"), (words, "stump", "1x1")):
        alone = PsbmlClassifier(base, grid, cycles=5).fit(X, target)
        model = PsbmlClassifier(base, grid, cycles=5, comm=comm).fit(X[mine], target[mine])
        assert make.classifier_bytes(model.classifier_) == make.classifier_bytes(alone.classifier_)
        assert model.margin_rows_.tolist() == alone.margin_rows_.tolist()
        assert model.margin_weights_.tobytes() == alone.margin_weights_.tobytes()
        assert (model.cycle_, model.validation_error_) == (alone.cycle_, alone.validation_error_)
        assert (model.predict(X) == alone.predict(X)).all()
