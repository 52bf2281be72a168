"""Judging on rows that a model was trained on is said, and so are rows that are in no split."""

import json
import shutil

import h5py
import numpy as np
import pytest
from support import make
from support.converted import converted
from support.judged import HintLog, judged, predicted
from support.training import train

import hpcml
from hpcml import mpi
from hpcml.cli import app as cli
from hpcml.data.dataset import DataFile
from hpcml.evaluation.scored_rows import choose_split
from hpcml.evaluation.thresholds import hint_at_low_recall
from hpcml.log import Log
from hpcml.methods.psbml.options import AdaboostOptions
from hpcml.model.linear import Model
from hpcml.model.open import open_model
from hpcml.mpi import self_comm

M = 90
SPLITS = {"train": np.arange(0, 50), "test": np.arange(50, 80)}
METHODS = {
    "dual": lambda *given: train("dual", None, *given, {}),
    "mbw": lambda *given: train("mbw", None, *given, {}),
    "adaboost": lambda *given: train("adaboost", None, *given, AdaboostOptions(rounds=2, label="label0")),
}


@pytest.fixture(scope="module", params=["dual", "adaboost"])
def trained(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("seen")
    X, Y = make.random_data(1, M, 12, 2, 0.4)
    data = make.dataset(folder / "data.h5", abs(X), Y, splits=SPLITS)
    shutil.copy(data, folder / "copy.h5")
    others = abs(make.random_data(2, M, 12, 2, 0.4)[0]).tolil()
    others[:, 3] = 0  # a feature of the training rows that these do not have
    other = make.dataset(folder / "other.h5", others.tocsr(), Y, splits=SPLITS)
    METHODS[request.param](data, folder / "run")
    return data, folder / "copy.h5", other, folder / "run"


@pytest.mark.parametrize(("split", "n_seen"), [("train", 50), ("all", 50), ("test", 0)])
def test_training_rows_are_told(trained, split, n_seen):
    data, _, _, run = trained
    found = judged(run / "model.h5", data, split)
    assert (found.seen.n_rows, found.n_unused) == (n_seen, 10)
    text = str(found)
    assert ("are training rows of the model, so these results are too optimistic" in text) == (n_seen > 0)
    assert "10 rows of the data in no split" in text


def test_copy_is_known_and_another_file_is_not(trained):
    _, copy, other, run = trained
    assert judged(run / "model.h5", copy, "train").seen.n_rows == 50
    assert judged(run / "model.h5", other, "train").seen.n_rows == 0


def test_a_continued_model_knows_its_last_rows(tmp_path):
    X, Y = make.random_data(1, M, 12, 2, 0.4)
    data = make.dataset(tmp_path / "data.h5", abs(X), Y, splits=SPLITS)
    first = METHODS["mbw"](data, tmp_path / "first").model
    second = train("mbw", None, data, tmp_path / "second", {"initial_model": first}).model
    assert judged(second, data, "train").seen.n_rows == 50


def test_default_that_falls_back_is_said(trained, tmp_path, capsys):
    with DataFile(make.dataset(tmp_path / "data.h5", *make.random_data(1, M, 12, 2, 0.4))) as dataset:
        assert choose_split(mpi.self_comm(), dataset, None, Log(0)) == "all"
        assert "has no split test; all its 90 rows are evaluated" in capsys.readouterr().err
        assert choose_split(mpi.self_comm(), dataset, "all", Log(0)) == "all"
    with DataFile(trained[0]) as dataset:
        assert choose_split(mpi.self_comm(), dataset, None, Log(0)) == "test"
    assert capsys.readouterr().err == ""


def editions(path, groups):
    rng = np.random.default_rng(0)
    words, labels = [rng.choice(400, 20) for _ in range(150)], rng.integers(0, 4, 150)
    lines = []
    for number in range(450):
        work = number // 3
        text = " ".join(f"w{word}" for word in [*words[work], *rng.choice(400, 2)])
        lines.append(json.dumps({"text": text, "labels": [f"l{labels[work]}"], "work": f"w{work}"}) + "\n")
    path.write_text("".join(lines))
    converted("jsonl", path, path.with_suffix(".h5"), test_share=0.3, **({"group": "work"} if groups else {}))
    return path.with_suffix(".h5")


def test_a_cross_validation_that_is_too_good_is_told(tmp_path):
    apart = editions(tmp_path / "groups.jsonl", groups=True)
    with h5py.File(apart, "r+") as file:  # the test rows stay apart, but the folds divide the works
        del file["row_groups"]
    hpcml.tune(apart, tmp_path / "torn", folds=3, lambdas=(1.0,), weights=(1.0,))
    found = judged(tmp_path / "torn" / "model.h5", apart, "test")
    assert found.optimism[0] > 0.9 and found.optimism[1] < 0.5
    assert "name their groups with `hpcml convert --group`" in str(found)
    whole = editions(tmp_path / "whole.jsonl", groups=True)
    hpcml.tune(whole, tmp_path / "kept", folds=3, lambdas=(1.0,), weights=(1.0,))
    found = judged(tmp_path / "kept" / "model.h5", whole, "test")
    in_folds = open_model(tmp_path / "kept" / "model.h5").labels["average_precision_in_folds"].mean()
    assert found.optimism is None and in_folds < 0.5 and "--group" not in str(found)


N_ROWS = 200


def made(folder, found, positives=20, false=0, trained_on=None, valid=False):
    values = np.full(N_ROWS, 0.25)
    values[:positives], values[:found] = 0.5, 2.0
    values[positives : positives + false] = 2.0
    splits = {"test": np.arange(N_ROWS)} | ({"valid": np.arange(10)} if valid else {})
    data = make.dataset(folder / "data.h5", values[:, None], (np.arange(N_ROWS) < positives)[:, None], splits=splits)
    model = make.model(folder / "model.h5", np.ones((1, 1)), np.array([-1.0]))
    with h5py.File(model, "r+") as file:
        if trained_on is not None:
            file["labels/n_positive"][:], file.attrs["n_rows"] = trained_on
    return model, data


def notes_of_evaluation(model, data):
    opened, log = Model(model) if not isinstance(model, Model) else model, HintLog()
    with DataFile(data):
        hint_at_low_recall(log, judged(opened, data, "test"), opened)
    return log.notes


def notes_of_labels(model, data, output):
    log = HintLog()
    predicted(model, data, output, log=log)
    return log.notes


@pytest.mark.parametrize(
    ("found", "false", "said"),
    [
        (4, 0, "macro recall (0.20) is far below macro precision (1.00)"),  # 4 of 20; 4 of 4
        (10, 0, ""),  # a half is not far
        (4, 8, ""),  # recall 0.2, precision 4 of 12: both are low, and more labels would not help
        (0, 0, "no row gets a label"),
        (20, 0, ""),
    ],
)
def test_evaluation(tmp_path, found, false, said):
    notes = notes_of_evaluation(*made(tmp_path, found, false=false))
    assert len(notes) == bool(said) and all(said in note and "`hpcml tune DATA --output RUN`" in note for note in notes)


@pytest.mark.parametrize(
    ("found", "trained_on", "said"),
    [
        (4, (30, 100), "rows get 0.02 labels on average, while training rows have 0.3"),
        (29, (30, 100), "rows get 0.14 labels on average"),  # 30 of 200 are a half of 0.3
        (30, (30, 100), ""),
        (4, (9, 100), ""),  # 18 labels are expected, which chance may make 4
        (4, None, ""),  # a model that does not say what it was trained on
    ],
)
def test_labels_of_rows(tmp_path, found, trained_on, said):
    model, data = made(tmp_path, found, positives=60, trained_on=trained_on)
    notes = notes_of_labels(model, data, tmp_path / "labels.csv")
    assert len(notes) == bool(said) and all(said in note for note in notes)
    assert notes_of_labels(model, data, tmp_path / "labels.h5") == notes
    assert not notes_of_labels(Model(model).with_threshold(0.0), data, tmp_path / "thresholds.csv")


def test_commands_say_it_behind_their_result_and_name_what_to_do(tmp_path, capsys):
    model, data = made(tmp_path, 4, trained_on=(30, 100), valid=True)
    text = tmp_path / "rows.svm"
    text.write_text("0 1:0.5\n" * N_ROWS)
    do = f"`hpcml threshold {model} DATA --measure label`"
    rows = ["-o", tmp_path / "labels.csv", "--force"]
    for tokens in (["evaluate", model, data], ["predict", model, data, *rows], ["predict", model, text, *rows]):
        cli.run([str(token) for token in tokens], self_comm)
        assert [do in line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")] == [True]
    cli.run(["evaluate", str(model), str(data), "--quiet"], self_comm)
    assert not capsys.readouterr().err
    cli.run(do.strip("`").replace("DATA", str(data)).split()[1:], self_comm)  # the model then has thresholds
    capsys.readouterr()
    cli.run(["evaluate", str(model), str(data)], self_comm)
    assert "note: " not in capsys.readouterr().err
