"""svmlight: round trip, legal forms, labels and refusals."""

import math

import h5py
import numpy as np
import pytest
from anndata.io import read_elem
from hypothesis import given
from hypothesis import strategies as st
from support.converted import check_refusal, converted, made, strings

from hpcml.data.svmlight import join_lines, parse_lines, parse_slowly

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
rows = st.tuples(
    st.lists(st.integers(-3, 9), max_size=3, unique=True), st.dictionaries(st.integers(0, 30), floats, max_size=5)
).filter(lambda row: row[0] or row[1])


def make(folder, text, name="data", **options):
    return made(folder, "svmlight", text, name, **options)


@given(table=st.lists(rows, min_size=1, max_size=8), zero_based=st.booleans())
def test_round_trip(table, zero_based):
    first = 0 if zero_based else 1
    lines = [
        ",".join(map(str, labels)) + "".join(f" {index + first}:{value!r}" for index, value in sorted(values.items()))
        for labels, values in table
    ]
    found = parse_slowly("\n".join(lines).encode(), zero_based, {})
    kept = [sorted((index, value) for index, value in values.items() if value != 0) for _, values in table]
    assert found.lengths.tolist() == [len(row) for row in kept]
    assert list(zip(found.indices.tolist(), found.data.tolist(), strict=True)) == [pair for row in kept for pair in row]
    assert found.label_lengths.tolist() == [len(labels) for labels, _ in table]
    assert found.labels.tolist() == [label for labels, _ in table for label in sorted(labels)]
    assert found.width == max((index + 1 for _, values in table for index in values), default=0)


def test_legal_oddities():
    found = parse_slowly(b"# comment\n\n 3:1\n2:1 5:0 # qid:1\n4,1,4 1:+2e0 # x\r\n-1\n", False, {})
    assert found.lengths.tolist() == [1, 1, 1, 0]
    assert found.indices.tolist() == [2, 1, 0]
    assert found.label_lengths.tolist() == [0, 0, 3, 1]
    assert found.width == 5


def test_last_of_many_labels_may_be_the_smallest():
    line = ",".join(map(str, [*range(1, 99), 0])) + " 1:1"
    found = parse_lines(np.frombuffer(join_lines(line.encode()), dtype=np.uint8), False, {})
    assert found.labels.tolist() == [*range(99)]


BAD = [
    "1 0:1",
    "1 3:1 2:1",
    "1 3:1 3:1",
    "1 -3:1",
    "1 1:nan",
    "1 1:-inf",
    "1 1:1e39",
    "1 1",
    "1 1:",
    "1 x:1",
    "1 2:x",
    "1 1_0:1",
    "1 1:2:3",
    "1 qid:7 1:1",
    "spam 1:1",
    "1,,2 1:1",
    "nan 1:1",
    "1 2147483648:1",
]


@pytest.mark.parametrize("line", BAD)
def test_bad_line_is_refused_with_its_number(tmp_path, line):
    check_refusal(lambda: make(tmp_path, f"1 +1:1\n\n{line}\n1 2:1\n", "in"), f"{tmp_path}/in.svmlight: line 3: ")
    assert [path.name for path in tmp_path.iterdir()] == ["in.svmlight"]


@pytest.mark.parametrize("negative", ["-1", "0"])
def test_binary_labels_are_one_column(tmp_path, negative):
    _, path = make(tmp_path, f"+1 1:2\n{negative} 2:1\n1 3:1\n", "train")
    with h5py.File(path) as file:
        assert list(file["label_names"].asstr()) == ["1"]
        assert read_elem(file["Y"]).toarray().ravel().tolist() == [1, 0, 1]
        assert file.attrs["vocabulary"] == "width:3"
    report, path = make(tmp_path, f"{negative} 1:1\n{negative} 2:1\n", "test", like=path)
    assert (report.labels, report.unknown_entries) == (1, 0)
    with h5py.File(path) as file:
        assert file["Y/indices"].shape == (0,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1.5 1:1\n2 1:1\n", "line 1: label 1.5"),
        ("\n# nothing\n1 1:1\n2,-0.25 1:1\n", "line 4: label -0.25"),
        ("1:1\n 2:1\n", ""),
        ("# none\n", ""),
        ("", ""),
    ],
)
def test_fractions_and_files_without_labels_are_refused(tmp_path, text, words):
    check_refusal(lambda: make(tmp_path, text, "in"), "in.svmlight: ", words)
    assert not (tmp_path / "in.h5").exists()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("1 1:1\n1 1:1\n", ["1"]),
        ("-1 1:1\n", ["-1"]),
        ("1 1:1\n-1,1 1:1\n", ["-1", "1"]),
        ("1 1:1\n-1 1:1\n2:1\n", ["-1", "1"]),
        ("0 1:1\n1 1:1\n", ["1"]),
        ("0 1:1\n1 1:1\n2 1:1\n", ["0", "1", "2"]),
        ("0 1:1\n1 1:1\n-1 1:1\n", ["-1", "0", "1"]),
        ("0 1:1\n1 1:1\n1:1\n", ["0", "1"]),
        ("10,9 1:1\n2 1:1\n-3 1:1\n", ["-3", "2", "9", "10"]),
    ],
)
def test_other_labels_are_columns_in_numeric_order(tmp_path, text, names):
    assert strings(make(tmp_path, text)[1], "label_names") == names


def test_matrix_of_ones_is_not_written(tmp_path):
    _, path = make(tmp_path, "1 1:1 4:1\n2 2:1\n")
    with h5py.File(path) as file:
        assert file["X/data"].id.get_storage_size() == 0
        assert read_elem(file["X"]).toarray().tolist() == [[1, 0, 0, 1], [0, 1, 0, 0]]


def test_like_keeps_width_and_labels(tmp_path):
    _, train = make(tmp_path, "1,3 1:1 3:2\n2 2:1\n", "train")
    report, path = make(tmp_path, "3,4 1:1 4:7 5:1\n5 3:0.5\n2:1\n", "test", like=train)
    assert (report.features, report.labels, report.dropped_values, report.unknown_entries) == (3, 3, 2, 2)
    with h5py.File(path) as file:
        assert read_elem(file["X"]).toarray().tolist() == [[1, 0, 0], [0, 0, 0.5], [0, 1, 0]]
        assert read_elem(file["Y"]).toarray().tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 0]]


def test_real_multilabel_file(data_dir, tmp_path):
    output = tmp_path / "bibtex.h5"
    report = converted("svmlight", data_dir / "bibtex.svm.xz", output)
    assert (report.rows, report.features, report.labels) == (7395, 1836, 159)
    with h5py.File(output) as file:
        X = read_elem(file["X"])
        assert X.nnz == report.nnz
        assert math.isclose(X.sum(), X.nnz)
        assert np.diff(X.indptr).min() > 0
