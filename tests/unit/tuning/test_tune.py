"""`hpcml tune` compared with other implementations, and the division of rows into folds."""

import csv
import shutil

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from sklearn.svm import LinearSVC
from support.make import dataset, random_data
from support.training import merge

import hpcml
from hpcml import mpi
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError, DataError, Interrupted, NonFiniteError
from hpcml.methods.linear.settings import Axis
from hpcml.tuning.folds import deal, fold_rows
from hpcml.tuning.grid import Grid, choose
from hpcml.tuning.options import TuneOptions


def learnable(path, seed=1, n=240, n_features=60, n_labels=5):
    rng = np.random.default_rng(seed)
    X = sp.random(n, n_features, 0.15, "csr", random_state=rng, data_rvs=rng.random).astype(np.float32)
    scores = X @ rng.standard_normal((n_features, n_labels)) + 0.3 * rng.standard_normal((n, n_labels))
    Y = scores > [np.quantile(column, share) for column, share in zip(scores.T, np.linspace(0.76, 0.95, n_labels), strict=True)]
    Y = np.hstack([Y, np.zeros((n, 1), bool)])
    return dataset(path, X, sp.csr_matrix(Y.astype(np.float32))), X, Y


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return learnable(tmp_path_factory.mktemp("tune") / "data.h5")[0]


def read(path):
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("method", ["dual", "probe", "elastic-net"])
def test_model_is_what_training_with_the_choice_gives(data, tmp_path, method):
    grid = {"lambdas": (0.1, 1.0, 10.0), "folds": 3, "min_positives": 0} | ({"weights": (1.0, 3.0)} if method == "dual" else {})
    model = hpcml.open_model(hpcml.tune(data, tmp_path / "run", method=method, **grid).model)
    choice = read(tmp_path / "run" / "choice.csv")
    assert [line["label"] for line in choice] == model.label_names
    option = "l1" if method == "elastic-net" else "lambda"
    for number, line in list(enumerate(choice))[:5:2]:
        strength = repr(float(model.labels[option][number]))
        options = {"label": [line["label"]], "l1" if method == "elastic-net" else "lam": strength}
        if method == "dual":
            options["positive_weight"] = repr(float(model.labels["positive_weight"][number]))
        alone = hpcml.open_model(hpcml.train(method, data, tmp_path / f"alone-{number}", **options).model)
        assert np.array_equal(alone.weights(0), model.weights(number)) and alone.bias[0] == model.bias[number]
        assert float(line["threshold"]) == pytest.approx(model.thresholds[number], rel=1e-5)
    assert model.labels["threshold"][5] == 0.0 and model.thresholds.shape == (6,)
    slope, offset = model.sigmoids
    assert (slope >= 0).all() and np.isfinite(offset).all()


def test_micro_thresholds_are_one_probability(data, tmp_path):
    def tuned(thresholds):
        run = hpcml.tune(data, tmp_path / thresholds, folds=3, lambdas=(1.0,), weights=(1.0,), thresholds=thresholds)
        return hpcml.open_model(run.model)

    of_labels, micro = tuned("label"), tuned("micro")
    assert np.array_equal(of_labels.weights(), micro.weights()) and np.array_equal(of_labels.sigmoids, micro.sigmoids)
    slope, offset = micro.sigmoids
    at = 1.0 / (1.0 + np.exp(-slope * micro.thresholds - offset))[:5]
    assert at == pytest.approx(at[0]) and 0.1 < at[0] < 0.6
    assert f"measure micro, method probability above {at[0]:.4g}" in micro.threshold_source
    with pytest.raises(ConfigError, match="thresholds=macro: expected label or micro"):
        hpcml.tune(data, tmp_path / "no", thresholds="macro")


def test_scores_of_folds_are_those_of_liblinear(tmp_path, monkeypatch):
    monkeypatch.setattr("hpcml.methods.dual.train.TOLERANCE", 1e-3)  # a solution
    data, X, Y = learnable(tmp_path / "data.h5")
    comm = mpi.self_comm()
    rows = compact_rows(comm, load_shard(comm, DataFile(data), "all"), True)[0]
    fold = deal(rows, np.arange(5), 3, 0, np.array(DataFile(data).map("row_keys")))
    hpcml.tune(data, tmp_path / "run", folds=3, lambdas=(2.0,), weights=(3.0,))
    found = float(read(tmp_path / "run" / "tuning.csv")[0]["map"])

    def liblinear(C, weight):
        mean = 0.0
        for y in Y.T[:5]:
            scores = np.empty(len(Y))
            for k in range(3):
                svm = LinearSVC(C=C, class_weight={1: weight}, tol=1e-6, max_iter=100_000).fit(X[fold != k], y[fold != k])
                scores[fold == k] = svm.decision_function(X[fold == k])
            mean += average_precision_score(y, scores) / 5
        return mean

    C = 1.0 / (2.0 * rows.scale)
    assert found == pytest.approx(liblinear(C, 3.0), abs=1e-3)
    assert min(abs(found - liblinear(*others)) for others in ((C / 2, 3.0), (2 * C, 3.0), (C, 1.0))) > 2e-3


