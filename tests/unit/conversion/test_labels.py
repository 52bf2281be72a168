"""Label names in every format, labels missing from the --like file, and unlabelled rows."""

import csv
import json
from decimal import Decimal

import h5py
import numpy as np
import pandas
import pandas as pd
import pytest
import scipy.sparse as sp
from support.converted import check_refusal, converted, label_sets, made, strings
from support.edits import attributes, edit, entry, remove, replace
from support.formats import convert_table

import hpcml
from hpcml import mpi
from hpcml.conversion.labels import indicator_values, missing_names, number_name, similar_names
from hpcml.data.dataset import DataFile
from hpcml.data.info import info
from hpcml.data.labels import all_label_names, load_shard_with_unknown
from hpcml.errors import ConfigError, DataError
from hpcml.reduce.files import reduce_dataset

X = [2.5, 0.5, 7.0, 1.5]  # not a row number
FORMATS = ["csv", "tsv", "parquet", "h5ad", "npz", "arff", "frame", "sparse"]


def convert(source, folder, labels, **options):
    numbers, others = pd.DataFrame({"x": X[: len(labels)]}), pd.DataFrame({"l": labels})
    return label_sets(convert_table(source, folder, numbers, others, labels=["l"], **options))


@pytest.mark.parametrize("source", FORMATS)
def test_forms_of_a_number_are_one_label(tmp_path, source):
    assert convert(source, tmp_path, [1, 2, 1]) == [["1"], ["2"], ["1"]]
    assert convert(source, tmp_path, [1.0, 2.0, 1.0]) == [["1"], ["2"], ["1"]]
    assert convert(source, tmp_path, ["+1", "2.", "1e0", "1.0"]) == [["1"], ["2"], ["1"], ["1"]]
    assert convert(source, tmp_path, ["004", "4", "4.0"]) == [["004"], ["4"], ["4.0"]]
    assert convert(source, tmp_path, ["1.0", "a", "1"]) == [["1.0"], ["a"], ["1"]]
    assert convert(source, tmp_path, [True, False, True]) == [["True"], ["False"], ["True"]]


@pytest.mark.parametrize("source", ["csv", "npz", "arff", "frame"])
def test_fractions_are_refused_by_default(tmp_path, source):
    place = {"arff": "line 6", "csv": "line 3", "tsv": "line 3"}.get(source, "row 2")
    check_refusal(lambda: convert(source, tmp_path, [1.0, 2.5, 2.0]), place, "2.5", "--labels-as-text")
    assert convert(source, tmp_path, [1.0, 2.5, 2.0], labels_as_text=True) == [["1.0"], ["2.5"], ["2.0"]]


def test_all_files_of_a_column_decide(tmp_path):
    for name, text in {"a": "x,l,m\n2,1,1\n3,2,u\n", "b": "x,l,m\n5,1.0,1.0\n1,2.0,1\n"}.items():
        (tmp_path / name).write_text(text)
    converted("csv", [tmp_path / "a", tmp_path / "b"], tmp_path / "out.h5", labels=("l",), features=("x",))
    assert label_sets(tmp_path / "out.h5") == [["1"], ["2"], ["1"], ["2"]]
    converted("csv", [tmp_path / "a", tmp_path / "b"], tmp_path / "out.h5", labels=("l", "m"), features=("x",))
    assert label_sets(tmp_path / "out.h5") == [["1"], ["2", "u"], ["1", "1.0"], ["1", "2"]]


def test_names_are_those_of_like(tmp_path):
    made(tmp_path, "csv", "x,l\n2,1\n3,2\n", "numbers", labels=("l",))
    made(tmp_path, "csv", "x,l\n2,1.0\n3,2.5\n", "texts", labels=("l",), labels_as_text=True)
    for like, new, expected, unknown in [
        ("numbers", "1.0\n5,2.0\n6,3.0", [["1"], ["2"], []], ["3"]),
        ("numbers", "1.0\n5,a\n6,3.0", [["1"], [], []], ["3.0", "a"]),
        ("texts", "1.0\n5,2.5\n6,3", [["1.0"], ["2.5"], []], ["3"]),
    ]:
        made(tmp_path, "csv", f"x,l\n4,{new}\n", "new", labels=("l",), like=tmp_path / f"{like}.h5")
        assert label_sets(tmp_path / "new.h5") == expected
        assert strings(tmp_path / "new.h5", "unknown_label_names") == unknown


