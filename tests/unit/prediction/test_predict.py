"""Predictions in all formats; errors leave no files."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet
from support import make
from support.judged import lines_of, predicted

from hpcml import mpi
from hpcml.commands.info import Info
from hpcml.errors import ConfigError, DataError, NonFiniteError
from hpcml.files.hdf5 import open_stamped
from hpcml.log import Log
from hpcml.prediction import predict as module
from hpcml.prediction import table
from hpcml.prediction.table import BIOASQ, FORMATS
from hpcml.run.session import Session

NAMES = ["plain", 'quo"te, comma', "ünïcode"]
ROWS = np.arange(1, 20, 2)


@pytest.fixture
def files(tmp_path):
    X, Y = make.random_data(0, 20, 9, 3)
    rng = np.random.default_rng(1)
    W, bias = rng.standard_normal((3, 9)), rng.standard_normal(3)
    data = make.dataset(tmp_path / "data.h5", X, Y, row_ids=[f"doc {i}, ö" for i in range(20)], splits={"test": ROWS})
    return data, make.model(tmp_path / "model.h5", W, bias, NAMES), (X.astype(np.float64) @ W.T + bias)[ROWS]


def run(files, output, what="labels", force=False, split="test", top=None):
    return predicted(files[1], files[0], output, what, split, force, top)


def expected_lines(scores, top=None, ids=ROWS):
    for row, values in zip(ids, scores, strict=True):
        for label in np.argsort(-values, kind="stable")[:top].tolist():
            if top is not None or values[label] > 0:
                yield f"doc {row}, ö", NAMES[label], values[label]


@pytest.fixture(params=[False, True])
def small_chunks(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(module, "CHUNK_BYTES", 100)
        monkeypatch.setattr(module, "MAX_LINES", 4)
        monkeypatch.setattr(table, "BLOCK", 3)
        monkeypatch.setattr(module, "WEIGHT_BYTES", 0)


def test_all_scores(files, tmp_path, small_chunks):
    with open_stamped(run(files, tmp_path / "out.h5", "scores"), "scores", "hpcml predict") as file:
        np.testing.assert_allclose(file["scores"][:], files[2], rtol=1e-14)
        assert file["rows"][:].tolist() == ROWS.tolist()
        assert list(file["label_names"].asstr()[:]) == NAMES
        assert list(file["row_ids"].asstr()[:]) == [f"doc {i}, ö" for i in ROWS]
        assert file["labels/threshold"][:].tolist() == [0, 0, 0] and "sigmoid_slope" not in file["labels"]
        assert file.attrs["split"] == "test"


@pytest.mark.parametrize("top", [None, 2])
def test_hdf5_table(files, tmp_path, small_chunks, top):
    ids, labels, values = lines_of(run(files, tmp_path / "out.h5", top=top))
    expected = list(zip(*expected_lines(files[2], top), strict=True))
    assert ids == list(expected[0]) and [NAMES[label] for label in labels] == list(expected[1])
    np.testing.assert_allclose(values, expected[2], rtol=1e-14)


@pytest.mark.parametrize("top", [None, 2])
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_text_and_parquet_tables(files, tmp_path, small_chunks, ending, top):
    output = run(files, tmp_path / f"out{ending}", top=top)
    if ending == ".parquet":
        columns = parquet.read_table(output)
        assert columns.schema.names == ["id", "label", "score"] and str(columns.schema.field("score").type) == "float"
        lines = [tuple(line.values()) for line in columns.to_pylist()]
    elif ending == ".jsonl":
        lines = [tuple(json.loads(line).values()) for line in output.read_text(encoding="utf-8").splitlines()]
        assert list(json.loads(output.read_text(encoding="utf-8").splitlines()[0])) == ["id", "label", "score"]
    else:
        with output.open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file, delimiter="," if ending == ".csv" else "\t")
        assert header == ["id", "label", "score"]
        lines = [(name, label, float(score)) for name, label, score in rows]
    expected = list(expected_lines(files[2], top))
    assert [line[:2] for line in lines] == [line[:2] for line in expected]
    assert [np.float32(line[2]) for line in lines] == [np.float32(line[2]) for line in expected]


def test_titles_are_a_column(files, tmp_path):
    titles = ["first, title", "", "'=third"]
    titled = files[0], make.model(tmp_path / "titled.h5", np.ones((3, 9)), np.ones(3), NAMES, label_titles=titles)
    with run(titled, tmp_path / "out.csv", top=1).open(newline="", encoding="utf-8") as file:
        assert {tuple(line[1:3]) for line in csv.reader(file)} == {("label", "title"), ("plain", "first, title")}
    line = json.loads(run(titled, tmp_path / "out.jsonl", top=3).read_text(encoding="utf-8").splitlines()[2])
    assert list(line) == ["id", "label", "title", "score"] and line["title"] == "'=third"
    columns = parquet.read_table(run(titled, tmp_path / "out.parquet", top=3)).to_pydict()
    assert columns["title"] == titles * ROWS.size


def test_numbers_have_the_fewest_digits():
    rng = np.random.default_rng(0)
    wide = rng.uniform(-1, 1, 1000) * 10.0 ** rng.integers(-40, 38, 1000)
    values = np.concatenate([wide, rng.random(1000), [0, 1, -0.5]])
    assert float(table.format_numbers(np.array([1e300]))[0]) == pytest.approx(3.4028235e38)
    for value, text in zip(values.tolist(), table.format_numbers(values), strict=True):
        single = np.float32(value)
        shortest = np.format_float_scientific(single, unique=True, trim="-")
        assert text.endswith("\n") and np.float32(float(text)) == single
        assert float(text) == float(shortest) or abs(single) < 1.2e-38, (text, shortest)
        assert len(text.strip("-\n").partition("e")[0].replace(".", "").strip("0")) <= 9


@pytest.mark.parametrize("ending", [ending for ending in FORMATS if ending != BIOASQ])
def test_empty_splits_and_data_without_ids(tmp_path, ending, capsys):
    data = make.dataset(tmp_path / "data.h5", np.eye(3), np.eye(3), splits={"none": []})
    model = make.model(tmp_path / "model.h5", np.eye(3))
    none, everything = (predicted(model, data, tmp_path / f"{split}{ending}", split=split, log=Log(0)) for split in ("none", "all"))
    assert capsys.readouterr().err.count("id is the row number from 0") == 2
    if ending == ".h5":
        assert lines_of(none)[0] == [] and lines_of(everything)[0] == [0, 1, 2]
    elif ending == ".parquet":
        assert parquet.read_table(none).num_rows == 0 and parquet.read_table(everything)["id"].to_pylist() == [0, 1, 2]
    else:
        lines = everything.read_text().splitlines()
        assert none.read_text().splitlines() == ([] if ending == ".jsonl" else lines[:1])
        assert (
            lines[-1]
            == {".csv": "2,label2,1", ".tsv": "2\tlabel2\t1", ".jsonl": '{"id": 2, "label": "label2", "score": 1}'}[ending]
        )


def described(path):
    return Info(path).execute(Session(mpi.self_comm(), Log(1)))


def test_info_describes_all_formats(files, tmp_path):
    for ending in FORMATS:
        text = described(run(files, tmp_path / f"out{ending}"))
        n_lines = int((files[2] > 0).sum())
        assert ("10 rows" if ending == BIOASQ else f"{n_lines} labels") in text
        assert ending == BIOASQ or re.search(r"  score .*float(32|64)", text)
        assert (f"model       {tmp_path.name}/model.h5" in text) == (ending in (".h5", ".parquet"))
    text = described(run(files, tmp_path / "scores.h5", "scores"))
    assert "scores of 10 rows for 3 labels" in text and "labels/threshold" in text
    (tmp_path / "other.csv").write_text("id,text\n1,a\n")
    with pytest.raises(DataError, match=r"other\.csv: "):
        described(tmp_path / "other.csv")


@pytest.mark.parametrize(("ending", "what"), [(".h5", "scores"), (".h5", "labels"), (".csv", "labels")])
def test_existing_output_needs_force(files, tmp_path, ending, what):
    output = tmp_path / f"out{ending}"
    output.write_text("precious")
    with pytest.raises(ConfigError, match="exists already"):
        run(files, output, what)
    assert output.read_bytes() == b"precious"
    run(files, output, what, force=True)
    assert output.read_bytes() != b"precious"


def test_rejects_invalid_outputs_and_models(files, tmp_path):
    narrow = files[0], make.model(tmp_path / "narrow.h5", np.ones((3, 2)), label_names=NAMES)
    for error, text, arguments, name, options in (
        (ConfigError, "'.svm'", files, "out.svm", {}),
        (ConfigError, "all_scores|--all-scores", files, "out.csv", {"what": "scores"}),
        (ConfigError, "'dev'", files, "out.csv", {"split": "dev"}),
        (DataError, "9 features", narrow, "out.csv", {}),
    ):
        with pytest.raises(error, match=text):
            run(arguments, tmp_path / name, **options)
    assert {path.name for path in tmp_path.iterdir()} == {"data.h5", "model.h5", "narrow.h5"}


@pytest.mark.parametrize(("ending", "what"), [(".h5", "scores"), *((ending, "labels") for ending in FORMATS)])
def test_errors_leave_no_files(files, tmp_path, ending, what):
    broken = files[0], make.model(tmp_path / "broken.h5", np.full((3, 9), np.nan), label_names=NAMES)
    with pytest.raises(NonFiniteError, match="'plain'"):
        run(broken, tmp_path / f"out{ending}", what)
    assert {path.name for path in tmp_path.iterdir()} == {"data.h5", "model.h5", "broken.h5"}


DISK_FULL = """
import resource, sys
from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import HpcmlError
from hpcml.log import Log
from hpcml.model.linear import Model
from hpcml.prediction.predict import predict, write_scores
data, model, folder, limit, *endings = sys.argv[1:]
dataset, model = DataFile(data), Model(model)
predict(mpi.self_comm(), model, dataset, "all", f"{folder}/labels.csv", False, Log(1))  # fills the cache of kernels
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
for ending in (*endings, ""):
    try:
        if ending:
            predict(mpi.self_comm(), model, dataset, "all", f"{folder}/p{ending}", False, Log(1))
        else:
            write_scores(mpi.self_comm(), model, dataset, "all", f"{folder}/p.h5", False, Log(1))
    except HpcmlError as error:
        print(f"refused: {error}")
"""


def test_full_disk_leaves_no_files(tmp_path):
    data = make.dataset(tmp_path / "data.h5", np.eye(3000, 5), np.zeros((3000, 4)), row_ids=[f"row {i}" for i in range(3000)])
    model = make.model(tmp_path / "model.h5", np.ones((4, 5)), np.ones(4))
    folder = tmp_path / "out"
    folder.mkdir()
    arguments = [str(a) for a in (data, model, folder, 9000, *FORMATS)]
    done = subprocess.run([sys.executable, "-c", DISK_FULL, *arguments], capture_output=True, text=True, timeout=100, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(FORMATS) + 1 and all("File too large" in line for line in lines), lines
    assert {path.name for path in Path(folder).iterdir()} == {"labels.csv"}
