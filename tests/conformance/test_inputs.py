"""Rows and labels passed to classifiers: checked before compiled code reads them, and never changed."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.utils import get_tags
from support.make import classifier_bytes
from support.methods import ESTIMATORS, learnt, make

import hpcml
from hpcml import KernelNB, PsbmlClassifier, evaluate_scores
from hpcml.errors import DataError
from hpcml.model.naive_bayes import GaussianNB

N_ROWS, N_FEATURES = 60, 20
CALLS = ("predict", "decision_function", "predict_proba", "predict_log_proba", "predict_joint_log_proba")
# In addition to the registry: naive Bayes, and further classifiers on sparse rows.
MORE = {
    "kernel-nb": KernelNB,
    "gaussian-nb": GaussianNB,
    "psbml kernel-nb": lambda: PsbmlClassifier("kernel-nb", "1x1", cycles=1),
    "psbml gaussian-nb": lambda: PsbmlClassifier("gaussian-nb", "1x1", cycles=1),
    "psbml linear-svm": lambda: PsbmlClassifier("linear-svm", "1x1", cycles=1),
    "dual logistic": lambda: make("dual", loss="logistic"),
}
ALL = sorted({*ESTIMATORS, *MORE})
each = pytest.mark.parametrize("name", ALL)
sets = pytest.mark.parametrize("name", [name for name in ESTIMATORS if get_tags(make(name)).classifier_tags.multi_label])


def new(name):
    return MORE[name]() if name in MORE else make(name)


def example():
    rng = np.random.default_rng(3)
    y = np.arange(N_ROWS) % 2
    dense = rng.integers(1, 4, (N_ROWS, N_FEATURES)) * (rng.random((N_ROWS, N_FEATURES)) < 0.15)
    dense[y == 1, 0] = 2
    dense[:, 5], dense[0, ::3], dense[:2, 1] = 1, 1, 1
    return sp.csr_matrix(dense, dtype=np.float64), y


@cache
def fitted(name):
    return new(name).fit(*example())


def state(estimator):
    return classifier_bytes(estimator) if isinstance(estimator, (KernelNB, GaussianNB)) else learnt(estimator)


def parts(X):
    if not sp.issparse(X):
        return {"": np.asarray(X)}
    names = ("data", "indices", "indptr", "row", "col", "offsets")
    return {name: getattr(X, name) for name in names if hasattr(X, name)}


def held(X):
    return {name: (array.dtype.str, array.tobytes()) for name, array in parts(X).items()}


def damaged(**changes):

    def of(X):
        X = X.copy()
        for part, change in changes.items():
            array = getattr(X, part).copy()
            setattr(X, part, changed if (changed := change(array)) is not None else array)
        return X

    return of


def put(part, place, value):
    return damaged(**{part: lambda array: array.__setitem__(place, value)})


def in_format(kind, part, place, value):

    def of(X):
        X = X.asformat(kind, copy=True)
        getattr(X, part)[place] = value
        return X

    return of


def swap(array):
    array[5], array[6] = array[6], array[5] - 1


BAD = {
    "above": (put("indices", 3, N_FEATURES + 3), r"row 1: index 23, but expected 0 to 19"),
    "negative": (put("indices", 3, -1), r"row 1: index -1, but expected 0 to 19"),
    "int64": (damaged(indices=lambda a: np.append(a[:-1], np.int64(2**40))), r"row 60: index 1099511627776, but expected"),
    "uint64": (
        damaged(indices=lambda a: np.append(a[:-1].astype(np.uint64), np.uint64(2**63))),
        "row 60: index 9223372036854775808",
    ),
    "other byte order": (damaged(indices=lambda a: np.where(np.arange(a.size) == 4, -7, a).astype(">i4")), "row 1: index -7, but"),
    "fractions": (
        damaged(indices=lambda a: a + 0.5),
        "indices has the shape .* and the type float64, but expected a 1-d array of integers",
    ),
    "matrix of indices": (damaged(indices=lambda a: a[:, None]), "indices has the shape"),
    "falls": (damaged(indptr=swap), r"row 6: indptr goes down"),
    "falls below 0": (put("indptr", 7, -3), r"row 7: indptr goes down"),
    "rises and falls": (put("indptr", 7, 2**31 - 1), r"row 8: indptr goes down"),
    "begins later": (put("indptr", 0, 1), "indptr begins with 1, but expected 0"),
    "ends later": (put("indptr", -1, 10**6), r"indptr ends with 1000000, but there are \d+ values"),
    "short indptr": (damaged(indptr=lambda a: a[:-1]), "indptr has 60 numbers, but expected 61"),
    "short indices": (damaged(indices=lambda a: a[:-1]), r"indices has \d+ numbers, but data has \d+"),
    "short data": (damaged(data=lambda a: a[:-1]), r"indices has \d+ numbers, but data has \d+"),
    "matrix of data": (damaged(data=lambda a: a[:, None]), "data has 2 dimensions, but expected 1"),
    "csc": (in_format("csc", "indices", 2, N_ROWS), r"column 1: index 60, but expected 0 to 59"),
    "csc falls": (in_format("csc", "indptr", 2, 0), r"column 2: indptr goes down"),
    "coo row": (in_format("coo", "row", 2, N_ROWS), "damaged matrix: axis 0 index 60 exceeds matrix dimension 60"),
    "coo column": (in_format("coo", "col", 2, -1), "damaged matrix: negative axis 1 index: -1"),
    "bsr": (
        lambda X: in_format("bsr", "indices", 0, 99)(X.tobsr((2, 2))),
        "damaged matrix: axis 1 index 199 exceeds matrix dimension 20",
    ),
}


FEW_BAD = ["above", "negative", "int64", "falls", "ends later", "short data", "csc", "coo row"]


@each
def test_rejects_damaged_rows(name):
    X, y = example()
    found, before = fitted(name), state(fitted(name))
    for make_bad, text in BAD.values() if name in ("dual", "kernel-nb", "mbw") else map(BAD.get, FEW_BAD):
        bad = make_bad(X)
        kept = held(bad)
        calls = [(new(name).fit, (y,)), (found.score, (y,))]
        calls += [(getattr(found, call), ()) for call in CALLS if hasattr(found, call)]
        if hasattr(found, "partial_fit"):
            calls.append((lambda X, y: new(name).partial_fit(X, y, classes=[0, 1]), (y,)))
        for call, more in calls:
            with pytest.raises(ValueError, match=rf"^X: {text}"):
                call(bad, *more)
        assert held(bad) == kept
    assert state(found) == before


@sets
def test_rejects_damaged_label_sets(name):
    X, y = example()
    Y = sp.csr_matrix(np.column_stack([y, 1 - y, y]))
    found = new(name).fit(X, Y)
    for bad, text in (
        (put("indices", 3, 18)(Y), "index 18, but expected 0 to 2"),
        (put("indices", 3, -1)(Y), "index -1, but expected 0 to 2"),
        (put("indptr", 7, 2)(Y), "indptr goes down"),
    ):
        for call in (found.score, new(name).fit, getattr(new(name), "partial_fit", new(name).fit)):
            with pytest.raises(ValueError, match=rf"^y: .*{text}"):
                call(X, bad)
    twice = Y.copy()
    twice.data, twice.indices = np.repeat(Y.data, 2), np.repeat(Y.indices, 2)
    twice.indptr = 2 * Y.indptr
    kept = held(twice)
    assert learnt(new(name).fit(X, twice)) == learnt(found) and found.score(X, twice) == found.score(X, Y) == found.score(
        X, Y.tocsc()
    )
    assert held(twice) == kept


def unsorted(X):
    order = np.lexsort((-X.indices, np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))))
    return sp.csr_matrix((X.data[order], X.indices[order], X.indptr), X.shape)


def with_duplicates(X):
    X = unsorted(X)
    return sp.csr_matrix((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), X.shape)


def cancelled(X):
    more = sp.csr_matrix((X.toarray() == 0).astype(float))
    both = [sp.vstack([more[[row]], -more[[row]], X[[row]]]) for row in range(X.shape[0])]
    return sp.csr_matrix(
        (
            np.concatenate([rows.data for rows in both]),
            np.concatenate([rows.indices for rows in both]),
            np.cumsum([0, *(rows.nnz for rows in both)]),
        ),
        X.shape,
    )


def read_only(X):
    X = X.copy()
    for array in parts(X).values():
        array.flags.writeable = False
    return X


def of_type(index, pointer=None):
    return damaged(indptr=lambda a: a.astype(pointer or index), indices=lambda a: a.astype(index))


SOUND = {
    "unsorted": unsorted,
    "duplicates": with_duplicates,
    "cancelled": cancelled,
    "stored zeros": lambda X: sp.csr_matrix(
        (X.toarray().ravel(), np.tile(np.arange(N_FEATURES), N_ROWS), np.arange(N_ROWS + 1) * N_FEATURES), X.shape
    ),
    "read-only": read_only,
    "read-only, unsorted": lambda X: read_only(unsorted(X)),
    "read-only, duplicates": lambda X: read_only(with_duplicates(X)),
    "int64": of_type(np.int64),
    "int32, int64": of_type(np.int32, np.int64),
    "int64, int32": of_type(np.int64, np.int32),
    "int16": of_type(np.int16),
    "uint8, uint64": of_type(np.uint8, np.uint64),
    "other byte order": damaged(**{part: lambda a: a.astype(a.dtype.newbyteorder(">")) for part in ("data", "indices", "indptr")}),
    "strided": damaged(data=lambda a: np.repeat(a, 2)[::2], indices=lambda a: np.repeat(a, 3)[::3]),
    "more than indptr says": damaged(
        indices=lambda a: np.append(a, [99, -1]).astype(a.dtype), data=lambda a: np.append(a, [np.nan, np.inf])
    ),
    **{f"data {kind}": lambda X, kind=kind: X.astype(kind) for kind in ("f4", "i1", "u2", "i8", "g")},
    **{kind: lambda X, kind=kind: X.asformat(kind) for kind in ("csc", "coo", "bsr", "lil", "dok")},
    "dia": lambda X: X.todia(),
    "csr_array": sp.csr_array,
    "dense": lambda X: X.toarray(),
    "dense, columns first": lambda X: np.asfortranarray(X.toarray()),
    "dense, read-only": lambda X: np.broadcast_to(X.toarray(), X.shape),
}


FEW_SOUND = ["unsorted", "duplicates", "cancelled", "read-only, duplicates", "int64", "int32, int64", "csc", "csr_array", "dense"]


@each
def test_equal_rows_in_all_formats(name):
    X, y = example()
    found = fitted(name)
    with_zeros = (
        "cancelled",
        "stored zeros",
        "dense",
        "dense, columns first",
        "dense, read-only",
    )  # summed in another order by naive Bayes
    for kind in SOUND if name in ("dual", "kernel-nb", "psbml", "mbw") else FEW_SOUND:
        change = SOUND[kind]
        rows = change(X)
        kept = held(rows)
        assert (found.predict(rows) == found.predict(X)).all(), kind
        for call in CALLS[1:]:
            if hasattr(found, call):
                assert np.allclose(getattr(found, call)(rows), getattr(found, call)(X), rtol=1e-9, atol=1e-9), (kind, call)
        assert found.score(rows, y) == found.score(X, y)
        if kind not in with_zeros or name in ESTIMATORS:
            assert state(new(name).fit(rows, y)) == state(found), kind
        if hasattr(found, "partial_fit"):
            assert learnt(new(name).partial_fit(rows, y, classes=[0, 1])) == learnt(new(name).partial_fit(X, y, classes=[0, 1])), (
                kind
            )
        assert held(rows) == kept, kind


MISSING = {
    "list": (lambda y: [*y[:3].tolist(), None, *y[4:].tolist()], "None"),
    "names": (lambda y: [*map(str, y[:3]), None, *map(str, y[4:])], "None"),
    "array": (lambda y: np.array([*map(str, y[:3]), None, *map(str, y[4:])], object), "None"),
    "NaN": (lambda y: pd.Series([*map(str, y[:3]), np.nan, *map(str, y[4:])], dtype=object), "nan"),
    "NA": (lambda y: pd.Series([*y[:3], None, *y[4:]], dtype="Int64"), "<NA>"),
    "category": (lambda y: pd.Series([*map(str, y[:3]), None, *map(str, y[4:])], dtype="category"), "nan"),
    "column": (lambda y: [[value] for value in [*map(str, y[:3]), None, *map(str, y[4:])]], "None"),
}


@each
def test_rejects_missing_labels(name):
    X, y = example()
    found = fitted(name)
    for change, text in MISSING.values() if name == "dual" else [MISSING["names"], MISSING["NaN"]]:
        for call in (new(name).fit, found.score, getattr(new(name), "partial_fit", found.score)):
            with pytest.raises(ValueError, match=rf"^y\[3\] is {text}, "):
                call(X, change(y))


@pytest.mark.parametrize("name", ["dual", "kernel-nb"])
@pytest.mark.parametrize("form", [list, lambda y: pd.Series(y, dtype=object)])
def test_rejects_mixed_types_of_labels(name, form):
    X, y = example()
    found, mixed = fitted(name), form([*y[:-1].tolist(), "a"])
    for call in (new(name).fit, found.score):
        with pytest.raises(ValueError, match=rf"^y\[0\] is {y[0]}, but y\[{len(y) - 1}\] is 'a'"):
            call(X, mixed)


def test_evaluate_scores_checks_its_labels():
    scores, Y = np.arange(8.0).reshape(4, 2), sp.csr_matrix([[1, 1], [0, 1], [1, 1], [1, 0]])
    expected = evaluate_scores(scores, Y)
    for kind in ("unsorted", "duplicates", "read-only, duplicates", "int64", "csc", "coo", "data i1"):
        rows = SOUND[kind](Y)
        kept = held(rows)
        found = evaluate_scores(scores, rows)
        assert found.values["f1"].tolist() == expected.values["f1"].tolist() and held(rows) == kept
    for bad, text in (
        (put("indices", 1, 18)(Y), "Y: row 1: index 18, but expected 0 to 1"),
        (put("indices", 1, -1)(Y), "Y: row 1: index -1, but expected 0 to 1"),
        (in_format("csc", "indices", 1, 9)(Y), "Y: column 1: index 9, but expected 0 to 3"),
        (put("indptr", 1, 4)(Y), "Y: row 2: indptr goes down"),
        ([[1, 0], [0, None], [1, 1], [1, 0]], r"Y\[1\] is None, but expected a label"),
        ([[1, 0], [0, 1], [1, 1], [1, np.nan]], r"Y\[3\] is nan, but expected a label"),
        (np.array([[1, 0], [0, 1], [1, 1], [1, np.nan]]), "Y: a label is not a finite number"),
        ([["a", "b"]] * 4, "Y: expected a matrix of 0 and 1"),
    ):
        with pytest.raises(DataError, match=f"^{text}"):
            evaluate_scores(scores, bad)


@pytest.mark.parametrize("kind", BAD)
def test_from_sparse_rejects_damaged_rows(kind, tmp_path):
    X, y = example()
    make_bad, text = BAD[kind]
    with pytest.raises(DataError, match=rf"^X: {text}"):
        hpcml.Dataset.from_sparse(make_bad(X), y.tolist(), tmp_path / "data.h5")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [kind for kind in SOUND if "dense" not in kind])
def test_from_sparse_accepts_all_formats(kind, tmp_path):
    X, y = example()
    rows = SOUND[kind](X)
    kept = held(rows)
    with hpcml.Dataset.from_sparse(rows, y.tolist(), tmp_path / "data.h5") as dataset:
        assert (dataset.matrix() != X).nnz == 0
    assert held(rows) == kept


def test_rejects_overflowing_sums(tmp_path):
    X, y = example()
    X = with_duplicates(X.astype(np.float32))
    X.data[:2] = 3e38
    for name in ALL:
        with pytest.raises(ValueError, match="the sum of its values exceeds float32"):
            new(name).fit(X, y)
    with pytest.raises(DataError, match=r"^X: row 1: the sum of repeated values of a feature exceeds float32"):
        hpcml.Dataset.from_sparse(X, y.tolist(), tmp_path / "data.h5")