@pytest.mark.parametrize(
    ("text", "name"),
    [("7", "7"), ("7.000", "7"), ("-0", "0"), (".5", ""), ("1e-1", ""), ("12e1", "120"), ("9" * 30 + ".0", "9" * 30)]
    + [(text, None) for text in ("", "007", "1_0", "٣", "nan", "inf", "0x1", "1e9999", "1 ", "1.0.0", ".", "e1", "9" * 50)],
)
def test_names_of_numbers(text, name):
    assert number_name(text) == name


@pytest.mark.parametrize("source", ["csv", "parquet", "h5ad", "arff", "frame"])
@pytest.mark.parametrize("values", [[True, False, True], [1.0, 0.0, 1.0], ["1.0", "False", "true"]])
def test_indicators_mean_the_same_in_all_formats(tmp_path, source, values):
    path = convert_table(source, tmp_path, pd.DataFrame({"x": X[:3]}), pd.DataFrame({" on": values}), indicators=[" on"])
    assert label_sets(path) == [["on"], [], ["on"]]


def test_values_of_indicators():
    found = indicator_values([1, 0.0, np.float32(1), np.True_, None, np.nan, pd.NA, "", " 0 ", "+1", "nan", "yes", 2, "0.5", [1]])
    expected = [1, 0, 1, 1, *[np.nan] * 4, 0, 1, np.nan, *[np.inf] * 4]
    np.testing.assert_array_equal(found, expected)
    assert indicator_values(np.array([True, False])).tolist() == [1, 0]


def test_bad_indicators_are_refused(tmp_path):
    for value in ("yes", "2", "0.5"):
        text = f"x,on\n1,1\n2,{value}\n"
        check_refusal(lambda text=text: made(tmp_path, "csv", text, indicators=("on",)), "data.csv: line 3: column 'on'")
    check_refusal(lambda: made(tmp_path, "csv", "x,on, on\n1,1,0\n5,0,1\n", indicators=("on", " on")), "--indicators", "'on'")


LISTS = [
    "['farm', 'sea']",
    "[]",
    "[1, 2]",
    '["a"]',
    "('a', 'b')",
    " {'a'} ",
    "['a' 'b']",
    "frozenset({'a'})",
    "array(['a'], dtype=object)",
    "c('a', 'b')",
]


@pytest.mark.parametrize(
    ("source", "text"),
    [*(("csv", text) for text in LISTS), *((source, LISTS[0]) for source in FORMATS if source not in ("csv", "arff"))],
)
def test_list_as_text_is_refused(tmp_path, source, text):
    location = "line 3" if source in ("csv", "tsv") else "row 2"
    check_refusal(lambda: convert(source, tmp_path, ["x", text, "y"]), location, "--label-separator")


def test_names_that_resemble_lists_are_labels(tmp_path):
    names = ["[1,2]triazole", "(a)", "[other]", "{x}"]
    assert convert("csv", tmp_path, ["set(x)", "c(a)", "array"]) == [["set(x)"], ["c(a)"], ["array"]]
    assert convert("csv", tmp_path, names) == [[name] for name in names]
    assert convert("csv", tmp_path, ["a", "['a']"], labels_as_text=True) == [["a"], ["['a']"]]


@pytest.mark.parametrize("source", ["csv", "npz", "frame"])
def test_white_space_around_labels_is_removed(tmp_path, source):
    assert convert(source, tmp_path, [" Sea ", "Sea", "\u00a0Sea", "farm"]) == [["Sea"], ["Sea"], ["Sea"], ["farm"]]


def test_white_space_around_labels_of_json_lines_and_label_names(tmp_path):
    _, path = made(tmp_path, "jsonl", [{"text": "a b", "labels": [" Sea ", "Sea"]}, {"text": "b", "labels": ["Sea"]}])
    assert label_sets(path) == [["Sea"], ["Sea"]]
    Y = sp.csr_matrix([[1, 0], [0, 1]])
    hpcml.Dataset.from_sparse(sp.eye(2), Y, tmp_path / "a.h5", label_names=[" a ", "b"]).file.close()
    assert strings(tmp_path / "a.h5", "label_names") == ["a", "b"]
    for names, words in (([" a", "a "], "'a'"), (["a", " "], "label 2")):
        check_refusal(lambda names=names: hpcml.Dataset.from_sparse(sp.eye(2), Y, tmp_path / "b.h5", label_names=names), words)


