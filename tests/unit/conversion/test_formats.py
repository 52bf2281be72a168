"""Every format: the dataset has the content of the file, as another library reads it."""

import gzip
import sys

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from support.converted import check_refusal, converted, label_sets, matrix, strings
from support.formats import as_csv, as_h5ad, as_jsonl, as_xmc, frame, matrices

import hpcml
from hpcml.conversion import csv_file, parquet

TEXT = {"text": ("title", "text"), "labels": ("topics",), "label_separator": ";", "id": "id", "split_column": "split"}


def make(folder, source, *inputs, name="out.h5", **options):
    converted(source, inputs, folder / name, **options)
    return folder / name


def contents(path):
    with h5py.File(path) as file:
        found = {
            "": {name: str(value) for name, value in file.attrs.items() if name not in ("source", "id_column", "text_columns")}
        }
        file.visititems(lambda name, each: found.update({name: each[()].tolist() if isinstance(each, h5py.Dataset) else None}))
        return found


@pytest.mark.parametrize("kind", ["lines", "semicolons", "gz", "tsv", "parquet", "several", "one row a block"])
def test_texts_in_tables_equal_json_lines(tmp_path, kind, monkeypatch):
    data = frame(1, 50)
    expected = make(tmp_path, "jsonl", as_jsonl(tmp_path / "in.jsonl", data), name="expected.h5", pairs=True, min_df=2)
    options, path = TEXT | {"pairs": True, "min_df": 2}, tmp_path / "in"
    if kind == "parquet":
        monkeypatch.setattr(parquet, "ROWS", 4)
        data.to_parquet(path, row_group_size=9)
        found = make(tmp_path, "parquet", path, **options)
    elif kind == "several":
        first, second = as_csv(tmp_path / "1", data[:20]), as_csv(tmp_path / "2", data[20:][data.columns[::-1]])
        found = make(tmp_path, "csv", first, second, **options)
    elif kind == "semicolons":
        found = make(tmp_path, "csv", as_csv(path, data, ";"), delimiter=";", **options)
    elif kind == "tsv":
        found = make(tmp_path, "tsv", as_csv(path, data, "\t"), quotes=True, **options)
    else:
        if kind == "one row a block":
            monkeypatch.setattr(csv_file, "CSV_BLOCK", 5)
        as_csv(path, data, end="\n" if kind == "lines" else "\r\n")
        if kind == "gz":
            path.write_bytes(gzip.compress(path.read_bytes()))
        found = make(tmp_path, "csv", path, **options)
    assert contents(found) == contents(expected)


def test_fields_of_tables_equal_json_lines(tmp_path):
    data = frame(2, 40)
    options = {"fields": ("title=T", "text"), "whole_fields": ("title",)}
    expected = make(tmp_path, "jsonl", as_jsonl(tmp_path / "in.jsonl", data), name="expected.h5", **options)
    columns = {name: value for name, value in TEXT.items() if name != "text"}
    found = make(tmp_path, "csv", as_csv(tmp_path / "in.csv", data), **columns, **options)
    assert contents(found) == contents(expected)
    new = make(tmp_path, "csv", tmp_path / "in.csv", name="new.h5", like=found, **columns)
    assert matrix(new).tolist() == matrix(found).tolist()
    check_refusal(lambda: make(tmp_path, "csv", tmp_path / "in.csv", name="x.h5", like=found, text=("title",)), "--text", "--like")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_numbers_in_tables(tmp_path, kind):
    data, path = frame(5, 60), tmp_path / "in"
    if kind == "csv":
        as_csv(path, data)
        data = pd.read_csv(path, keep_default_na=False)  # another reading of the same file
    else:
        data.to_parquet(path)
        data = pd.read_parquet(path)
    found = make(tmp_path, kind, path, features=("long", "a", "b"), labels=("topics",), label_separator=";", indicators=("toxic",))
    assert np.array_equal(matrix(found), data[["long", "a", "b"]].to_numpy(np.float32))
    assert strings(found, "feature_names") == ["long", "a", "b"]
    topics = [
        sorted([*row.topics.split(";"), *(["toxic"] if row.toxic else [])]) if row.topics else [] for row in data.itertuples()
    ]
    assert label_sets(found) == topics
    assert strings(found, "row_ids") is None
    part = data[["a", "b", "long", "toxic", "id"]]
    part.to_csv(path, index=False) if kind == "csv" else part.to_parquet(path)
    found = make(tmp_path, kind, path, labels=("toxic",), id="id", test_share=0.3)
    assert strings(found, "feature_names") == ["a", "b", "long"]
    assert strings(found, "label_names") == ["0", "1"]
    assert strings(found, "row_ids") == data.id.tolist()


