"""Rows that nobody labelled: which they are in each source, and that training and evaluation leave them out."""

import csv
import json

import h5py
import numpy as np
import pandas as pd
import pytest
from support.converted import converted, label_sets, made, strings
from support.edits import edit, replace
from support.formats import as_h5ad

import hpcml
from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.info import format_info, info
from hpcml.errors import ConfigError, DataError
from hpcml.log import Log
from hpcml.reduce.dataset import reduce_dataset

TABLE = {"labels": ("topic",), "indicators": ("spam",)}
# topic, spam -> the labels; None: nobody labelled the row
CELLS = [("a", 1, ["a", "spam"]), ("", 0, None), (None, 1, None), ("b", None, None), ("b", 0, ["b"]), ("  ", None, None)]
EXPECTED = [labels for _, _, labels in CELLS]
AS_NONE = [["a", "spam"], [], ["spam"], ["b"], ["b"], []]


def unlabelled_rows(path):
    with h5py.File(path) as file:
        return file["unlabelled"][:].tolist() if "unlabelled" in file else None


def table():
    topics, spam, _ = zip(*CELLS, strict=True)
    return pd.DataFrame({"x": np.arange(6)[::-1] + 1.0, "topic": topics, "spam": np.array(spam, dtype=float)})


def make_table(folder, source, **options):
    """The report and the path of the dataset of `table`."""
    data, path, output = table(), folder / f"in.{source}", folder / "out.h5"
    if source == "parquet":
        data.to_parquet(path)
    elif source == "h5ad":
        obs = data.set_axis([str(k) for k in range(6)])[["topic", "spam"]]
        as_h5ad(path, data[["x"]].to_numpy(np.float32), obs, ["x"])
    elif source == "arff":
        cells = [
            [repr(x), f"'{topic}'" if topic and topic.strip() else "?", "?" if spam != spam else int(spam)]
            for x, topic, spam in data.values
        ]
        head = "@relation t\n@attribute x numeric\n@attribute topic {a,b}\n@attribute spam {0,1}\n@data\n"
        path.write_text(head + "".join(",".join(map(str, row)) + "\n" for row in cells))
    elif source == "frame":
        given = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
        with hpcml.Dataset.from_frame(data, output, force=True, **given):
            pass
        return None, output
    else:
        data.to_csv(path, index=False, sep="\t" if source == "tsv" else ",", float_format="%.17g")
    return converted(source, path, output, **options), output


@pytest.mark.parametrize("source", ["csv", "tsv", "parquet", "h5ad", "arff", "frame"])
def test_a_row_is_unlabelled_if_its_cells_are_empty(tmp_path, source):
    report, path = make_table(tmp_path, source, **TABLE)
    assert unlabelled_rows(path) == [row for row, labels in enumerate(EXPECTED) if labels is None]
    assert label_sets(path) == [labels or [] for labels in EXPECTED]
    assert report is None or (report.unlabelled == 4 and "unlabelled: 4 rows, not used for training or evaluation" in str(report))
    report, path = make_table(tmp_path, source, empty_labels="none", **TABLE)
    assert unlabelled_rows(path) is None and label_sets(path) == AS_NONE
    assert report is None or "unlabelled:" not in str(report)


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
    assert strings(path, "feature_names") == ["port", "sea", "ship"]  # a word of an unlabelled row only is no training word
    with h5py.File(path) as file:
        assert file["text"].attrs["n_documents"] == 2
    report, path = made(tmp_path, "jsonl", documents, empty_labels="none")
    assert unlabelled_rows(path) is None and "farm" in strings(path, "feature_names")


def test_lists_of_parquet(tmp_path):
    data = pd.DataFrame({"x": [4.0, 2, 3, 1], "l": [["a"], [], None, [""]]})
    data.to_parquet(tmp_path / "in")
    converted("parquet", tmp_path / "in", tmp_path / "out.h5", labels=("l",))
    assert unlabelled_rows(tmp_path / "out.h5") == [2, 3]  # an empty list is an empty label set


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
    with pytest.raises(ConfigError, match="empty_labels=none: has no effect, because"):
        hpcml.Dataset.from_sparse(np.eye(2), np.eye(2), tmp_path / "y.h5", empty_labels="none")