def test_reports_the_choice_and_resumes_with_the_same_bits(data, tmp_path, monkeypatch):
    report = hpcml.tune(data, tmp_path / "whole", folds=3)
    assert [line.split()[0] for line in report.chosen] == ["mean", "default", "λ", "settings"]
    assert str(report).splitlines()[:4] == report.chosen and "\\n" not in str(report)
    whole = report.model.read_bytes()
    monkeypatch.setattr("hpcml.tuning.cross.MAX_BATCH", 2)
    with pytest.raises(Interrupted, match="finished labels are saved"):
        hpcml.tune(data, tmp_path / "run", folds=3, time_limit=1e-9)
    with pytest.raises(ConfigError, match="folds = 3"):
        hpcml.tune(data, tmp_path / "run", folds=4, resume=True)
    with pytest.raises(ConfigError, match="hpcml tune"):
        hpcml.train("dual", data, tmp_path / "run", resume=True)
    with pytest.raises(DataError, match="other data or settings"):
        hpcml.tune(learnable(tmp_path / "other.h5", seed=2)[0], tmp_path / "run", folds=3, resume=True)
    shutil.copytree(tmp_path / "run", tmp_path / "damaged")
    part = tmp_path / "damaged" / "checkpoint" / "tuning-1.part.h5"
    part.write_bytes(part.read_bytes()[:600])
    with pytest.raises(DataError, match="damaged"):
        hpcml.tune(data, tmp_path / "damaged", folds=3, resume=True)
    assert hpcml.tune(data, tmp_path / "run", folds=3, resume=True).model.read_bytes() == whole


def test_rejects_labels_and_settings_that_cannot_be_tuned(data, tmp_path):
    with pytest.raises(ConfigError, match="no label has both"):
        hpcml.tune(data, tmp_path / "run", label=("label5",), min_positives=0)
    assert not (tmp_path / "run").exists()
    with pytest.raises(NonFiniteError, match="single precision"):
        hpcml.tune(data, tmp_path / "run", lambdas=(1e-38, 1.0))
    assert not (tmp_path / "run").exists()


def test_merges_tuned_parts(data, tmp_path):
    parts = [tmp_path / f"part-{k}" for k in (1, 2)]
    for k, part in enumerate(parts, 1):
        hpcml.tune(data, part, folds=3, lambdas=(1.0, 3.0), weights=(1.0,), label_part=f"{k}/2")
    merge(None, parts, tmp_path / "joint")
    model = hpcml.open_model(tmp_path / "joint")
    assert [line["label"] for line in read(tmp_path / "joint" / "choice.csv")] == model.label_names
    for name in ("lambda", "positive_weight", "threshold", "sigmoid_slope"):
        of_parts = [hpcml.open_model(part).labels[name] for part in parts]
        assert np.array_equal(model.labels[name], np.concatenate(of_parts))


def test_rare_labels_get_the_common_setting():
    scores = np.array([[0.5, 0.7, 0.4]] * 8 + [[0.9, 0.6, 0.1]] * 2 + [[np.nan] * 3])
    n_positive = np.array([50] * 8 + [1, 5000, 0])
    which, best = choose(scores, n_positive, one=False)
    assert best == 1
    assert which.tolist() == [1] * 8 + [1, 0, 1]  # means .58, .68, .34; the rare one: .9 + 58 < .6 + 68
    assert set(choose(scores, n_positive, one=True)[0]) == {1}
    assert choose(scores, n_positive, one=False, tau=0.0)[0].tolist() == [1] * 8 + [0, 0, 1]


def test_keeps_the_default_unless_another_setting_is_better():
    scores, n_positive = np.array([[0.5025, 0.5, 0.4], [0.7, 0.5, 0.4]]), np.array([10**6, 10**6])
    assert choose(scores, n_positive, one=False, default=1)[0].tolist() == [1, 0]
    assert choose(scores, n_positive, one=False)[0].tolist() == [0, 0]
    assert choose(np.full((3, 4), 0.9), np.ones(3), one=True, default=2)[0].tolist() == [2] * 3