def test_similar_names_cause_a_warning():
    assert similar_names("x", ["a", "b", "ß", "c"]) == ""
    assert "2 labels" in similar_names("x", ["Sea", "sea", "Öl", "O\u0308l"]) and r"'O\u0308l'" in similar_names(
        "x", ["Öl", "O\u0308l"]
    )


@pytest.mark.parametrize("text", ["NA", "nan", "None"])
def test_words_for_missing_values_are_labels_with_a_warning(tmp_path, text, capsys):
    path = write(tmp_path, f"x,l\n5,1.0\n1,1\n2,{text}\n9,10\n")
    converted("csv", path, tmp_path / "a.h5", told=True, labels=("l",))
    assert label_sets(tmp_path / "a.h5") == [["1.0"], ["1"], [text], ["10"]]
    forms, missing = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert "'1' and '1.0'" in forms and f"{path}: '{text}'" in missing
    assert similar_names("x", ["7", "007", "-7", "7.5", "7.50"]) == missing_names("x", ["na", "Nan"]) == ""


def test_decimal_numbers_of_parquet(tmp_path):
    whole = [12345678901234567890, 12345678901234567891, 12345678901234567892]
    decimals = {"i": list(map(Decimal, whole)), "l": [Decimal("1.00"), None, Decimal("2.00")], "f": [Decimal("1.5"), None, None]}
    path = tmp_path / "in"
    pd.DataFrame({"x": X[:3], **decimals}).to_parquet(path)
    options = {"features": ("x",), "id": "i"}
    for as_text, names in ((False, ["1", "2"]), (True, ["1.00", "2.00"])):
        converted("parquet", path, tmp_path / "a.h5", labels=("l",), labels_as_text=as_text, **options)
        assert label_sets(tmp_path / "a.h5") == [names[:1], [], names[1:]]
        assert strings(tmp_path / "a.h5", "row_ids") == list(map(str, whole))
    check_refusal(lambda: converted("parquet", path, tmp_path / "a.h5", labels=("f",), **options), "row 1: column 'f'")
    check_refusal(
        lambda: converted("parquet", path, tmp_path / "a.h5", labels=("l",), features=("x",), id="f"), "row 1: column 'f'"
    )


def write(folder, text, name="in.csv"):
    (folder / name).write_text(text)
    return folder / name


def test_repeated_ids_are_counted_or_refused(tmp_path, capsys):
    texts = {"in.csv": "x,i,l\n5,a,p\n1,,q\n2,,p\n3,b,p\n", "2.csv": 'x,i,l\n7,"b\n",q\n8,a,q\n2,a,p\n'}
    paths, options = [write(tmp_path, text, name) for name, text in texts.items()], {"labels": ("l",), "features": ("x",)}
    converted("csv", paths, tmp_path / "a.h5", told=True, id="i", **options)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "earlier row" in line]
    assert "row 6: id 'a'" in line and "2 rows" in line
    check_refusal(lambda: converted("csv", paths, tmp_path / "b.h5", id="i", unique_ids=True, **options), "2.csv: line 4: id 'a'")
    converted("csv", paths[0], tmp_path / "b.h5", told=True, id="i", unique_ids=True, **options)
    assert "earlier row" not in capsys.readouterr().err
    check_refusal(lambda: converted("csv", paths[0], tmp_path / "c.h5", unique_ids=True, **options), "--unique-ids")
    documents = [{"id": name, "text": "a", "labels": ["x"]} for name in ("u", "v", "u")]
    check_refusal(lambda: made(tmp_path, "jsonl", documents, unique_ids=True), "data.jsonl: line 3: id 'u'")


SELF = mpi.self_comm()
SETS = [["b", "x"], ["a"], ["y", "b", "x"], [], ["y"]]
KNOWN = [["a"], ["b"], ["a", "b"], ["b"], []]


def rows_of(path):
    with h5py.File(path) as file:
        assert all(file[name].attrs["encoding-type"] == "csr_matrix" for name in ("Y", "unknown_labels") if name in file)
    return label_sets(path), label_sets(path, "unknown_labels", "unknown_label_names")


def command(source, write, **options):
    def make(folder, stem, sets, **more):
        converted(source, write(folder, stem, sets), folder / f"{stem}.h5", **options, **more)
        return folder / f"{stem}.h5"

    return make


def jsonl(folder, stem, sets):
    path = folder / f"{stem}.jsonl"
    path.write_text("".join(json.dumps({"text": "one word", "labels": labels}) + "\n" for labels in sets))
    return [path]