def test_without_columns_of_labels_no_row_is_labelled(tmp_path):
    _, train = made(tmp_path, "csv", "x,y,l\n1,2,a\n2,1,b\n", "train", labels=("l",))
    report, path = made(tmp_path, "csv", "x,y\n1,2\n2,1\n", "new", like=train)
    assert (unlabelled_rows(path), report.unlabelled) == ([0, 1], 2)


def test_an_option_without_effect(tmp_path):
    (tmp_path / "in").write_text("x\n1\n")
    with pytest.raises(ConfigError, match="--empty-labels none: has no effect without --labels or --indicators"):
        converted("csv", tmp_path / "in", tmp_path / "out.h5", empty_labels="none")


def test_an_indicator_that_is_no_number(tmp_path):
    (tmp_path / "in").write_text("@relation t\n@attribute x numeric\n@attribute on {yes,no}\n@data\n1,yes\n2,no\n")
    with pytest.raises(DataError, match=r"column 'on': yes, but expected 1, 0, True or False"):
        converted("arff", tmp_path / "in", tmp_path / "out.h5", indicators=("on",))


def test_without_any_labels_the_message_says_so(tmp_path):
    with pytest.raises(DataError, match=r"no label in any row; expected at least one"):
        made(tmp_path, "jsonl", [{"text": "sea"}, {"text": "ship"}])