def test_lists_categories_and_whole_numbers_of_parquet_are_labels(tmp_path):
    data = pd.DataFrame({"x": [1.0, 2, 3], "l": [["b", "a"], [], ["a"]], "n": pd.array([3, None, 1], "Int64")})
    data["c"] = pd.Categorical(["u", None, "v"])
    data["f"], data["k"], data["t"] = np.float32([1, np.nan, 2]), [True, False, True], [["one two", "three"], None, []]
    data.to_parquet(tmp_path / "in")
    found = make(tmp_path, "parquet", tmp_path / "in", features=("x",), labels=("l", "n", "c", "f", "k"))
    assert label_sets(found) == [["1", "3", "True", "a", "b", "u"], ["False"], ["1", "2", "True", "a", "v"]]
    texts = make(tmp_path, "parquet", tmp_path / "in", text=("t",), labels=("c",), binary=True, pairs=True)
    assert strings(texts, "feature_names") == ["one", "one two", "three", "two"]
    data.assign(x=[1, 2.5, 3]).to_parquet(tmp_path / "in")
    check_refusal(lambda: make(tmp_path, "parquet", tmp_path / "in", features=("k",), labels=("x",)), "in: row 2: column 'x'")


def test_quotation_marks_in_tsv(tmp_path, capsys):
    path, text = tmp_path / "in.tsv", {"text": ("t",), "labels": ("l",)}
    path.write_text('t\tu\tl\n"one"\t"\tx\n"two ""2"""\t""\ty\nthree"\t\t"z"')
    assert label_sets(make(tmp_path, "tsv", path, told=True, **text)) == [["x"], ["y"], ['"z"']]
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert "in.tsv: 4 values" in warning and "--quotes" in warning
    path.write_text('"t"\t"l"\n"one\ntwo"\t"x"\n')
    assert label_sets(make(tmp_path, "tsv", path, quotes=True, **text)) == [["x"]]
    check_refusal(lambda: make(tmp_path, "tsv", path, **text), "--text t", "--quotes")
    path.write_text('t\tl\n"one\ntwo"\t"x"\n')
    check_refusal(lambda: make(tmp_path, "tsv", path, **text), "line 2", "--quotes")


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        ('a,t,l\n1,"one,x\n2,two three,y\n3,four",z\n', True),
        ('a,t,l\n1,"one,x\r\n3,four",z\n', True),
        ('t,l\n"a text,\nof two lines, fine",z\n"one\nmore",y\n', False),
    ],
)
def test_rows_in_a_quoted_value_cause_a_warning(tmp_path, capsys, text, warns):
    (tmp_path / "in").write_text(text, newline="")
    make(tmp_path, "csv", tmp_path / "in", text=("t",), labels=("l",), told=True)
    assert ("warning: " in capsys.readouterr().err) == warns


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('a,t,l\n1,"one,x\n2,two,y\n3,four,z"\n', ["line 2", "line 4", "--no-quotes"]),
        ('a,t,l\n1,"one,x\n2,5" disk,y\n', ["line 2", "line 3", "--no-quotes"]),
        ('a,t,l\n1,"one,x\n2,two,y\n', ["line 2", "line 3", "--no-quotes"]),
        ('a,t,l\n1,"one,x\n' + "2,two,y\n" * (1 << 17), ["line 2", "1 MiB", "--no-quotes", "--max-line-mb"]),
    ],
)
def test_unclosed_quotation_mark_is_refused_with_its_lines(tmp_path, text, words):
    (tmp_path / "in").write_text(text)
    check_refusal(lambda: make(tmp_path, "csv", tmp_path / "in", text=("t",), labels=("l",), max_line_mb=1), *words)


def test_folder(tmp_path):
    folder = tmp_path / "docs"
    texts = {"train/sea/a.txt": "ship", "train/sea/b": "port", "test/farm/x/c.txt": "corn", "train/.git/d": "no", "test/e": "wheat"}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    found = make(tmp_path, "folder", folder, binary=True)
    assert strings(found, "row_ids") == sorted(name for name in texts if ".git" not in name)
    assert label_sets(found) == [[name.rpartition("/")[0]] for name in strings(found, "row_ids")]
    found = make(tmp_path, "folder", folder, folder_splits=True)
    with h5py.File(found) as file:
        splits = {name: file["splits"][name][:].tolist() for name in file["splits"]}
    ids = strings(found, "row_ids")
    assert {name: [ids[row] for row in rows] for name, rows in splits.items()} == {
        "test": ["test/e", "test/farm/x/c.txt"],
        "train": ["train/sea/a.txt", "train/sea/b"],
    }
    assert dict(zip(ids, label_sets(found), strict=True))["test/farm/x/c.txt"] == ["farm/x"]
    (folder / "latin").write_bytes("Größe".encode("latin-1"))
    check_refusal(lambda: make(tmp_path, "folder", folder), "docs/latin: line 1", "--encoding")
    assert "größe" in strings(make(tmp_path, "folder", folder, encoding="latin-1"), "feature_names")


