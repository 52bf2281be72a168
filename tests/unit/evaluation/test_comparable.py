"""Labels that are compared with each other go by probabilities, wherever that is: against numpy, from the files alone."""

import json

import h5py
import numpy as np
import pytest
from sklearn.metrics import ndcg_score
from support import make
from support.judged import judged
from support.oracles_thresholds import f1

import hpcml
from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.evaluation.comparable import Comparable
from hpcml.evaluation.wrong import most_wrong
from hpcml.log import Log
from hpcml.model.open import open_model

SELF, QUIET = mpi.self_comm(), Log(1)
SLOPE, OFFSET = np.array([90.0, 0.3, 1.0, 0.0, 40.0, 2.0]), np.array([-1.0, 2.0, 0.0, 0.5, 3.0, -3.0])


@pytest.fixture(params=["dense", "sparse"])
def files(request, tmp_path):
    X, Y = make.random_data(0, 80, 12, 6)
    W, bias = np.random.default_rng(1).standard_normal((6, 12)), np.random.default_rng(2).standard_normal(6)
    data = make.dataset(tmp_path / "data.h5", X, Y, splits={"valid": np.arange(80)})
    model = make.model(tmp_path / "model.h5", W, bias, sparse=request.param == "sparse")
    with h5py.File(model, "r+") as file:
        file["labels/sigmoid_slope"], file["labels/sigmoid_offset"] = SLOPE, OFFSET
    hpcml.predict(model, data, tmp_path / "scores.h5", split="all", all_scores=True)
    with h5py.File(tmp_path / "scores.h5") as file:
        return data, model, file["scores"][:], Y.toarray() > 0


def log_odds(scores):
    return np.where(SLOPE > 0, SLOPE * scores + OFFSET, OFFSET)


def best_of(values, k):
    return np.argsort(-values, axis=1, kind="stable")[:, :k]


def test_measures_of_rows_and_pool(files, tmp_path):
    data, model, scores, Y = files
    odds = log_odds(scores)
    found = judged(model, data)
    true = np.take_along_axis(Y, best_of(odds, 5), axis=1)
    assert found.precision_at == pytest.approx({k: true[:, :k].mean() for k in (1, 3, 5)})
    some = Y.any(axis=1)
    places = -np.argsort(np.argsort(-odds, axis=1, kind="stable"), axis=1)  # scikit-learn takes the mean over ties
    assert found.ndcg_at[5] == pytest.approx(ndcg_score(Y[some], places[some], k=5))
    assert found.micro["average_precision"] == pytest.approx(tied_precision(Y.ravel(), odds.ravel()), rel=1e-12)
    assert abs(found.micro["average_precision"] - tied_precision(Y.ravel(), scores.ravel())) > 0.001  # it does matter
    of_labels = [tied_precision(y, s) for y, s in zip(Y.T, scores.T, strict=True)]  # of one label that of its scores
    assert found.values["average_precision"] == pytest.approx(of_labels, rel=1e-12)
    found.write_json(tmp_path / "found.json")
    assert json.loads((tmp_path / "found.json").read_text())["ordered_by"] == "probability"


def test_most_wrong_pairs_of_all_labels_are_by_log_odds(files, tmp_path):
    data, model, scores, Y = files
    thresholds = np.array([0.5, -0.5, 0.0, 0.2, -1.0, 1.0])
    with h5py.File(model, "r+") as file:
        file["labels/threshold"] = thresholds
    beyond = np.abs(scores - thresholds)
    wrong = {"missed": Y & (scores <= thresholds), "given": ~Y & (scores > thresholds)}
    with DataFile(data) as dataset:
        for labels in ([], ["label0"], ["label3"]):
            found = most_wrong(SELF, open_model(model), dataset, "all", labels, 12, QUIET)
            for kind, pairs in wrong.items():
                expected = sorted(
                    (-SLOPE[label] * beyond[row, label], -beyond[row, label] if labels else 0, row, label)
                    for row, label in np.argwhere(pairs).tolist()
                    if not labels or labels == [f"label{label}"]
                )[:12]
                got = found.wrong[0][kind]
                pairs = [(row, f"label{label}") for *_, row, label in expected]
                assert [(each["row"], each["label"]) for each in got] == pairs
                assert [each["beyond"] for each in got] == pytest.approx([-value for value, *_ in expected], rel=1e-12)
        assert "distance of the log-odds of the probability from those at the label's threshold" in str(found)
        assert found.as_dict()["ordered_by"] == "probability"


def tied_precision(true, values):
    total, hits, above = 0.0, 0, 0
    for value in np.unique(values)[::-1]:
        n, r = int((values == value).sum()), int(true[values == value].sum())
        for i in range(1, n + 1):
            total += r / n * (hits + 1 + (i - 1) * (r - 1) / max(1, n - 1)) / (above + i)
        hits, above = hits + r, above + n
    return total / hits


def test_one_threshold_is_one_probability(files, tmp_path):
    data, model, scores, Y = files
    odds = log_odds(scores)
    for measure in ("micro", "instance"):
        hpcml.threshold(model, data, split="valid", measure=measure, output=tmp_path / f"{measure}.h5")
        given = scores > hpcml.open_model(tmp_path / f"{measure}.h5").thresholds
        best = max(np.unique(odds[Y]), key=lambda cut: f1(odds >= cut, Y, measure))
        assert f1(given, Y, measure) == pytest.approx(f1(odds >= best, Y, measure))
        assert odds[given].min() > odds[~given].max()


def test_thresholds_of_a_value_are_exact():
    class Some:
        sigmoids = (np.append(SLOPE, [1e-300, 1e300, 5e-324]), np.append(OFFSET, [1e16, -1e16, 0.0]))

    compared = Comparable(Some(), np.arange(9))
    for value in (-3.0, 0.0, 0.5, 1.0, 1e16):
        found = compared.thresholds(value)
        with np.errstate(over="ignore"):
            above = np.nextafter(found, np.inf)
        assert np.isfinite(found).all()
        flat = np.abs(found) == np.finfo(float).max
        assert flat[3] and (found[3] > 0) == (OFFSET[3] <= value)
        with np.errstate(over="ignore"):
            of_found, of_above = compared.values(found, np.arange(9)), compared.values(above, np.arange(9))
        assert (of_found <= value)[~flat].all() and (of_above > value)[~flat].all()
    assert compared.values(np.array([np.inf]), np.array([3])).tolist() == [0.5]
    assert compared.values(np.full(9, -np.inf), np.arange(9)).tolist() == [-np.inf] * 9  # rows without a score stay last