def documents(n, seed=1):
    """Labelled documents of two topics, with training, validation and test rows."""
    rng = np.random.default_rng(seed)
    for number in range(n):
        sea = bool(rng.random() < 0.5)
        words = rng.choice(["ship", "port", "storm", "common"] if sea else ["corn", "wheat", "plough", "common"], 5)
        split = ("train", "train", "train", "valid", "test")[number % 5]
        yield {"id": f"d{number}", "text": " ".join(words), "labels": ["sea" if sea else "farm"], "split": split}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Folder; datasets of labelled documents, and of these with others between them that nobody labelled, which look like `sea`."""
    folder = tmp_path_factory.mktemp("unlabelled")
    plain = list(documents(150))
    mixed = [
        *plain,
        *({"id": f"u{k}", "text": "ship port storm new", "split": s} for k, s in enumerate(["train", "valid", "test"] * 30)),
    ]
    return folder, made(folder, "jsonl", plain, "plain")[1], made(folder, "jsonl", mixed, "mixed")[1]


TRAININGS = {
    "dual": {"dual_tol": 1e-3},
    "elastic-net": {"lam": 1e-3},
    "mbw": {},
    "bernoulli-nb": {},
    "adaboost": {"rounds": 3},
    "psbml": {"grid": "2x2", "cycles": 3, "label": "sea", "base": ["gaussian-nb"]},
}


@pytest.mark.parametrize("method", TRAININGS)
def test_training_and_evaluation_leave_them_out(files, tmp_path, method, capsys):
    found = []
    for number, data in enumerate(files[1:]):
        model = hpcml.train(method, data, tmp_path / f"run{number}", **TRAININGS[method]).model
        scores = hpcml.predict(model, files[2], tmp_path / f"{number}.h5", all_scores=True)
        with h5py.File(scores) as file:
            found.append((file["scores"][:], hpcml.evaluate(model, data).macro("average_precision")))
    assert found[0][0].shape[0] == 240 and np.array_equal(found[0][0], found[1][0])  # all rows are predicted
    assert found[0][1] == found[1][1]
    assert hpcml.evaluate(model, files[2]).n_rows == 30


def test_choices_leave_them_out(files, tmp_path):
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


def test_they_are_counted_in_the_log(files, tmp_path, capsys):
    log = Log(0)
    model = hpcml.train("dual", files[2], tmp_path / "run", log=log).model
    hpcml.evaluate(model, files[2], log=log)
    told = capsys.readouterr().err
    assert f"note: {files[2]}: 30 of 120 rows (split train) are unlabelled: left out" in told
    assert f"note: {files[2]}: 30 of 60 rows (split test) are unlabelled: left out" in told
    about = format_info(info(mpi.self_comm(), files[2], [1]))
    assert "unlabelled 90 rows" in about and "a shard" not in about.split("the shard")[0]


def test_explain_does_not_judge_them(files, tmp_path):
    model = hpcml.train("dual", files[2], tmp_path / "run").model
    told = hpcml.explain(model, files[2], row=["u0", "d0"], label=["sea"])
    assert "predicted, the row is unlabelled" in str(told) and "a true label" in str(told)
    assert next(each["true"] for each in told.as_dict()["scores"]) is None
    wrong = hpcml.explain(model, files[2], wrong=500, split="all").as_dict()["wrong"][0]
    assert not [each for kind in ("missed", "given") for each in wrong[kind] if each["id"].startswith("u")]


def test_a_split_without_labelled_rows(tmp_path, files):
    new = [{"text": "ship", "split": "new"}, {"text": "corn", "labels": ["farm"], "split": "old"}]
    _, path = made(tmp_path, "jsonl", new, like=files[1])
    model = hpcml.train("dual", files[1], tmp_path / "run").model
    hpcml.predict(model, path, tmp_path / "out.csv", split="new")
    assert list(csv.reader((tmp_path / "out.csv").open()))[1][1] == "sea"
    for call in (lambda: hpcml.evaluate(model, path, split="new"), lambda: hpcml.train("dual", path, tmp_path / "x", split="new")):
        with pytest.raises(ConfigError, match=r"no row of the split new is labelled; training and evaluation need labelled rows"):
            call()


def test_duplicates_do_not_compare_their_labels(tmp_path):
    same = {"text": "one two three four"}
    _, path = made(
        tmp_path, "jsonl", [{**same, "labels": ["a"]}, {**same, "labels": ["a"]}, same, {"text": "five six", "labels": ["b"]}]
    )
    found = hpcml.duplicates(path, similarity=0.9)
    assert found.n_pairs >= 1 and found.labels.values()[0] == 1.0
    assert "not counted for the labels: pairs of 1 row that nobody labelled" in str(found)


def test_datasets_made_of_a_dataset_keep_them(files, tmp_path):
    with DataFile(files[2]) as dataset:
        reduce_dataset(mpi.self_comm(), dataset, np.arange(3), tmp_path / "few.h5", False)
    assert unlabelled_rows(tmp_path / "few.h5") == unlabelled_rows(files[2]) == list(range(150, 240))


@pytest.mark.parametrize(
    ("values", "message"),
    [([0], "unlabelled: row 0 has a label"), ([160, 150], "is not above the one before it"), ([999], "is not one of the rows")],
)
def test_damage_is_found(files, tmp_path, values, message):
    path = tmp_path / "x.h5"
    path.write_bytes(files[2].read_bytes())
    edit(path, replace("unlabelled", lambda _: np.array(values, dtype="<i8")))
    with pytest.raises(DataError, match=message):
        info(mpi.self_comm(), path, [])


def test_annif(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps(each) + "\n" for each in ({"text": "ship sea", "subjects": [{"label": "a"}]}, {"text": "corn sea"}))
    )
    converted("annif", tmp_path / "a.jsonl", tmp_path / "a.h5", unindexed=True)
    assert unlabelled_rows(tmp_path / "a.h5") == [1]


def test_another_value_of_the_option(tmp_path):
    (tmp_path / "x.csv").write_text("x,l\n1,a\n")
    with pytest.raises(ConfigError, match=r"^empty_labels=other: expected none$"):
        hpcml.convert("csv", tmp_path / "x.csv", tmp_path / "y.h5", empty_labels="other", labels=["l"])
