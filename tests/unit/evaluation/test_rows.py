"""Measures that are means over rows: against scikit-learn and slow twins, with thresholds and without."""

import json
import math

import h5py
import numpy as np
import pytest
from sklearn import metrics
from support import make
from support import oracles_thresholds as oracles
from support.judged import judged

from hpcml import mpi
from hpcml.errors import ConfigError
from hpcml.evaluation.rows import PERCENT
from hpcml.log import Log
from hpcml.measures import propensities
from hpcml.model import scoring
from hpcml.model.linear import Model

SELF, QUIET = mpi.self_comm(), Log(1)
N_POSITIVE = np.array([9, 4, 30, 1, 4, 17, 0, 25, 2, 2, 3])


@pytest.fixture(params=[False, True])
def case(request, tmp_path, monkeypatch):
    """(dataset, model, scores, truth) of 70 rows and 11 labels, without and with ties and small blocks."""
    X, Y = make.random_data(3, 70, 12, 11)
    rng = np.random.default_rng(1)
    W, bias = rng.standard_normal((11, 12)), rng.standard_normal(11)
    if request.param:
        X, W, bias = X.astype(bool).astype(np.float32), rng.integers(-1, 2, (11, 12)).astype(float), np.zeros(11)
        monkeypatch.setattr(scoring, "MAX_LANES", 3)
        monkeypatch.setattr(scoring, "SCORE_BYTES", 200)
    data, model = make.dataset(tmp_path / "data.h5", X, Y), make.model(tmp_path / "model.h5", W, bias)
    with h5py.File(model, "r+") as file:
        file["labels/n_positive"][:] = N_POSITIVE
        file.attrs["n_rows"] = 100
    return data, Model(model), X.astype(np.float64) @ W.T + bias, Y.toarray() > 0


def of_case(case, threshold=None, labels=None):
    return judged((case[1] if threshold is None else case[1].with_threshold(threshold)), case[0], labels=labels)


@pytest.mark.parametrize("threshold", [None, 0.4, 100.0, -100.0])
def test_f1_by_frequency_equals_sklearn_and_the_twin(case, threshold):
    _, _, scores, truth = case
    given, result = scores > (threshold or 0.0), of_case(case, threshold)
    order = np.argsort(-N_POSITIVE, kind="stable")
    assert [line.percent for line in result.by_frequency] == list(PERCENT)
    assert [line.n_labels for line in result.by_frequency] == [11, 4, 2, 1, 1]
    for line in result.by_frequency:
        some = order[: line.n_labels]
        g, t = given[:, some], truth[:, some]
        assert line.instance_f1 == pytest.approx(oracles.f1(g, t, "instance"), rel=1e-14)
        assert line.micro_f1 == pytest.approx(oracles.f1(g, t, "micro"), rel=1e-14)
        assert line.macro_f1 == pytest.approx(oracles.f1(g, t, "label"), rel=1e-14)
        assert line.micro_f1 == pytest.approx(metrics.f1_score(t.ravel(), g.ravel(), zero_division=np.nan), rel=1e-13)
        if line.n_labels > 1:
            for average, value in (("samples", line.instance_f1), ("macro", line.macro_f1)):
                assert value == pytest.approx(metrics.f1_score(t, g, average=average, zero_division=np.nan), rel=1e-13)
    assert result.instance_f1 == result.by_frequency[0].instance_f1
    assert result.micro["f1"] == pytest.approx(oracles.f1(given, truth, "micro"), rel=1e-14)
    assert result.thresholds == ("" if threshold is None else f"{threshold:g} for all labels")


def test_ndcg_and_propensity_scored_precision(case):
    _, _, scores, truth = case
    result, some = of_case(case), truth.any(axis=1)
    assert 0 < some.sum() < 70
    for k in (1, 3, 5):
        assert result.ndcg_at[k] == pytest.approx(oracles.ndcg(scores, truth, k), rel=1e-13)
        expected = oracles.propensity_scored(scores, truth, N_POSITIVE, 100, k)
        assert result.propensity_scored_at[k] == pytest.approx(expected, rel=1e-13)
        if np.unique(scores).size == scores.size:  # scikit-learn has ties in another order
            expected = metrics.ndcg_score(truth[some], scores[some], k=k)
            assert result.ndcg_at[k] == pytest.approx(expected, rel=1e-12)


def test_propensities_are_those_of_the_paper():
    found = propensities(np.array([0, 10, 1000]), 10_000)
    c = (math.log(10_000) - 1) * 2.5**0.55
    assert found == pytest.approx([1 / (1 + c * math.exp(-0.55 * math.log(n + 1.5))) for n in (0, 10, 1000)], rel=1e-14)
    assert (np.diff(found) > 0).all() and found.max() < 1
    assert propensities(np.array([1]), 2).tolist() == [1.0]


def test_reports_have_them(case, tmp_path):
    result = of_case(case)
    result.write_json(tmp_path / "out.json")
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["instance_f1"] == result.instance_f1
    assert content["ndcg_at"] == {str(k): value for k, value in result.ndcg_at.items()}
    assert content["propensity_scored_precision_at"] == {str(k): value for k, value in result.propensity_scored_at.items()}
    assert content["by_frequency"]["from"] == "training rows"
    assert [line["macro_f1"] for line in content["by_frequency"]["labels"]] == [line.macro_f1 for line in result.by_frequency]
    assert content["thresholds"] == "0 for all labels"
    assert f"per row  {result.instance_f1:.4f} ± " in str(result) and "most frequent" not in str(result)
    result.verbose = True
    lines = str(result).splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("F1 of the most frequent labels"))
    assert [line.split()[0] for line in lines[begin + 1 : begin + 5]] == ["all", "30", "10", "3"]  # 1 % is one label, too
    assert f"{result.instance_f1:.4f}" in lines[begin + 1]
    assert "thresholds: 0.5 for all labels" in str(of_case(case, 0.5))


def test_one_label_and_models_that_do_not_tell(case, tmp_path):
    result = of_case(case, labels=[2])
    assert (result.by_frequency, result.ndcg_at, result.propensity_scored_at) == ([], {}, {})
    assert math.isnan(result.instance_f1)
    with h5py.File(case[1].path, "r+") as file:
        file["labels/n_positive"][:] = 0
    untold = (case[0], Model(case[1].path), *case[2:])
    result = of_case(untold)
    assert (result.frequency_from, result.propensity_scored_at) == ("evaluated rows", {})
    counts = case[3].sum(axis=0)
    some = np.argsort(-counts, kind="stable")[:4]
    assert result.by_frequency[1].micro_f1 == pytest.approx(oracles.f1(case[2][:, some] > 0, case[3][:, some], "micro"))
    with pytest.raises(ConfigError, match="--threshold nan"):
        of_case(case, math.nan)
