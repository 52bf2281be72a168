"""Feature selection: scores, selected features, and reduced datasets and models."""

from fractions import Fraction

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_selection import chi2, mutual_info_classif
from support.converted import check_refusal
from support.edits import edit, entry
from support.make import dataset, random_data
from support.make import model as linear_model
from support.tables import table
from support.training import asked

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.info import check_contents
from hpcml.data.shard import load_shard, read_rows, read_slab
from hpcml.log import Log
from hpcml.methods.online.live import select_extremal
from hpcml.methods.online.state import LearnerState
from hpcml.model.linear import Model
from hpcml.reduce import files as reduction
from hpcml.reduce import select as counting
from hpcml.reduce.select import SCORES, feature_scores, select
from hpcml.reduce.select_options import SelectOptions


def run(path, output, force=False, **options):
    return select(mpi.self_comm(), path, output, SelectOptions(**options), force, Log(1))


def sparse_data(seed=3, n_rows=120, n_features=30, n_labels=6):
    X, Y = random_data(seed, n_rows, n_features, n_labels)
    X.data = np.abs(X.data)
    X = X.multiply(np.arange(n_features) % 9 != 8).tocsr()
    X.eliminate_zeros()
    X.data[::7] = 0
    Y = (Y.toarray() != 0) | (X.toarray()[:, :n_labels] > 0.4)
    return X, sp.csr_matrix(Y.astype(float))


def scores_of(path, by, labels=None, over="max", split="all"):
    with DataFile(path) as data:
        labels = np.arange(data.n_labels) if labels is None else np.array(labels)
        shard = load_shard(mpi.self_comm(), data, split)
        return feature_scores(mpi.self_comm(), shard, labels, SCORES[by], over)