def test_grid_grows_at_the_end_with_the_best_setting():
    axes = (Axis("lam", (0.1, 1.0, 10.0), 10.0), Axis("positive_weight", (1.0, 4.0), 4.0, least=1.0))

    def grid(fixed=False):
        return Grid(axes, [list(axis.values) for axis in axes], [fixed] * 2)

    settings = grid().settings()
    assert len(settings) == 6 and settings[1] == {"lam": 0.1, "positive_weight": 4.0}
    means = np.array([0.5, 0.4, 0.3, 0.3, 0.2, 0.2])  # best: λ × 0.1, weight 1
    new = grid().grow(settings, means)
    assert [each["lam"] for each in new] == [0.1 / 10.0] * 2  # and no weight below 1
    assert grid().grow(settings, np.array([0.3001, 0.2, 0.3, 0.3, 0.2, 0.2])) == []  # nothing to gain
    assert grid().grow(settings, np.array([0.2, 0.2, 0.5, 0.4, 0.2, 0.2])) == []  # it lies inside
    assert grid(fixed=True).grow(settings, means) == []  # the user's own values
    weights = grid().grow(settings, np.array([0.2, 0.2, 0.3, 0.5, 0.2, 0.2]))
    assert [each["positive_weight"] for each in weights] == [16.0] * 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"method": "pegasos"}, "--method pegasos"),
        ({"by": "loss"}, "--by loss"),
        ({"folds": 2}, "--folds 2"),
        ({"lambdas": (1.0, 1.0)}, "--lambdas 1.0 1.0"),
        ({"weights": (0.0,)}, "--weights 0.0"),
        ({"method": "probe", "weights": (2.0,)}, "--weights 2.0: .* probe, only on dual"),
        ({"method": "elastic-net", "l1": "0"}, "--l1 0"),
        ({"l1": "1/m"}, "--l1 1/m: .* dual, only on elastic-net"),
        ({"method": "elastic-net", "bias": True}, "--bias"),
    ],
)
def test_rejects_invalid_options(options, text):
    with pytest.raises(ConfigError, match=text):
        TuneOptions(**options).validate()


KEYS = np.arange(60, dtype=np.uint64)


def rows_of(tmp_path, seed=0, n=60, n_labels=8):
    path = dataset(tmp_path / f"{seed}-{n}.h5", *random_data(seed, n, 12, n_labels))
    comm = mpi.self_comm()
    return compact_rows(comm, load_shard(comm, DataFile(path), "all"), True)[0]


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 1000), st.integers(3, 7))
def test_labels_are_dealt_evenly(tmp_path_factory, seed, n_folds):
    rows = rows_of(tmp_path_factory.mktemp("folds"), seed % 7)
    labels = np.arange(rows.n_labels)
    fold = deal(rows, labels, n_folds, seed, KEYS)
    assert np.array_equal(fold, deal(rows, labels, n_folds, seed, KEYS)) and set(fold) == set(range(n_folds))
    blind = np.random.default_rng(seed).permutation(fold)
    uneven = [sum(np.bincount(each[rows.rows_of(k)], minlength=n_folds).var() for k in labels) for each in (fold, blind)]
    assert uneven[0] < uneven[1]


@pytest.mark.parametrize("n_folds", [3, 5])
def test_rows_outside_a_fold(tmp_path, n_folds):
    rows = rows_of(tmp_path)
    fold = deal(rows, np.arange(rows.n_labels), n_folds, 0, KEYS)
    order = np.argsort(fold, kind="stable")

    def line(arrays, i):
        indptr, indices, data = arrays
        some = slice(indptr[i], indptr[i + 1])
        return tuple(indices[some]), tuple(data[some])

    whole = (rows.indptr, rows.indices, rows.data)
    for k, each in enumerate(fold_rows(mpi.self_comm(), rows, fold, n_folds)):
        training = each.training
        numbers = np.concatenate([order[fold[order] > k], order[fold[order] < k]])
        view = (training.indptr, training.indices, training.data)
        assert training.n_local == training.n_global == numbers.size
        assert [line(view, i) for i in range(numbers.size)] == [line(whole, i) for i in numbers]
        assert set(each.numbers) == set(np.flatnonzero(fold == k))
        assert [line(each.held_out, i) for i in range(each.numbers.size)] == [line(whole, i) for i in each.numbers]
        assert np.array_equal(training.counts, np.bincount(training.indices, minlength=rows.n_columns))
        for label in range(rows.n_labels):
            assert set(numbers[training.rows_of(label)]) == set(rows.rows_of(label)) - set(each.numbers)
            assert training.n_positive[label] == training.rows_of(label).size


def test_groups_are_not_divided(tmp_path):
    rows = rows_of(tmp_path)
    groups = KEYS // 4
    fold = deal(rows, np.arange(8), 5, 0, groups)
    assert all(len(set(fold[groups == group])) == 1 for group in range(15))
    sizes = np.bincount(fold)
    assert sizes.max() - sizes.min() <= 8
    with pytest.raises(ConfigError, match="2 groups of rows leave a fold empty"):
        deal(rows, np.arange(8), 5, 0, KEYS // 30)
    with pytest.raises(ConfigError, match="folds"):
        deal(rows_of(tmp_path, n=4), np.arange(8), 5, 0, KEYS[:4])
