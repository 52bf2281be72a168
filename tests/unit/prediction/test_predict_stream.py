"""Predictions for a stream of svmlight text: the same bytes as for a dataset, and invalid input."""

import gzip
import re

import numpy as np
import pytest
from support import make
from support.converted import converted
from support.judged import predicted
from support.predicted import predict_text
from support.training import train

from hpcml import mpi
from hpcml.data.svmlight import is_text
from hpcml.errors import ConfigError, DataError, NonFiniteError
from hpcml.log import Log
from hpcml.model.open import open_model
from hpcml.prediction import predict as module
from hpcml.prediction import records, table

N_FEATURES = 9


def svmlight(seed, n_rows, n_features, zero_based=False):
    X, Y = make.random_data(seed, n_rows, n_features, 3)
    lines = []
    for row in range(n_rows):
        labels = ",".join(map(str, Y[[row]].indices))
        pairs = zip(X[[row]].indices.tolist(), X[[row]].data.tolist(), strict=True)
        lines.append(" ".join([labels or "7", *(f"{j + (not zero_based)}:{x!r}" for j, x in pairs)]))
    return "\n".join(["# rows", *lines, ""])


@pytest.fixture(params=["linear", "classifier", "dense classifier"])
def files(request, tmp_path):
    source, data = tmp_path / "data.svm", tmp_path / "data.h5"
    source.write_text(f"1 {N_FEATURES}:1\n" + svmlight(0, 30, N_FEATURES))
    converted("svmlight", source, data)
    if request.param == "linear":
        rng = np.random.default_rng(1)
        model = make.model(tmp_path / "model.h5", rng.standard_normal((3, N_FEATURES)), rng.standard_normal(3), ["a", "b;", "ü"])
    else:
        X, y, _ = make.class_data(1, 60, N_FEATURES, 3)
        dense = request.param == "dense classifier"
        base = "tree" if dense else "kernel-nb"
        model = make.classifier(tmp_path / "model.h5", base, abs(X), y, ["a", "b;", "ü"], dense=dense)
    return source, data, model


def run(source, model, output, force=False, log=None, **options):
    predict_text(mpi.self_comm(), open_model(model), source, output, force, log or Log(1), **options)
    return output.read_bytes()


@pytest.mark.parametrize("top", [None, 2])
@pytest.mark.parametrize(("ending", "small"), [(".csv", True), (".jsonl", False), (".parquet", True), (".h5", False)])
def test_same_bytes_as_for_the_dataset(files, tmp_path, monkeypatch, top, ending, small):
    source, data, model = files
    reference = predicted(model, data, tmp_path / f"reference{ending}", top=top)
    if small:
        monkeypatch.setattr(records, "BLOCK_BYTES", 50)
        monkeypatch.setattr(records, "MAX_BLOCK_BYTES", 60)
        monkeypatch.setattr(module, "WEIGHT_BYTES", 0)
        monkeypatch.setattr(module, "CHUNK_BYTES", 100)
        monkeypatch.setattr(module, "MAX_LINES", 2)
        monkeypatch.setattr(table, "BLOCK", 2)
    assert run(source, model, tmp_path / f"out{ending}", top=top) == reference.read_bytes()
    (tmp_path / "data.gz").write_bytes(gzip.compress(source.read_bytes()))
    assert run(tmp_path / "data.gz", model, tmp_path / f"gz{ending}", top=top) == reference.read_bytes()


@pytest.mark.parametrize("files", ["linear"], indirect=True)
def test_ignores_and_counts_unknown_features(files, tmp_path, capsys):
    source, _, model = files
    expected = run(source, model, tmp_path / "a.csv")
    wide = "".join(line + (" 10:3 99:1" if "#" not in line else "") + "\n" for line in source.read_text().splitlines())
    (tmp_path / "wide.svm").write_text(wide)
    assert run(tmp_path / "wide.svm", model, tmp_path / "b.csv", log=Log(0)) == expected
    printed = capsys.readouterr()
    assert re.search(rf"b.csv: .* of 31 rows, .*; {31 * 2} values", printed.err) and printed.out == ""


@pytest.mark.parametrize("files", ["linear"], indirect=True)
def test_zero_based(files, tmp_path):
    (tmp_path / "one.svm").write_text(svmlight(5, 20, N_FEATURES))
    (tmp_path / "zero.svm").write_text(svmlight(5, 20, N_FEATURES, zero_based=True))
    table_of_zero = run(tmp_path / "zero.svm", files[2], tmp_path / "zero.csv", zero_based=True)
    assert table_of_zero == run(tmp_path / "one.svm", files[2], tmp_path / "one.csv")


def test_numbering_must_be_that_of_training(tmp_path):
    text, run_a, run_b = tmp_path / "zero.svm", tmp_path / "a", tmp_path / "b"
    text.write_text("1 0:1 2:1\n-1 1:1\n")
    train("perceptron", mpi.self_comm(), text, run_a, {"zero_based": True})
    with pytest.raises(ConfigError, match="--zero-based"):
        run(text, run_a / "model.h5", tmp_path / "out.csv")
    with pytest.raises(ConfigError, match="--zero-based"):
        train("perceptron", mpi.self_comm(), text, run_b, {"initial_model": run_a / "model.h5"})
    assert not (tmp_path / "out.csv").exists() and not run_b.exists()
    assert b"\n0,1,2\n" in run(text, run_a / "model.h5", tmp_path / "out.csv", zero_based=True)


@pytest.mark.parametrize("files", ["linear"], indirect=True)
def test_rejects_invalid_outputs(files, tmp_path):
    source, _, model = files
    (tmp_path / "there.csv").write_text("precious")
    for output, options, sentence in (
        ("out.txt", {}, r"out\.txt: "),
        ("out.json", {}, "BioASQ"),
        ("out.tsv", {"text_format": "csv"}, r"--format csv: .*out\.tsv"),
        (module.Path("-"), {"text_format": "bioasq"}, "--format bioasq: "),
        (source.rename(tmp_path / "data.csv"), {"force": True}, r"data\.csv is also an input"),
        ("there.csv", {}, r"there\.csv exists already"),
    ):
        with pytest.raises((ConfigError, DataError), match=sentence):
            run(tmp_path / "data.csv", model, tmp_path / output if isinstance(output, str) else output, **options)
    assert (tmp_path / "there.csv").read_text() == "precious"


@pytest.mark.parametrize("files", ["linear"], indirect=True)
def test_errors_leave_no_files(files, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "BLOCK_BYTES", 50)
    (tmp_path / "bad.svm").write_text(files[0].read_text() + "1 2:x\n")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DataError, match=r"bad\.svm: line 33: "):
        run(tmp_path / "bad.svm", files[2], tmp_path / "out.csv")
    weights = np.full((1, N_FEATURES), np.nan)
    model = make.model(tmp_path / "nan.h5", weights)
    with pytest.raises(NonFiniteError, match="'label0'"):
        run(files[0], model, tmp_path / "out.csv")
    model.unlink()
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("files", ["linear"], indirect=True)
def test_recognises_text(files, tmp_path):
    source, data, model = files
    (tmp_path / "junk.h5").write_text("junk")
    data.rename(tmp_path / "data")
    assert is_text(module.Path("-"))
    assert is_text(source)
    assert not any(map(is_text, (tmp_path / "data", model, tmp_path / "junk.h5", tmp_path, tmp_path / "missing.svm")))