@pytest.mark.parametrize("labels", ["npz", "npy", "classes", "strings", "text", "dense"])
def test_npz(tmp_path, labels):
    X, Y = matrices(1)
    sp.save_npz(tmp_path / "X.npz", X, compressed=labels == "npz")
    path, options, names = tmp_path / "Y", {}, [str(k) for k in range(Y.shape[1])]
    expected = [[names[k] for k in Y[row].indices] for row in range(Y.shape[0])]
    classes = np.asarray(Y.argmax(axis=1)).ravel()
    if labels == "npz":
        sp.save_npz(path.with_suffix(".npz"), Y, compressed=labels == "npz")
        path = path.with_suffix(".npz")
    elif labels == "text":
        path.write_text("".join(" | ".join(row) + "\n" for row in expected))
        options["label_separator"] = "|"
    else:
        array = {"npy": Y.toarray(), "classes": classes, "strings": classes.astype(str), "dense": Y.toarray().astype(float)}[labels]
        np.save(path.with_suffix(".npy"), array)
        path = path.with_suffix(".npy")
        expected = [[str(k)] for k in classes] if array.ndim == 1 else expected
    found = make(tmp_path, "npz", tmp_path / "X.npz", path, **options)
    assert np.array_equal(matrix(found), sp.load_npz(tmp_path / "X.npz").toarray())
    assert label_sets(found) == expected


@pytest.mark.parametrize("form", ["csc", "coo", "csr"])
def test_formats_of_sparse_matrices(tmp_path, form):
    X, Y = matrices(1)
    rows, columns = np.append(X.nonzero()[0], [7, 7, 0]), np.append(X.nonzero()[1], [9, 9, 9])  # entries to add up
    X = sp.coo_matrix((np.append(X.data, [1, 2, 3]), (rows, columns)), X.shape)
    assert X.nnz > X.tocsr().nnz
    sp.save_npz(tmp_path / "X.npz", X.asformat(form))
    sp.save_npz(tmp_path / "Y.npz", sp.coo_array(Y).asformat(form))
    found = make(tmp_path, "npz", tmp_path / "X.npz", tmp_path / "Y.npz")
    assert np.array_equal(matrix(found), X.toarray().astype(np.float32)) and np.array_equal(matrix(found, "Y"), Y.toarray())
    parts = {f"{name}_{part}": value for name in "XY" for part, value in np.load(tmp_path / f"{name}.npz").items()}
    np.savez(tmp_path / "both.npz", **parts)
    assert contents(make(tmp_path, "npz", tmp_path / "both.npz", name="both.h5")) == contents(found)


def test_one_npz_with_everything(tmp_path):
    X, Y = matrices(2)
    ids, splits = [f"row {k}" for k in range(X.shape[0])], np.array(["train", "test", ""] * 20)[: X.shape[0]]
    parts = {f"{name}_{part}": getattr(M, part) for name, M in (("X", X), ("Y", Y)) for part in ("indices", "indptr", "shape")}
    names = [f"f{k}" for k in range(X.shape[1])]
    np.savez(
        tmp_path / "in.npz", X_data=X.data, **parts, feature_names=names, label_names=list("abcde"), row_ids=ids, splits=splits
    )
    found = make(tmp_path, "npz", tmp_path / "in.npz")
    assert np.array_equal(matrix(found), X.toarray())
    assert np.array_equal(matrix(found, "Y"), Y.toarray())
    assert [strings(found, name) for name in ("feature_names", "label_names", "row_ids")] == [names, list("abcde"), ids]
    with h5py.File(found) as file:
        assert file["splits/test"][:].tolist() == list(range(1, X.shape[0], 3))
    check_refusal(lambda: make(tmp_path, "npz", tmp_path / "in.npz", test_share=0.3), "--test-share 0.3", "train")
    with h5py.File(make(tmp_path, "npz", tmp_path / "in.npz", ignore_splits=True)) as file:
        assert "splits" not in file
    other = {"row": np.arange(3), "col": np.arange(4)}  # no COO matrix
    np.savez(tmp_path / "in.npz", X=X.toarray(), y=np.arange(X.shape[0]) % 3, **other)
    found = make(tmp_path, "npz", tmp_path / "in.npz")
    assert np.array_equal(matrix(found), X.toarray())
    assert label_sets(found) == [[str(k % 3)] for k in range(X.shape[0])]
    check_refusal(lambda: make(tmp_path, "npz", tmp_path / "in.npz", ignore_splits=True), "--ignore-splits")