def oracle(by, present, y):
    if by == "ig":
        return mutual_info_classif(present, y, discrete_features=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num(chi2(present, y)[0] + chi2(~present, y)[0])


@pytest.mark.parametrize("by", sorted(SCORES))
def test_scores_equal_scikit_learn(tmp_path, by):
    X, Y = sparse_data()
    path = dataset(tmp_path / "data.h5", X, Y, splits={"train": np.arange(0, 120, 2)})
    for split, rows in (("all", slice(None)), ("train", slice(0, 120, 2))):
        present, truth = X.toarray()[rows] != 0, Y.toarray()[rows] != 0
        for label in (0, 4):
            found, count = scores_of(path, by, [label], split=split)
            np.testing.assert_allclose(found, oracle(by, present, truth[:, label]), rtol=1e-9, atol=1e-15)
            assert count.tolist() == present.sum(axis=0).tolist()


@pytest.mark.parametrize("by", sorted(SCORES))
def test_several_labels(tmp_path, by, monkeypatch):
    X, Y = sparse_data()
    path = dataset(tmp_path / "data.h5", X, Y)
    each = np.array([scores_of(path, by, [label])[0] for label in range(6)])
    frequency = Y.toarray().sum(axis=0)
    assert np.array_equal(scores_of(path, by)[0], each.max(axis=0))
    assert np.array_equal(scores_of(path, by, [1, 4])[0], each[[1, 4]].max(axis=0))
    mean = scores_of(path, by, over="mean")[0]
    np.testing.assert_allclose(mean, frequency @ each / frequency.sum(), rtol=1e-12)
    monkeypatch.setattr(counting, "BLOCK_BYTES", 8 * 30 * 2)  # two labels at a time
    assert scores_of(path, by)[0].tobytes() == each.max(axis=0).tobytes()
    assert scores_of(path, by, over="mean")[0].tobytes() == mean.tobytes()


def test_counts_of_very_many_rows_do_not_overflow():
    n = 13_004_182
    arguments = (np.array([[n // 4]]), np.array([n // 2]), np.array([n // 2]), n)
    assert SCORES["chi2"](*arguments)[0, 0] == pytest.approx(4 * (n // 4 - n / 4) ** 2 / n * 4, abs=1e-6)
    perfect = (np.array([[n // 2]]), np.array([n // 2]), np.array([n // 2]), n)
    assert SCORES["chi2"](*perfect)[0, 0] == pytest.approx(n)
    assert SCORES["ig"](*perfect)[0, 0] == pytest.approx(np.log(2))


@given(
    importance=st.lists(st.integers(0, 5), min_size=1, max_size=30),
    unseen=st.sets(st.integers(0, 29)),
    keep=st.integers(0, 30),
    share=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 0.9, 1.0]),
)
def test_extremal_takes_both_ends(importance, unseen, keep, share):
    seen = np.array([j not in unseen for j in range(len(importance))])
    found = select_extremal(np.array(importance, dtype=float), seen, keep, share).tolist()
    left = [j for j in range(len(importance)) if seen[j]]
    top = sorted(left, key=lambda j: (-importance[j], j))[: int(Fraction(str(share)) * keep + Fraction(1, 2))]
    bottom = sorted(set(left) - set(top), key=lambda j: (importance[j], j))[: keep - len(top)]
    if keep <= len(left):
        assert len(top) + len(bottom) == keep
    assert found == sorted([*top, *bottom][: max(keep, 0)])


@pytest.mark.parametrize("ones", [False, True])
def test_reduced_dataset(tmp_path, ones, monkeypatch):
    monkeypatch.setattr(reduction, "PIECE", 16)
    X, Y = sparse_data()
    if ones:
        X.eliminate_zeros()
        X.data[:] = 1
    names = [f"word {j}" for j in range(30)]
    ids = [f"row {i}" for i in range(120)]
    splits = {"train": np.arange(0, 120, 2), "test": np.arange(1, 120, 2)}
    path = dataset(tmp_path / "data.h5", X, Y, names, row_ids=ids, splits=splits, ones=ones)
    report = run(path, tmp_path / "few.h5", by="ig", features=5)
    scores, _ = scores_of(path, "ig", split="train")
    listed = table(tmp_path / "few.features.csv")
    order = np.lexsort((np.arange(30), -scores))[:5]
    assert [int(row["feature"]) for row in listed] == order.tolist()
    assert [(row["rank"], row["name"]) for row in listed] == [(str(n), names[j]) for n, j in enumerate(order, 1)]
    assert [float(row["score"]) for row in listed] == scores[order].tolist()
    assert f"best: {names[order[0]]}" in report
    kept = np.sort(order)
    with DataFile(tmp_path / "few.h5") as few:
        check_contents(mpi.self_comm(), few)
        assert np.array_equal(read_rows(few, np.arange(120), True), X.toarray()[:, kept].astype(np.float32))
        assert few.strings("feature_names") == [names[j] for j in kept]
        assert few.strings("row_ids") == ids
        assert few.label_names() == [f"label{n}" for n in range(6)]
        assert {name: few.split(name).tolist() for name in few.split_names()} == {k: v.tolist() for k, v in splits.items()}
        assert (few.file["X/data"].id.get_storage_size() == 0) == ones
        with DataFile(path) as data:
            assert np.array_equal(few.map("Y/indices"), data.map("Y/indices"))
            assert np.array_equal(few.map("Y/indptr"), data.map("Y/indptr"))


def test_like_selects_the_same_features_by_name(tmp_path):
    X, Y = sparse_data()
    names = [f"word {j}" for j in range(30)]
    path = dataset(tmp_path / "train.h5", X, Y, names)
    run(path, tmp_path / "few.h5", by="chi2", features=7)
    shuffled = np.random.default_rng(0).permutation(30)
    test = dataset(tmp_path / "test.h5", X[:50, shuffled], Y[:50], [names[j] for j in shuffled])
    with DataFile(tmp_path / "few.h5") as few:
        wanted, vocabulary = read_rows(few, np.arange(50), True), few.vocabulary
    for like in ("few.h5", "few.features.csv"):
        run(test, tmp_path / "out.h5", True, like=tmp_path / like)
        with DataFile(tmp_path / "out.h5") as out:
            check_contents(mpi.self_comm(), out)
            assert np.array_equal(read_rows(out, np.arange(50), True), wanted)
            assert out.vocabulary == vocabulary
    lacking = dataset(tmp_path / "lacking.h5", X[:, :3], Y, names[:3])
    check_refusal(lambda: run(lacking, tmp_path / "no.h5", like=tmp_path / "few.h5"), "lacking.h5", "'word", "of 7")
    assert not (tmp_path / "no.h5").exists()


def test_features_without_names_are_selected_by_the_list(tmp_path):
    X, Y = sparse_data()
    path, other = dataset(tmp_path / "train.h5", X, Y), dataset(tmp_path / "test.h5", X[60:], Y[60:])
    run(path, tmp_path / "few.h5", by="chi2", features=7)
    run(path, tmp_path / "others.h5", by="chi2", features=7, label=("label3",))
    check_refusal(lambda: run(other, tmp_path / "out.h5", like=tmp_path / "few.h5"), "--like", "few.h5")
    run(other, tmp_path / "out.h5", like=tmp_path / "few.features.csv")
    with DataFile(tmp_path / "few.h5") as few, DataFile(tmp_path / "out.h5") as out, DataFile(tmp_path / "others.h5") as others:
        assert np.array_equal(read_rows(out, np.arange(60), True), read_rows(few, np.arange(60, 120), True))
        assert out.vocabulary == few.vocabulary != others.vocabulary  # a model of the one must not take the other
    narrow = dataset(tmp_path / "narrow.h5", X[:, :2], Y)
    check_refusal(lambda: run(narrow, tmp_path / "no.h5", like=tmp_path / "few.features.csv"), "narrow.h5", "2 features")
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    check_refusal(lambda: run(other, tmp_path / "no.h5", like=tmp_path / "bad.csv"), "--like", "bad.csv")


@pytest.mark.parametrize("weighting", ["binary", "log-idf"])
def test_text_settings_are_kept_if_still_valid(tmp_path, weighting):
    X, Y = sparse_data()
    path = dataset(tmp_path / "data.h5", X, Y, sorted(f"word{j}" for j in range(30)))
    with h5py.File(path, "r+") as file:
        group = file.create_group("text")
        group.attrs["weighting"], group.attrs["pairs"], group.attrs["min_df"] = weighting, False, 2
        if weighting == "log-idf":
            group["idf"] = np.ones(30)
        group.create_dataset("stop_words", data=np.array(["the"], dtype=object), dtype=h5py.string_dtype())
    run(path, tmp_path / "few.h5", by="ig", features=3)
    with DataFile(tmp_path / "few.h5") as few:
        assert ("text" in few.file) == (weighting == "binary")
        if weighting == "binary":
            assert few.file["text"].attrs["min_df"] == 2
            assert few.strings("text/stop_words") == ["the"]


def each_importance(state):
    rows = np.arange(1, state.seen.size + 1)
    parts = (state.state_arrays(lane, rows) for lane in range(state.n_lanes))
    return np.column_stack([np.abs(part["u"] - part["v"]) for part in parts])


def winnow_model(path, X, Y, method="mbw", voted=False):
    data = dataset(path.with_suffix(".data.h5"), X, Y)
    with DataFile(data) as file:
        shard = read_slab(file, np.arange(X.shape[0]), 0, X.shape[0])
        state = LearnerState(asked(method, voted=voted), method, Y.shape[1], X.shape[1])
        state.learn(shard, shard.rows)
    (numbers, rows), (W, bias) = state.model_features(), state.linear()
    columns, factors = np.zeros(X.shape[1], np.int32), np.zeros(X.shape[1])
    columns[numbers], factors[numbers] = np.arange(numbers.size), 1
    linear_model(path, W[:, numbers], bias, columns=columns, factors=factors)
    parts = [state.state_arrays(lane, np.concatenate([[0], rows])) for lane in range(Y.shape[1])]
    with h5py.File(path, "r+") as file:
        file.attrs["method"], file.attrs["normalised"] = method, True
        file["state/features"] = numbers
        for name in parts[0]:
            file[f"state/{name}"] = np.array([part[name] for part in parts])
        file["state"].attrs["n_rows"] = X.shape[0]
        file["labels/n_positive"][:] = Y.toarray().sum(axis=0)
    return state


@pytest.mark.parametrize(("method", "voted"), [("mbw", True), ("bw", False)])
def test_reduced_model(tmp_path, method, voted):
    X, Y = sparse_data()
    state = winnow_model(tmp_path / "model.h5", X, Y, method, voted)
    report = run(tmp_path / "model.h5", tmp_path / "few.h5", features=8, share=0.7)
    importance = each_importance(state).max(axis=1)
    kept = select_extremal(importance, state.seen, 8, 0.7)
    assert "8 of 27 features" in report
    full, few = Model(tmp_path / "model.h5"), Model(tmp_path / "few.h5")
    assert np.flatnonzero(few.factors).tolist() == kept.tolist()
    assert few.n_columns == 8
    wanted = full.weights()
    wanted[:, np.setdiff1d(np.arange(30), kept)] = 0
    assert np.array_equal(few.weights(), wanted)
    assert np.array_equal(few.bias, full.bias)
    assert (few.attrs, few.label_names) == (full.attrs, full.label_names)
    places = np.concatenate([[0], 1 + np.searchsorted(state.model_features()[0], kept)])
    with h5py.File(tmp_path / "model.h5") as before, h5py.File(tmp_path / "few.h5") as after:
        assert set(after["state"]) == set(before["state"]) == {"features", "lanes", "counters", *state.array_names}
        assert after["state/features"][:].tolist() == kept.tolist()
        for name in state.array_names:
            assert np.array_equal(after[f"state/{name}"][:], before[f"state/{name}"][:][:, places])
        for name in ("state/lanes", "state/counters", "labels/n_positive", "labels/status"):
            assert np.array_equal(after[name][:], before[name][:])
        assert after["state"].attrs["n_rows"] == 120
    listed = table(tmp_path / "few.features.csv")
    assert sorted(int(row["feature"]) for row in listed) == kept.tolist()
    assert [row["end"] for row in listed] == ["top"] * 6 + ["bottom"] * 2
    assert all(float(row["score"]) == importance[int(row["feature"])] for row in listed)


def test_reduced_model_can_be_reduced_again(tmp_path):
    X, Y = sparse_data()
    state = winnow_model(tmp_path / "model.h5", X, Y)
    run(tmp_path / "model.h5", tmp_path / "three.h5", features=3, share=1.0)
    run(tmp_path / "three.h5", tmp_path / "two.h5", features=2, share=1.0)
    run(tmp_path / "model.h5", tmp_path / "at-once.h5", features=2, share=1.0)
    assert (tmp_path / "two.h5").read_bytes() == (tmp_path / "at-once.h5").read_bytes()
    with h5py.File(tmp_path / "two.h5") as file:
        assert file["state/lanes"].shape == state.lanes.T.shape


def test_labels_of_a_model(tmp_path):
    X, Y = sparse_data()
    state = winnow_model(tmp_path / "model.h5", X, Y)
    each = each_importance(state)
    frequency = Y.toarray().sum(axis=0)
    cases = {
        "one": ({"label": ("label2",)}, each[:, 2]),
        "mean": ({"over": "mean"}, each @ frequency / frequency.sum()),
        "two": ({"label": ("label5", "label0"), "over": "max"}, each[:, [0, 5]].max(axis=1)),
    }
    for name, (options, importance) in cases.items():
        run(tmp_path / "model.h5", tmp_path / f"{name}.h5", features=9, **options)
        kept = select_extremal(importance, state.seen, 9, 0.9)
        assert np.flatnonzero(Model(tmp_path / f"{name}.h5").factors).tolist() == kept.tolist()
    check_refusal(lambda: run(tmp_path / "model.h5", tmp_path / "no.h5", features=9, label=("lable2",)), "'label2'")


def test_unsuitable_models_are_refused(tmp_path):
    linear_model(tmp_path / "model.h5", np.ones((2, 5)))
    check_refusal(lambda: run(tmp_path / "model.h5", tmp_path / "few.h5", features=2), "model.h5", "probe")
    winnow_model(tmp_path / "winnow.h5", *sparse_data())
    check_refusal(lambda: run(tmp_path / "winnow.h5", tmp_path / "few.h5", features=2, by="ig"), "--by ig", "winnow.h5")
    edit(tmp_path / "winnow.h5", entry("state/features", 0, 29))
    check_refusal(lambda: run(tmp_path / "winnow.h5", tmp_path / "few.h5", features=2), "winnow.h5")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": "idf", "features": 3}, "--by idf"),
        ({"by": "ig"}, "--features"),
        ({"features": 3}, "--by"),
        ({"by": "ig", "features": 0}, "--features 0"),
        ({"by": "ig", "features": 28}, "--features 28"),
        ({"by": "efs", "features": 3, "share": float("nan")}, "--share nan"),
        ({"by": "ig", "features": 3, "share": 0.5}, "--share 0.5"),
        ({"by": "ig", "features": 3, "label": ("labl1",)}, "'label1'"),
        ({"by": "ig", "features": 3, "split": "dev"}, "'dev'"),
        ({"by": "efs", "features": 3, "seed": 4}, "--seed 4"),
        ({"like": "a.h5", "features": 3}, "--features 3"),
    ],
)
def test_bad_options_are_refused(tmp_path, options, words):
    path = dataset(tmp_path / "data.h5", *sparse_data())
    check_refusal(lambda: run(path, tmp_path / "out.h5", **options), words)
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.h5"]


def test_outputs_are_replaced_only_with_force(tmp_path):
    path = dataset(tmp_path / "data.h5", *sparse_data())
    before = path.read_bytes()
    check_refusal(lambda: run(path, path, True, by="ig", features=3), "data.h5")
    (tmp_path / "few.features.csv").write_text("precious")
    check_refusal(lambda: run(path, tmp_path / "few.h5", by="ig", features=3), "few.features.csv")
    run(path, tmp_path / "few.h5", by="ig", features=3, list=tmp_path / "other.csv")
    assert (tmp_path / "few.features.csv").read_text() == "precious"
    check_refusal(lambda: run(path, tmp_path / "few.h5", by="ig", features=3, list=tmp_path / "third.csv"), "few.h5")
    run(path, tmp_path / "few.h5", True, by="ig", features=3)
    assert (tmp_path / "few.features.csv").read_text().startswith("rank")
    assert path.read_bytes() == before


@pytest.mark.parametrize("by", ["ig"])
def test_labels_without_informative_features_are_refused(tmp_path, by):
    X, Y = sparse_data()
    path = dataset(tmp_path / "data.h5", X, np.column_stack([np.ones(120), Y.toarray()]))
    check_refusal(lambda: run(path, tmp_path / "few.h5", by=by, features=3, label=("label0",)), "data.h5", "split all")
    run(path, tmp_path / "few.h5", by=by, features=3, label=("label0", "label1"))
