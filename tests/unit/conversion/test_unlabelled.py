"""Unlabelled rows of every source, which training and evaluation do not use."""

import csv

import h5py
import numpy as np
import pandas as pd
import pytest
from support.converted import check_refusal, converted, label_sets, made, strings
from support.edits import edit, replace
from support.formats import convert_table

import hpcml
from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.info import info
from hpcml.errors import ConfigError, DataError
from hpcml.reduce.dataset import reduce_dataset

TABLE = {"labels": ["topic"], "indicators": ["spam"]}
# topic, spam, expected labels (None: unlabelled)
CELLS = [("a", 1, ["a", "spam"]), ("", 0, None), (None, 1, None), ("b", None, None), ("b", 0, ["b"]), ("  ", None, None)]
EXPECTED = [labels for _, _, labels in CELLS]
AS_NONE = [["a", "spam"], [], ["spam"], ["b"], ["b"], []]


def unlabelled_rows(path):
    with h5py.File(path) as file:
        return file["unlabelled"][:].tolist() if "unlabelled" in file else None


def make_table(folder, source, **options):
    topics, spam, _ = zip(*CELLS, strict=True)
    others = pd.DataFrame({"topic": topics, "spam": np.array(spam, dtype=float)})
    return convert_table(source, folder, pd.DataFrame({"x": np.arange(6)[::-1] + 1.0}), others, **options)


@pytest.mark.parametrize("source", ["csv", "tsv", "parquet", "h5ad", "arff", "frame"])
def test_row_with_empty_cells_is_unlabelled(tmp_path, source):
    path = make_table(tmp_path, source, **TABLE)
    assert unlabelled_rows(path) == [row for row, labels in enumerate(EXPECTED) if labels is None]
    assert label_sets(path) == [labels or [] for labels in EXPECTED]
    path = make_table(tmp_path, source, empty_labels="none", **TABLE)
    assert unlabelled_rows(path) is None and label_sets(path) == AS_NONE


@pytest.mark.parametrize("empty", [{}, {"labels": None}], ids=["missing", "null"])
def test_json_lines_without_labels(tmp_path, empty):
    documents = [
        {"text": "sea ship", "labels": ["a"]},
        {"text": "ship port", **empty},
        {"text": "port", "labels": []},
        {"text": "port farm", **empty},
    ]
    report, path = made(tmp_path, "jsonl", documents)
    assert (unlabelled_rows(path), report.unlabelled) == ([1, 3], 2)
    assert strings(path, "feature_names") == ["port", "sea", "ship"]  # words of unlabelled rows only are no features
    with h5py.File(path) as file:
        assert file["text"].attrs["n_documents"] == 2
    report, path = made(tmp_path, "jsonl", documents, empty_labels="none")
    assert unlabelled_rows(path) is None and "farm" in strings(path, "feature_names")


@pytest.mark.parametrize("kind", ["list", "text"])
def test_labels_beside_a_matrix(tmp_path, kind):
    np.save(tmp_path / "X.npy", np.eye(4, 3))
    labels = tmp_path / "y"
    if kind == "list":
        labels = labels.with_suffix(".npy")
        np.save(labels, np.array(["a", "", "b", ""]))
    else:
        labels.write_text("a\n\nb\n \n")
    for options, expected in (({}, [1, 3]), ({"empty_labels": "none"}, None)):
        converted("npz", [tmp_path / "X.npy", labels], tmp_path / "out.h5", **options)
        assert unlabelled_rows(tmp_path / "out.h5") == expected


def test_sequences_in_memory(tmp_path):
    for options, expected in (({}, [1, 3, 4]), ({"empty_labels": "none"}, None)):
        with hpcml.Dataset.from_sparse(
            np.eye(5), ["a", pd.NA, [], "", float("nan")], tmp_path / "x.h5", force=True, **options
        ) as data:
            assert data.n_unlabelled == len(expected or [])
            assert data.matrix().shape[0] == data.labels().shape[0] == 5 - len(expected or [])
            assert data.matrix(unlabelled=True).shape[0] == 5
    check_refusal(
        lambda: hpcml.Dataset.from_sparse(np.eye(2), np.eye(2), tmp_path / "y.h5", empty_labels="none"), "empty_labels=none"
    )


def test_without_columns_of_labels_no_row_is_labelled(tmp_path):
    _, train = made(tmp_path, "csv", "x,y,l\n1,2,a\n2,1,b\n", "train", labels=("l",))
    report, path = made(tmp_path, "csv", "x,y\n1,2\n2,1\n", "new", like=train)
    assert (unlabelled_rows(path), report.unlabelled) == ([0, 1], 2)