@pytest.mark.parametrize("form", ["csr", "float64"])
def test_h5ad(tmp_path, form):
    import anndata

    X, _ = matrices(3)
    n = X.shape[0]
    obs = pd.DataFrame(
        {"kind": pd.Categorical(["T cell", "B cell", None] * n)[:n], "tissue": ["lung;skin", "", "skin"] * 12 + ["x"]}
    )
    obs["batch"], obs["dead"], obs["part"] = np.arange(n) % 2, np.arange(n) % 5 == 0, ["train", "test"] * 18 + ["train"]
    obs.index = [f"cell {k}" for k in range(n)]
    path = as_h5ad(
        tmp_path / "in.h5ad",
        X if form == "csr" else X.toarray().astype("f8"),
        obs,
        [f"gene {k}" for k in range(X.shape[1])],
    )
    found = make(tmp_path, "h5ad", path, labels=("kind", "tissue"), indicators=("dead",), label_separator=";", split_column="part")
    data = anndata.read_h5ad(path)  # another reading of the same file
    assert np.array_equal(matrix(found), np.asarray(data.X.todense() if form == "csr" else data.X, dtype=np.float32))
    assert strings(found, "row_ids") == data.obs_names.tolist()
    assert strings(found, "feature_names") == data.var_names.tolist()
    assert label_sets(found) == [
        sorted(
            [
                *([row.kind] if isinstance(row.kind, str) else []),
                *filter(None, row.tissue.split(";")),
                *(["dead"] if row.dead else []),
            ]
        )
        for row in data.obs.itertuples()
    ]
    assert label_sets(make(tmp_path, "h5ad", path, labels=("batch",))) == [[str(k)] for k in data.obs.batch]


def test_xmc(tmp_path):
    X, Y = matrices(4)
    found = make(tmp_path, "xmc", as_xmc(tmp_path / "in.txt", X, Y))
    assert np.array_equal(matrix(found), X.toarray())
    assert np.array_equal(matrix(found, "Y"), Y.toarray())
    (tmp_path / "names").write_text("".join(f"label {k}\n" for k in range(5)))
    found = make(tmp_path, "xmc", tmp_path / "in.txt", label_names=tmp_path / "names")
    assert strings(found, "label_names") == [f"label {k}" for k in range(5)]


def test_from_sparse(tmp_path):
    X, Y = matrices(5)
    n, names = X.shape[0], [f"f{k}" for k in range(X.shape[1])]
    splits = {"train": np.arange(n) % 3 > 0, "test": np.flatnonzero(np.arange(n) % 3 == 0)}
    with hpcml.Dataset.from_sparse(
        X, Y, tmp_path / "a.h5", feature_names=names, label_names=list("abcde"), ids=np.arange(n), splits=splits
    ) as data:
        assert (data.sizes, data.label_names()) == ((n, X.nnz, Y.nnz), list("abcde"))
        assert data.split("test").tolist() == splits["test"].tolist()
        assert data.split("test,train").tolist() == list(range(n))
    assert np.array_equal(matrix(tmp_path / "a.h5"), X.toarray())
    assert np.array_equal(matrix(tmp_path / "a.h5", "Y"), Y.toarray())
    assert strings(tmp_path / "a.h5", "row_ids") == [str(k) for k in range(n)]
    lists = [[f"l{k}" for k in Y[row].indices] for row in range(n)]
    hpcml.Dataset.from_sparse(X.toarray(), lists, tmp_path / "b.h5", test_share=0.3, seed=1)
    assert label_sets(tmp_path / "b.h5") == lists
    hpcml.Dataset.from_sparse(X, np.arange(n) % 4, tmp_path / "c.h5")
    assert label_sets(tmp_path / "c.h5") == [[str(k % 4)] for k in range(n)]


