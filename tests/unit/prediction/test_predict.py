"""Predictions in every format, and that a failure leaves nothing behind."""

import csv
import subprocess
import sys
from pathlib import Path

import anndata
import h5py
import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file
from support import make
from support.judged import predicted

from hpcml.errors import ConfigError, DataError, NonFiniteError
from hpcml.files.hdf5 import open_stamped
from hpcml.prediction import predict as module
from hpcml.prediction.predict import FORMATS

NAMES = ["plain", 'quo"te, comma', "ünïcode"]
ROWS = np.arange(1, 20, 2)


@pytest.fixture
def files(tmp_path):
    """Paths of data and model, and the scores of the split's rows."""
    X, Y = make.random_data(0, 20, 9, 3)
    rng = np.random.default_rng(1)
    W, bias = rng.standard_normal((3, 9)), rng.standard_normal(3)
    data = make.dataset(tmp_path / "data.h5", X, Y, row_ids=[f"doc {i}, ö" for i in range(20)], splits={"test": ROWS})
    return data, make.model(tmp_path / "model.h5", W, bias, NAMES), (X.astype(np.float64) @ W.T + bias)[ROWS]


def run(files, output, what="scores", force=False, split="test"):
    return predicted(files[1], files[0], output, what, split, force)


@pytest.fixture(params=[False, True])
def small_chunks(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(module, "CHUNK_BYTES", 100)
        monkeypatch.setattr("hpcml.prediction.texts.TEXT_VALUES", 6)
        monkeypatch.setattr(module, "WEIGHT_BYTES", 0)


def test_scores_h5(files, tmp_path, small_chunks):
    with open_stamped(run(files, tmp_path / "out.h5"), "scores", "hpcml predict") as file:
        np.testing.assert_allclose(file["scores"][:], files[2], rtol=1e-14)
        assert file["rows"][:].tolist() == ROWS.tolist()
        assert list(file["label_names"].asstr()[:]) == NAMES
        assert list(file["row_ids"].asstr()[:]) == [f"doc {i}, ö" for i in ROWS]
        assert file.attrs["split"] == "test"


def test_labels_h5(files, tmp_path, small_chunks):
    with h5py.File(run(files, tmp_path / "out.h5", "labels")) as file:
        Y = anndata.io.read_elem(file["Y"])
        assert np.array_equal(Y.toarray() > 0, files[2] > 0)
        assert Y.data.tolist() == [1.0] * Y.nnz
        assert file["rows"][:].tolist() == ROWS.tolist()


@pytest.mark.parametrize("what", ["scores", "labels"])
def test_csv(files, tmp_path, small_chunks, what):
    with run(files, tmp_path / "out.csv", what).open(newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    assert header == ["row", "id", *(NAMES if what == "scores" else ["labels"])]
    assert [line[:2] for line in lines] == [[str(i), f"doc {i}, ö"] for i in ROWS]
    if what == "scores":
        np.testing.assert_allclose(np.array([line[2:] for line in lines], dtype=float), files[2], rtol=1e-14)
    else:
        assert [line[2] for line in lines] == [";".join(np.array(NAMES)[row > 0]) for row in files[2]]


@pytest.mark.parametrize(("what", "ending"), [("scores", ".svm"), ("scores", ".svmlight"), ("labels", ".svm")])
def test_svmlight(files, tmp_path, small_chunks, what, ending):
    scores, labels = load_svmlight_file(str(run(files, tmp_path / f"out{ending}", what)), multilabel=True, zero_based=False)
    if what == "scores":
        np.testing.assert_allclose(scores.toarray(), files[2], rtol=1e-14)
    assert labels == [tuple(np.flatnonzero(row > 0) + 1.0) for row in files[2]]


def test_label_names_with_the_separator_are_escaped(tmp_path):
    data = make.dataset(tmp_path / "data.h5", np.eye(2), np.eye(2), label_names=["a;b", "c\\"])
    files = data, make.model(tmp_path / "model.h5", np.ones((2, 2)), label_names=["a;b", "c\\"])
    lines = list(csv.reader(run(files, tmp_path / "out.csv", "labels", split="all").read_text().splitlines()))
    assert [line[-1] for line in lines[1:]] == ["a\\;b;c\\\\"] * 2


@pytest.mark.parametrize("what", ["scores", "labels"])
@pytest.mark.parametrize("ending", FORMATS)
def test_a_split_without_rows_and_data_without_ids(tmp_path, ending, what):
    data = make.dataset(tmp_path / "data.h5", np.eye(3), np.eye(3), splits={"none": []})
    files = data, make.model(tmp_path / "model.h5", np.eye(3))
    none, everything = (run(files, tmp_path / f"{split}{ending}", what, split=split) for split in ("none", "all"))
    if ending == ".csv":
        header = "row,label0,label1,label2" if what == "scores" else "row,labels"
        assert none.read_text().splitlines() == [header]
        assert len(everything.read_text().splitlines()) == 4
    elif ending == ".h5":
        with h5py.File(none) as file:
            assert file["rows"].shape == (0,)
            assert "row_ids" not in file
    else:
        assert none.read_text() == ""


@pytest.mark.parametrize("ending", FORMATS)
def test_existing_output_needs_force(files, tmp_path, ending):
    output = tmp_path / f"out{ending}"
    output.write_text("precious")
    with pytest.raises(ConfigError, match="exists already"):
        run(files, output)
    assert output.read_text() == "precious"
    run(files, output, force=True)
    assert output.read_bytes() != b"precious"


def test_what_is_wrong_is_said(files, tmp_path):
    narrow = files[0], make.model(tmp_path / "narrow.h5", np.ones((3, 2)), label_names=NAMES)
    for error, sentence, given, name, options in (
        (ConfigError, r"unknown kind of file '.txt'; .* \.h5, \.csv, \.svm, \.svmlight", files, "out.txt", {}),
        (ConfigError, "expected one of scores, labels, probabilities", files, "out.csv", {"what": "ranks"}),
        (ConfigError, "no split named 'dev'", files, "out.csv", {"split": "dev"}),
        (DataError, "9 features", narrow, "out.csv", {}),
    ):
        with pytest.raises(error, match=sentence):
            run(given, tmp_path / name, **options)
    assert {path.name for path in tmp_path.iterdir()} == {"data.h5", "model.h5", "narrow.h5"}


@pytest.mark.parametrize("what", ["scores", "labels"])
@pytest.mark.parametrize("ending", FORMATS)
def test_a_failure_leaves_nothing_behind(files, tmp_path, ending, what):
    broken = files[0], make.model(tmp_path / "broken.h5", np.full((3, 9), np.nan), label_names=NAMES)
    with pytest.raises(NonFiniteError, match="label 'plain' is not a finite number"):
        run(broken, tmp_path / f"out{ending}", what)
    assert {path.name for path in tmp_path.iterdir()} == {"data.h5", "model.h5", "broken.h5"}


DISK_FULL = """
import resource, sys
from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import HpcmlError
from hpcml.log import Log
from hpcml.model.linear import Model
from hpcml.prediction.predict import predict
data, model, folder, limit, *endings = sys.argv[1:]
dataset, model = DataFile(data), Model(model)
for what in ("scores", "labels"):
    predict(mpi.self_comm(), model, dataset, "all", f"{folder}/{what}.csv", what, False, Log(1))  # the kernels' cache is filled now
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
for what in ("scores", "labels"):
    for ending in endings:
        try:
            predict(mpi.self_comm(), model, dataset, "all", f"{folder}/p{ending}", what, False, Log(1))
        except HpcmlError as error:
            print(f"refused: {error}")
"""


def test_a_full_disk_leaves_nothing_behind(tmp_path):
    data = make.dataset(tmp_path / "data.h5", np.eye(3000, 5), np.zeros((3000, 4)))
    model = make.model(tmp_path / "model.h5", np.ones((4, 5)), np.ones(4))
    folder = tmp_path / "out"
    folder.mkdir()
    arguments = [str(a) for a in (data, model, folder, 9000, *FORMATS)]
    done = subprocess.run([sys.executable, "-c", DISK_FULL, *arguments], capture_output=True, text=True, timeout=100, check=True)
    said = done.stdout.splitlines()
    assert len(said) == 2 * len(FORMATS) and all(line.startswith("refused: ") and "File too large" in line for line in said), said
    assert {path.name for path in Path(folder).iterdir()} == {"scores.csv", "labels.csv"}
