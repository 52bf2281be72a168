"""Label names and ids are the same in every format: numbers, booleans, indicators, lists, white space, repeated ids."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from support.converted import check_refusal, converted, label_sets, made, strings
from support.formats import convert_table

import hpcml
from hpcml.conversion.labels import indicator_values, missing_names, number_name, similar_names

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
