"""hpcml calibrate: the file, who uses it, and what is refused."""

import json

import h5py
import numpy as np
import pytest
from support import make
from support.edits import attributes, edit, entry
from support.judged import judged, lines_of

import hpcml
from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, DataError
from hpcml.evaluation.thresholds import calibrate
from hpcml.log import Log
from hpcml.model.linear import Model
from hpcml.model.open import format_model, open_model

SELF, QUIET = mpi.self_comm(), Log(1)


@pytest.fixture
def case(tmp_path):
    """Paths of a dataset and a model, and the scores and the truth of all rows."""
    X, Y = make.random_data(3, 80, 12, 6)
    rng = np.random.default_rng(4)
    W, bias = rng.standard_normal((6, 12)), rng.standard_normal(6)
    data = make.dataset(tmp_path / "data.h5", X, Y, splits={"train": range(0, 80, 2), "valid": range(1, 80, 2)})
    return data, make.model(tmp_path / "model.h5", W, bias), X.astype(np.float64) @ W.T + bias, Y.toarray() > 0


def done(case, split="all", **options):
    with DataFile(case[0]) as dataset:
        return calibrate(SELF, open_model(case[1]), dataset, split, **options)


def test_the_file_keeps_every_other_bit(case, tmp_path):
    report = done(case, output=tmp_path / "out.h5")
    assert Model(case[1]).sigmoids is None and report.sigmoids.shape == (6, 2) and "split all" in str(report)
    done(case)
    assert (tmp_path / "out.h5").read_bytes() == case[1].read_bytes()
    slope, offset = Model(case[1]).sigmoids
    assert np.stack([slope, offset], axis=1).tolist() == report.sigmoids.tolist()
    assert "calibrated (sigmoid, on split all)" in format_model(open_model(case[1]))
    before = {name: values.copy() for name, values in Model(case[1]).labels.items()}
    hpcml.threshold(case[1], case[0], "label", split="all")  # thresholds and sigmoids do not disturb each other
    after = Model(case[1]).labels
    assert after.keys() - before.keys() == {"threshold"} and all((after[name] == before[name]).all() for name in before)
    with pytest.raises(ConfigError, match=r"has probabilities \(calibrated .*use --force"):
        done(case)
    done(case, split="valid", force=True)
    assert "on split valid" in Model(case[1]).probability_source


def test_predictions(case, tmp_path):
    model = case[1]
    hpcml.predict(model, case[0], tmp_path / "scores.h5")
    with h5py.File(tmp_path / "scores.h5") as file:
        assert "score" in file and "probability" not in file
    hpcml.calibrate(model, case[0], split="all")
    hpcml.threshold(model, case[0], "label", split="all")
    slope, offset = open_model(model).sigmoids
    p = 1 / (1 + np.exp(-case[2] * slope - offset))
    for top in (None, 2):
        expected = [
            (row, label)
            for row in range(len(p))
            for label in np.argsort(-(case[2][row] * slope + offset), kind="stable")[:top].tolist()
            if top or case[2][row, label] > open_model(model).thresholds[label]
        ]
        ids, labels, values = lines_of(hpcml.predict(model, case[0], tmp_path / f"{top}.h5", top=top))
        assert list(zip(ids, labels.tolist(), strict=True)) == expected and len(expected) > 50
        assert values == pytest.approx(p[tuple(np.transpose(expected))], rel=1e-12)
        header, *lines = hpcml.predict(model, case[0], tmp_path / f"{top}.csv", top=top).read_text().splitlines()
        assert header == "id,label,probability"
        assert [np.float32(line.rsplit(",")[-1]) for line in lines] == values.astype(np.float32).tolist()
    with h5py.File(hpcml.predict(model, case[0], tmp_path / "all.h5", all_scores=True)) as file:
        columns = [file[f"labels/{name}"][:].tolist() for name in ("sigmoid_slope", "sigmoid_offset", "threshold")]
        assert file["scores"][:] == pytest.approx(case[2]) and "calibrated" in file.attrs["probabilities"]
    assert columns == [slope.tolist(), offset.tolist(), open_model(model).thresholds.tolist()]


def test_evaluate_judges_them(case, tmp_path):
    before = judged(case[1], case[0])
    assert "brier" not in before.values and not before.calibration and "Brier" not in str(before)
    done(case)
    found = judged(case[1], case[0])
    slope, offset = open_model(case[1]).sigmoids
    p = 1 / (1 + np.exp(-case[2] * slope - offset))
    assert found.values["brier"] == pytest.approx(((p - case[3]) ** 2).mean(axis=0), abs=1e-9)
    assert found.micro["brier"] == pytest.approx(((p - case[3]) ** 2).mean(), abs=1e-9)
    assert sum(line.n_labels for line in found.calibration) == 6
    text = str(found)
    assert "calibrated (sigmoid, on split all)" in text and "Brier" in text
    found.write_csv(tmp_path / "all.csv")
    found.write_json(tmp_path / "all.json")
    assert (tmp_path / "all.csv").read_text().splitlines()[0].endswith(",brier,ece")
    content = json.loads((tmp_path / "all.json").read_text())
    assert content["micro"]["brier"] == found.micro["brier"]
    assert content["probabilities"]["by_positives"][0].keys() >= {"positives", "mean_probability", "frequency", "brier", "ece"}


def test_log_odds_are_probabilities_of_their_own(case):
    edit(case[1], attributes({"loss": "logistic"}))
    assert [values.tolist() for values in Model(case[1]).sigmoids] == [[1.0] * 6, [0.0] * 6]
    assert "not calibrated" in format_model(open_model(case[1]))
    edit(case[1], attributes({"positive_weight": "4"}))
    assert Model(case[1]).sigmoids is None
    edit(case[1], attributes({"positive_weight": "1", "loss": "hinge"}))
    assert Model(case[1]).sigmoids is None


def test_labels_that_are_not_in_the_data_have_the_sigmoid_of_the_rarest(tmp_path):
    data = make.dataset(tmp_path / "data.h5", *make.random_data(2, 50, 8, 2), label_names=["c", "a"])
    model = make.model(tmp_path / "model.h5", np.random.default_rng(3).standard_normal((3, 8)), label_names=list("abc"))
    report = done((data, model))
    assert report.n_without == 1 and np.isfinite(report.sigmoids).all() and "1 label without a positive row" in str(report)


def test_what_does_not_fit_is_refused(case, tmp_path):
    X, y, Y = make.class_data(3, 90, 12, 2)
    two = make.classifier(tmp_path / "two.h5", "linear-svm", X, y, ["one"])
    with pytest.raises(ConfigError, match=r"a classifier of .* cannot be calibrated"):
        done((make.dataset(tmp_path / "two-data.h5", X, Y, label_names=["one"]), two))
    with pytest.raises(ConfigError, match="no split"):
        done(case, split="nowhere")
    (tmp_path / "inf").mkdir()
    endless = make.model(tmp_path / "inf" / "model.h5", np.zeros((6, 12)), np.full(6, np.inf))
    with pytest.raises(DataError, match="a factor or a bias is not a finite number"):
        done((case[0], endless))
    done(case)
    for name, value in (("sigmoid_slope", -1.0), ("sigmoid_offset", np.inf)):
        with pytest.raises(DataError, match="damaged model"):
            Model(edit(case[1], entry(f"labels/{name}", 2, value)))
        edit(case[1], entry(f"labels/{name}", 2, 0))