@pytest.mark.parametrize(
    ("word", "arguments"),
    [
        ("Y", {"Y": [1, 2, 3]}),
        ("feature_names", {"feature_names": ["a"]}),
        ("'x'", {"label_names": ["x"] * 5}),
        ("row 4", {"X": np.where(np.arange(37 * 11).reshape(37, 11) == 36, np.nan, 1)}),
        ("row 2", {"Y": [1, 0.5] + [1] * 35}),
        ("splits", {"splits": {"a": [37]}}),
        ("'a,b'", {"splits": ["a,b"] * 37}),
        ("test_share=0.3", {"splits": ["a"] * 37, "test_share": 0.3}),
        ("'min_df'", {"min_df": 2}),
    ],
)
def test_bad_rows_in_memory_are_refused(tmp_path, word, arguments):
    X, Y = matrices(6)
    check_refusal(lambda: hpcml.Dataset.from_sparse(**{"X": X, "Y": Y, "path": tmp_path / "x.h5"} | arguments), word)
    assert not list(tmp_path.iterdir())


def test_from_frame(tmp_path):
    data = frame(7, 40)
    expected = make(tmp_path, "csv", as_csv(tmp_path / "in.csv", data), **TEXT, min_df=2)
    hpcml.Dataset.from_frame(data, tmp_path / "frame.h5", **TEXT | {"text": ["title", "text"], "labels": "topics", "min_df": 2})
    assert contents(tmp_path / "frame.h5") == contents(expected)
    hpcml.Dataset.from_frame(data, tmp_path / "numbers.h5", features=["a", "long"], indicators="toxic")
    assert np.array_equal(matrix(tmp_path / "numbers.h5"), data[["a", "long"]].to_numpy(np.float32))
    lists = data.assign(topics=[topics.split(";") for topics in data.topics])
    hpcml.Dataset.from_frame(lists, tmp_path / "lists.h5", features=["a"], labels="topics")
    assert label_sets(tmp_path / "lists.h5") == [sorted(filter(None, topics.split(";"))) for topics in data.topics]
    check_refusal(
        lambda: hpcml.Dataset.from_frame(data, tmp_path / "x.h5", features="title", labels="topics"), "the frame: column 'title'"
    )


def test_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # its import fails
    (tmp_path / "in").write_text("a,l\n1,x\n")
    check_refusal(lambda: make(tmp_path, "parquet", tmp_path / "in", labels=("l",)), "hpcml[tables]")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ('a,l\n1,x\n2,"x"y\n', "line 3"),
        ("a,l\n1,x\n1_0,y\n", "line 3: column 'a'"),
        ("a,l\n1,x\n\u0663,y\n", "line 3: column 'a'"),
        ('a,l\n1,x\n"-1.000,5",y\n', "line 3: column 'a'"),
        ("a,l\n1,x\nNA,y\n", "line 3: column 'a'"),
        ("a,l\n1,x\n,y\n", "line 3: column 'a'"),
        ("sep=;\na;l\n1;x\n", "line 1"),
        ("a;l\n1;x\n", "--delimiter ';'"),
        ("a\tl\n1\tx\n", "convert tsv"),
        ("a,l\n1,x\n2,y\rz\n", "line 3"),
        ('a,l\n\n1,"x\n\ny"\n,z\n', "line 6: column 'a'"),
    ],
)
def test_bad_csv_is_refused_with_its_line(tmp_path, text, location):
    (tmp_path / "in").write_bytes(text.encode())
    check_refusal(lambda: make(tmp_path, "csv", tmp_path / "in", labels=("l",)), "in: ", location)


@pytest.mark.parametrize(
    ("options", "n_warnings"), [({}, 2), ({"split_column": "split"}, 1), ({"split_column": "split", "label_separator": ";"}, 0)]
)
def test_unused_split_column_and_separator_cause_warnings(tmp_path, capsys, options, n_warnings):
    (tmp_path / "in").write_text("text,labels,split\nships and ports,sea; trade,train\nfields of corn,farm,train\n")
    make(tmp_path, "csv", tmp_path / "in", told=True, text=("text",), labels=("labels",), **options)
    assert capsys.readouterr().err.count("warning: ") == n_warnings


def test_quotation_mark_inside_a_value(tmp_path):
    (tmp_path / "in").write_text('a,l\n1,5" disk\n2,"say ""so"""\n')
    assert label_sets(make(tmp_path, "csv", tmp_path / "in", labels=("l",))) == [['5" disk'], ['say "so"']]


def test_column_major_array(tmp_path):
    X, _ = matrices(2)
    np.save(tmp_path / "X.npy", np.asfortranarray(X.toarray()))
    np.save(tmp_path / "y.npy", np.arange(X.shape[0]) % 2)
    assert np.array_equal(matrix(make(tmp_path, "npz", tmp_path / "X.npy", tmp_path / "y.npy")), X.toarray())