def table(folder, stem, sets):
    path = folder / f"{stem}.csv"
    path.write_text("number,topics\n" + "".join(f"{7 - k},{';'.join(labels)}\n" for k, labels in enumerate(sets)))
    return [path]


def matrix(folder, stem, sets):
    names = sorted({label for labels in sets for label in labels} | {"nobody"})
    Y = np.array([[name in labels for name in names] for labels in sets], dtype=np.float32)
    np.savez(folder / f"{stem}.npz", X=np.ones((len(sets), 2)), Y=Y, label_names=np.array(names))
    return [folder / f"{stem}.npz"]


def from_sparse(folder, stem, sets, **more):
    hpcml.Dataset.from_sparse(sp.csr_matrix(np.ones((len(sets), 2))), sets, folder / f"{stem}.h5", **more).file.close()
    return folder / f"{stem}.h5"


def from_frame(folder, stem, sets, **more):
    frame = pandas.DataFrame({"number": range(7, 7 - len(sets), -1), "topics": sets})
    hpcml.Dataset.from_frame(frame, folder / f"{stem}.h5", labels=["topics"], **more).file.close()
    return folder / f"{stem}.h5"


SOURCES = {
    "jsonl": command("jsonl", jsonl),
    "csv": command("csv", table, labels=("topics",), label_separator=";"),
    "npz": command("npz", matrix),
    "from_sparse": from_sparse,
    "from_frame": from_frame,
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_stores_unknown_labels(tmp_path, source):
    make = SOURCES[source]
    like = make(tmp_path, "like", KNOWN)
    assert rows_of(like) == (KNOWN, None)
    found, unknown = rows_of(make(tmp_path, "kept", SETS, like=like))
    assert found == [["b"], ["a"], ["b"], [], []]
    assert unknown == [["x"], [], ["x", "y"], [], ["y"]]
    found, unknown = rows_of(make(tmp_path, "new", SETS, like=like, new_labels=True, renamed=("a=z",)))
    with DataFile(tmp_path / "new.h5") as dataset:
        names = [name for name in dataset.label_names() if name != "nobody"]
    assert names == ["z", "b", "x", "y"]
    assert (found, unknown) == ([["b", "x"], ["z"], ["b", "x", "y"], [], ["y"]], None)


def test_rows_with_known_and_unknown_labels(tmp_path):
    rng = np.random.default_rng(0)
    sets = [[name for name in "abcdefgh" if rng.random() < 0.4] for _ in range(50)]
    like = from_sparse(tmp_path, "like", [list("aceg")] * 2)
    with DataFile(from_sparse(tmp_path, "rows", sets, like=like, splits={"odd": range(1, 50, 2)})) as dataset:
        names, shard = all_label_names(dataset), load_shard_with_unknown(SELF, dataset, "odd")
        assert names == list("acegbdfh")
        for row, labels in zip(shard.rows, sets[1::2], strict=True):
            some = shard.y_indices[shard.y_indptr[row] : shard.y_indptr[row + 1]]
            assert (np.diff(some) > 0).all()
            assert sorted(names[label] for label in some) == labels


DAMAGE = {
    "unknown_label_names": replace("unknown_label_names", lambda _: ["x"]),
    "unknown_label_names is missing": remove("unknown_label_names"),
    "damaged dataset": remove("unknown_labels"),
    "unknown_labels/indptr": replace("unknown_labels/indptr", lambda _: np.zeros(3, dtype=np.int64)),
    "row 0": entry("unknown_labels/indices", 0, 7),
    "row 1": entry("unknown_labels/indptr", 2, 0),
    "name of a known label": entry("unknown_label_names", 0, "a"),
    "unknown_labels": attributes({"shape": np.array([9, 2])}, "unknown_labels"),
}


@pytest.mark.parametrize("words", DAMAGE)
def test_damage_is_refused(tmp_path, words):
    path = from_sparse(tmp_path, "rows", SETS, like=from_sparse(tmp_path, "like", KNOWN))
    assert "2 labels unknown to the --like dataset" in info(SELF, path, [1])
    edit(path, DAMAGE[words])
    with pytest.raises(DataError, match=words):
        info(SELF, path, [1])


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
def test_damaged_list_of_unlabelled_rows_is_refused(files, tmp_path, values, message):
    path = tmp_path / "x.h5"
    path.write_bytes(files[2].read_bytes())
    edit(path, replace("unlabelled", lambda _: np.array(values, dtype="<i8")))
    with pytest.raises(DataError, match=message):
        info(mpi.self_comm(), path, [])