def documents(n, seed=1):
    rng = np.random.default_rng(seed)
    for number in range(n):
        sea = bool(rng.random() < 0.5)
        words = rng.choice(["ship", "port", "storm", "common"] if sea else ["corn", "wheat", "plough", "common"], 5)
        split = ("train", "train", "train", "valid", "test")[number % 5]
        yield {"id": f"d{number}", "text": " ".join(words), "labels": ["sea" if sea else "farm"], "split": split}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unlabelled")
    plain = list(documents(150))
    mixed = [
        *plain,
        *({"id": f"u{k}", "text": "ship port storm new", "split": s} for k, s in enumerate(["train", "valid", "test"] * 30)),
    ]
    return folder, made(folder, "jsonl", plain, "plain")[1], made(folder, "jsonl", mixed, "mixed")[1]


TRAININGS = {
    "dual": {"dual_tol": 1e-3},
    "mbw": {},
    "adaboost": {"rounds": 3},
    "psbml": {"grid": "2x2", "cycles": 3, "label": "sea", "base": ["gaussian-nb"]},
}


@pytest.mark.parametrize("method", TRAININGS)
def test_training_and_evaluation_ignore_unlabelled_rows(files, tmp_path, method, capsys):
    found = []
    for number, data in enumerate(files[1:]):
        model = hpcml.train(method, data, tmp_path / f"run{number}", **TRAININGS[method]).model
        scores = hpcml.predict(model, files[2], tmp_path / f"{number}.h5", all_scores=True)
        with h5py.File(scores) as file:
            found.append((file["scores"][:], hpcml.evaluate(model, data).macro("average_precision")))
    assert found[0][0].shape[0] == 240 and np.array_equal(found[0][0], found[1][0])  # all rows are predicted
    assert found[0][1] == found[1][1]
    assert hpcml.evaluate(model, files[2]).n_rows == 30


def test_tuning_and_thresholds_ignore_unlabelled_rows(files, tmp_path):
    _, *both = files
    reports, rows = [], []
    for number, data in enumerate(both):
        found = [hpcml.cross_validate(["multinomial-nb"], [data], folds=3, split="train").f1]
        model = hpcml.tune(data, tmp_path / f"tune{number}", folds=3).model
        found.append(hpcml.open_model(model).thresholds)
        plain = hpcml.train("dual", data, tmp_path / f"run{number}").model
        found.append(hpcml.threshold(plain, data, "micro").found.thresholds)
        found.append(hpcml.calibrate(plain, data, output=tmp_path / f"cal{number}.h5").sigmoids)
        rows.append(hpcml.threshold(plain, data, "label", force=True).n_rows)
        reports.append(found)
    assert rows == [30, 30]
    for one, other in zip(*reports, strict=True):
        assert np.array_equal(one, other)


def test_explain_does_not_judge_unlabelled_rows(files, tmp_path):
    model = hpcml.train("dual", files[2], tmp_path / "run").model
    explanation = hpcml.explain(model, files[2], row=["u0", "d0"], label=["sea"])
    assert "predicted, the row is unlabelled" in str(explanation) and "a true label" in str(explanation)
    assert next(each["true"] for each in explanation.as_dict()["scores"]) is None
    wrong = hpcml.explain(model, files[2], wrong=500, split="all").as_dict()["wrong"][0]
    assert not [each for kind in ("missed", "given") for each in wrong[kind] if each["id"].startswith("u")]


def test_split_without_labelled_rows_is_refused(tmp_path, files):
    new = [{"text": "ship", "split": "new"}, {"text": "corn", "labels": ["farm"], "split": "old"}]
    _, path = made(tmp_path, "jsonl", new, like=files[1])
    model = hpcml.train("dual", files[1], tmp_path / "run").model
    hpcml.predict(model, path, tmp_path / "out.csv", split="new")
    assert list(csv.reader((tmp_path / "out.csv").open()))[1][1] == "sea"
    for call in (lambda: hpcml.evaluate(model, path, split="new"), lambda: hpcml.train("dual", path, tmp_path / "x", split="new")):
        with pytest.raises(ConfigError, match="split new"):
            call()


def test_feature_selection_keeps_unlabelled_rows(files, tmp_path):
    with DataFile(files[2]) as dataset:
        reduce_dataset(mpi.self_comm(), dataset, np.arange(3), tmp_path / "few.h5", False)
    assert unlabelled_rows(tmp_path / "few.h5") == unlabelled_rows(files[2]) == list(range(150, 240))


@pytest.mark.parametrize(
    ("values", "message"),
    [([0], "row 0"), ([160, 150], "unlabelled"), ([999], "999")],
)
def test_damage_is_refused(files, tmp_path, values, message):
    path = tmp_path / "x.h5"
    path.write_bytes(files[2].read_bytes())
    edit(path, replace("unlabelled", lambda _: np.array(values, dtype="<i8")))
    with pytest.raises(DataError, match=message):
        info(mpi.self_comm(), path, [])
