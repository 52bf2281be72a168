"""The threshold that the validation rows choose with `--judge auc`: against every cut, and in what is kept of a run."""

import numpy as np
import pytest
from support.make import class_data, dataset
from support.training import train

from hpcml import PsbmlClassifier
from hpcml.methods.psbml.snapshot import best_threshold
from hpcml.model.classifier import ClassifierModel

OPTIONS = {"grid": "2x2", "cycles": 3, "judge": "auc", "validation_share": 0.3}


@pytest.mark.parametrize("seed", range(9))
def test_no_other_cut_leaves_fewer_rows_wrong(seed):
    rng = np.random.default_rng(seed)
    positive = rng.random(30) < rng.random()
    scores = np.round(rng.normal(size=30) + positive + 2 * rng.normal(), seed % 3)  # with ties
    found = best_threshold(scores, positive)
    wrong = {cut: np.sum((scores > cut) != positive) for cut in [-np.inf, *scores]}
    assert np.sum((scores > found) != positive) == min(wrong.values())


def test_zero_stays_where_nothing_is_better():
    assert best_threshold(np.array([-3.0, -1.0, 2.0, 5.0]), np.array([False, False, True, True])) == 0.0
    assert best_threshold(np.array([1.0, 2.0, 4.0]), np.array([False, False, True])) == 3.0
    near = np.array([1.0, np.nextafter(1.0, 2.0)])  # nothing lies between them
    assert best_threshold(near, np.array([False, True])) == 1.0


def test_estimator_command_and_file_agree_and_the_error_needs_no_threshold(tmp_path):
    X, y, Y = class_data(3, 200, 6, 2, 0.4)
    data = dataset(tmp_path / "data.h5", X, Y)
    run = train("psbml", None, data, tmp_path / "run", {**OPTIONS, "seed": 4})
    assert "cycle 1: validation ROC AUC " in (tmp_path / "run" / "log.txt").read_text()
    model = ClassifierModel(run.model)
    found = PsbmlClassifier(**OPTIONS, random_state=4).fit(X, y)
    assert found.threshold_ == model.thresholds[0] != 0
    assert np.array_equal(found.predict(X) == 1, model.scores(X.toarray())[:, 0] > model.thresholds[0])
    assert not np.array_equal(found.predict(X) == 1, found.decision_function(X) > 0)

    by_error = OPTIONS | {"judge": "error"}
    run = train("psbml", None, data, tmp_path / "by error", {**by_error, "seed": 2})
    assert ClassifierModel(run.model).threshold_source == ""
    assert PsbmlClassifier(**by_error).fit(X, y).threshold_ == 0
