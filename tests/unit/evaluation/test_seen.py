"""Judging on rows that a model was trained on is said, and so are rows that are in no split."""

import json
import shutil

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from support import make
from support.converted import converted
from support.judged import judged
from support.training import train

import hpcml
from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.evaluation.seen import choose_split
from hpcml.log import Log
from hpcml.methods.psbml.options import AdaboostOptions
from hpcml.model.open import open_model

M = 90
SPLITS = {"train": np.arange(0, 50), "test": np.arange(50, 80)}
METHODS = {
    "dual": lambda *given: train("dual", None, *given, {}),
    "mbw": lambda *given: train("mbw", None, *given, {}),
    "adaboost": lambda *given: train("adaboost", None, *given, AdaboostOptions(rounds=2, label="label0")),
}


@pytest.fixture(scope="module", params=["dual", "adaboost"])
def trained(request, tmp_path_factory):
    """(file with splits, its copy, another file of as many rows, a run)"""
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


@pytest.mark.parametrize("method", ["dual", "adaboost"])
def test_other_rows_with_the_counts_of_the_training_rows_are_not_called_training_rows(tmp_path, method):
    X, _ = make.random_data(1, M, 12, 2, 1.0)
    Y = sp.csr_matrix(np.column_stack([np.arange(M) % 2, np.arange(M) % 3 == 0]).astype(float))
    data = make.dataset(tmp_path / "data.h5", sp.csr_matrix(abs(X).toarray() + 1), Y, splits=SPLITS)
    other = make.dataset(tmp_path / "other.h5", sp.csr_matrix(abs(X).toarray() + 2), Y, splits=SPLITS)
    METHODS[method](data, tmp_path / "run")
    assert judged(tmp_path / "run" / "model.h5", data, "train").seen.n_rows == 50
    assert judged(tmp_path / "run" / "model.h5", other, "train").seen.n_rows == 0


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
    """Documents in three editions each, whose labels are random: nothing can be learnt of other documents."""
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
