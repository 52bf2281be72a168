"""Every usual format: what a file holds comes back from the dataset, compared with another library's reading of the same file."""

import gzip
import sys

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from support.converted import converted, label_sets, matrix, strings
from support.formats import as_arff, as_csv, as_h5ad, as_jsonl, as_xmc, frame, matrices

import hpcml
from hpcml.conversion import csv_file, parquet
from hpcml.errors import ConfigError, DataError, HpcmlError

TEXT = {"text": ("title", "text"), "labels": ("topics",), "label_separator": ";", "id": "id", "split_column": "split"}


def make(folder, source, *inputs, name="out.h5", **options):
    converted(source, inputs, folder / name, **options)
    return folder / name


def contents(path):
    """Everything in a file but its source."""
    with h5py.File(path) as file:
        found = {
            "": {name: str(value) for name, value in file.attrs.items() if name not in ("source", "id_column", "text_columns")}
        }
        file.visititems(lambda name, each: found.update({name: each[()].tolist() if isinstance(each, h5py.Dataset) else None}))
        return found


@pytest.mark.parametrize("kind", ["csv", "lines", "semicolons", "gz", "tsv", "parquet", "several", "one row a block"])
def test_texts_in_tables_are_those_of_json_lines(tmp_path, kind, monkeypatch):
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


def test_fields_of_tables_are_those_of_json_lines(tmp_path):
    data = frame(2, 40)
    options = {"fields": ("title=T", "text"), "whole_fields": ("title",)}
    expected = make(tmp_path, "jsonl", as_jsonl(tmp_path / "in.jsonl", data), name="expected.h5", **options)
    columns = {name: value for name, value in TEXT.items() if name != "text"}
    found = make(tmp_path, "csv", as_csv(tmp_path / "in.csv", data), **columns, **options)
    assert contents(found) == contents(expected)
    new = make(tmp_path, "csv", tmp_path / "in.csv", name="new.h5", like=found, **columns)
    assert matrix(new).tolist() == matrix(found).tolist()
    with pytest.raises(ConfigError, match=r"--text does not go with --like .*found|tells the columns title, text apart"):
        make(tmp_path, "csv", tmp_path / "in.csv", name="x.h5", like=found, text=("title",))


def test_texts_like_those_of_json_lines(tmp_path):
    expected = make(tmp_path, "jsonl", as_jsonl(tmp_path / "in.jsonl", frame(3, 40)), name="train.h5")
    other = frame(4, 20)
    path = as_csv(tmp_path / "in.csv", other)
    found = make(tmp_path, "csv", path, like=expected, **TEXT)
    assert contents(found) == contents(
        make(tmp_path, "jsonl", as_jsonl(tmp_path / "new.jsonl", other), name="new.h5", like=expected)
    )
    with pytest.raises(ConfigError, match="name the columns of texts with --text"):
        make(tmp_path, "csv", path, name="x.h5", like=expected, labels=("topics",))


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


def test_a_table_of_many_columns(tmp_path):
    """Of 20,000 columns, each of which a block of rows costs something."""
    values = np.random.default_rng(3).integers(0, 3, (40, 20_000)) / 4
    names = [f"gene {number}" for number in range(values.shape[1])]
    table_of = pd.DataFrame(values, columns=names)
    table_of["class"] = np.where(np.arange(40) % 2, "a", "b")
    table_of.to_csv(tmp_path / "wide.csv", index=False)
    found = make(tmp_path, "csv", tmp_path / "wide.csv", labels=("class",))
    assert np.array_equal(matrix(found), values)
    assert strings(found, "feature_names") == names


def test_lists_categories_and_whole_numbers_of_parquet_are_labels(tmp_path):
    data = pd.DataFrame({"x": [1.0, 2, 3], "l": [["b", "a"], [], ["a"]], "n": pd.array([3, None, 1], "Int64")})
    data["c"] = pd.Categorical(["u", None, "v"])
    data["f"], data["k"], data["t"] = np.float32([1, np.nan, 2]), [True, False, True], [["one two", "three"], None, []]
    data.to_parquet(tmp_path / "in")
    found = make(tmp_path, "parquet", tmp_path / "in", features=("x",), labels=("l", "n", "c", "f", "k"))
    assert label_sets(found) == [["1", "3", "True", "a", "b", "u"], ["False"], ["1", "2", "True", "a", "v"]]
    texts = make(tmp_path, "parquet", tmp_path / "in", text=("t",), labels=("c",), binary=True, pairs=True)
    assert strings(texts, "feature_names") == ["one", "one two", "three", "two"]
    with pytest.raises(DataError, match=r"in: row 2: column 'x': 2.5, but labels are names or whole numbers"):
        data.assign(x=[1, 2.5, 3]).to_parquet(tmp_path / "in")
        make(tmp_path, "parquet", tmp_path / "in", features=("k",), labels=("x",))


def test_numbers_like(tmp_path):
    data = frame(6, 30)
    train = make(tmp_path, "csv", as_csv(tmp_path / "in", data), name="train.h5", features=("a", "b", "long"), labels=("topics",))
    path = as_csv(tmp_path / "new", data.rename(columns={"a": "other"})[["long", "other", "b", "topics"]])
    with pytest.raises(DataError, match=r"new: column 'a' is missing, a feature of --like .*train\.h5; add it"):
        make(tmp_path, "csv", path, like=train, labels=("topics",))
    found = make(tmp_path, "csv", path, like=train, labels=("topics",), missing_columns_as_zero=True)
    assert strings(found, "feature_names") == ["a", "b", "long"]
    assert np.array_equal(matrix(found)[:, 1:], matrix(train)[:, 1:])
    assert not matrix(found)[:, 0].any()


def test_missing_numbers(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("a,l\n1,x\n,y\n")
    with pytest.raises(DataError, match=r"in\.csv: line 3: column 'a': no number, but every row needs one.*--missing-as-zero"):
        make(tmp_path, "csv", path, labels=("l",))
    assert matrix(make(tmp_path, "csv", path, labels=("l",), missing_as_zero=True)).tolist() == [[1], [0]]


def test_quotes_can_be_letters(tmp_path):
    path = tmp_path / "in.tsv"
    path.write_text('t\tl\n"one\tx\ntwo"\ty\n')
    found = make(tmp_path, "tsv", path, text=("t",), labels=("l",))
    assert label_sets(found) == [["x"], ["y"]]


def test_a_single_quotation_mark_swallows_no_rows_of_tsv(tmp_path, capsys):
    rows = ['"' * (row == 20) + f"text {row}\t{'yx'[row % 2]}" for row in range(50)]
    (tmp_path / "in.tsv").write_text("\n".join(["t\tl", *rows]) + "\n")
    found = make(tmp_path, "tsv", tmp_path / "in.tsv", text=("t",), labels=("l",), told=True)
    assert label_sets(found) == [["x"] if row % 2 else ["y"] for row in range(50)]
    assert "quotation mark" not in capsys.readouterr().err


def test_quoted_values_of_tsv_are_counted(tmp_path, capsys):
    path = tmp_path / "in.tsv"
    path.write_text('t\tu\tl\n"one"\t"\tx\n"two ""2"""\t""\ty\nthree"\t\t"z"')
    make(tmp_path, "tsv", path, text=("t",), labels=("l",), told=True)
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert "in.tsv: 4 values begin and end with a quotation mark, which is read as text" in said and "give --quotes" in said
    path.write_text('"t"\t"l"\n"one\ntwo"\t"x"\n')
    with pytest.raises(ConfigError, match="--text t: no such column; names of columns stand in quotation marks; give --quotes"):
        make(tmp_path, "tsv", path, text=("t",), labels=("l",))
    assert label_sets(make(tmp_path, "tsv", path, text=("t",), labels=("l",), quotes=True)) == [["x"]]
    path.write_text('t\tl\n"1"\t"x"\n')
    with pytest.raises(DataError, match=r"line 2: column 't': .* but expected a number; values in quotation marks need --quotes"):
        make(tmp_path, "tsv", path, labels=("l",))
    path.write_text('t\tl\n"one\ntwo"\t"x"\n')
    with pytest.raises(DataError, match=r"line 2: 1 values, but the header names 2 columns; if .* marks, give --quotes"):
        make(tmp_path, "tsv", path, text=("t",), labels=("l",))


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        ('a,t,l\n1,"one,x\n2,two three,y\n3,four",z\n', True),
        ('a,t,l\n1,"one,x\r\n3,four",z\n', True),
        ('t,l\n"one,x\nfour",z\n', True),
        ('t,l\n"a text,\nof two lines, fine",z\n"one\nmore",y\n', False),
        ('t,l\n"Dear all,\nwe are",z\n', False),
    ],
)
def test_rows_in_a_value_are_reported(tmp_path, capsys, text, warns):
    (tmp_path / "in").write_text(text, newline="")
    make(tmp_path, "csv", tmp_path / "in", text=("t",), labels=("l",), told=True)
    said = capsys.readouterr().err
    assert ("in: line 2: a value in quotation marks has lines like rows" in said) == warns


def test_rows_in_a_value_are_named_in_errors(tmp_path):
    path = tmp_path / "in"
    path.write_text('a,t,l\n1,"one,x\n' + "2,two,y\n" * (1 << 18))
    with pytest.raises(
        DataError, match=r"line 2: a row longer than 1 MiB; a quotation mark makes the row go on .*--no-quotes; shorten"
    ):
        make(tmp_path, "csv", path, text=("t",), labels=("l",), max_line_mb=1)
    for text, message in {
        'a,t,l\n1,"one,x\n2,two,y\n3,four,z"\n': "line 2: 2 values, but the header names 3 columns; .* line 4; .*--no-quotes",
        'a,t,l\n1,"one,x\n2,5" disk,y\n': "line 2: text behind the quotation mark that closes a value; .* line 3; .*--no-quotes",
        'a,t,l\n1,"one,x\n2,two,y\n': "line 2: a quotation mark opens a value that nothing closes; .* line 3; .*--no-quotes",
        "a,t,l\n1,one\n": "line 2: 2 values, but the header names 3 columns$",
    }.items():
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            make(tmp_path, "csv", path, text=("t",), labels=("l",))


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
    with pytest.raises(DataError, match=r"docs/latin: line 1: byte 3 is not UTF-8; .*--encoding latin-1"):
        make(tmp_path, "folder", folder)
    assert "größe" in strings(make(tmp_path, "folder", folder, encoding="latin-1"), "feature_names")


@pytest.mark.parametrize("labels", ["npz", "npy", "classes", "strings", "text", "dense"])
@pytest.mark.parametrize("packed", [True, False])
def test_npz(tmp_path, labels, packed):
    X, Y = matrices(1)
    sp.save_npz(tmp_path / "X.npz", X, compressed=packed)
    path, options, names = tmp_path / "Y", {}, [str(k) for k in range(Y.shape[1])]
    expected = [[names[k] for k in Y[row].indices] for row in range(Y.shape[0])]
    classes = np.asarray(Y.argmax(axis=1)).ravel()
    if labels == "npz":
        sp.save_npz(path.with_suffix(".npz"), Y, compressed=packed)
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


@pytest.mark.parametrize("form", ["bsr", "dia"])
def test_formats_of_sparse_matrices_that_are_refused(tmp_path, form):
    sp.save_npz(tmp_path / "X.npz", matrices(1)[0].asformat(form))
    with pytest.raises(
        DataError, match=rf"X\.npz: a matrix in {form} format, but expected CSR, CSC or COO; save it as \.tocsr\(\)"
    ):
        make(tmp_path, "npz", tmp_path / "X.npz")


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
    other = {"row": np.arange(3), "col": np.arange(4)}  # no COO matrix
    np.savez(tmp_path / "in.npz", X=X.toarray(), y=np.arange(X.shape[0]) % 3, **other)
    found = make(tmp_path, "npz", tmp_path / "in.npz")
    assert np.array_equal(matrix(found), X.toarray())
    assert label_sets(found) == [[str(k % 3)] for k in range(X.shape[0])]


def test_values_of_one_place_are_added_up_and_sorted(tmp_path):
    X = sp.csr_matrix(([1.0, 2, 3, 4, -4], [3, 1, 3, 0, 0], [0, 3, 5]), (2, 5))
    sp.save_npz(tmp_path / "X.npz", X)
    np.save(tmp_path / "y.npy", [0, 1])
    assert matrix(make(tmp_path, "npz", tmp_path / "X.npz", tmp_path / "y.npy")).tolist() == X.toarray().tolist()


@pytest.mark.parametrize("form", ["csr", "dense", "float64"])
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
        X if form == "csr" else X.toarray().astype("f4" if form == "dense" else "f8"),
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


def test_arff(tmp_path):
    from scipy.io import arff

    path, options = as_arff(tmp_path / "in.arff", False), {"labels": ("class",), "indicators": ("sea", "farm")}
    found = make(tmp_path, "arff", path, **options)
    plain = tmp_path / "plain.arff"
    plain.write_text(path.read_text().replace("'dark green'", "dark_green"))  # scipy does not find values in quotes
    data, _ = arff.loadarff(plain)  # another reader
    colours = np.array([value.decode().replace("_", " ") for value in data["colour"]])
    expected = [data["the width"], *((colours == colour) for colour in ("red", "dark green", "blue")), data["on"].astype(float)]
    assert strings(found, "feature_names") == ["the width", "colour=red", "colour=dark green", "colour=blue", "on"]
    assert np.array_equal(matrix(found), np.array(expected, dtype=np.float32).T)
    assert label_sets(found) == [
        sorted([row["class"].decode(), *(name for name in ("sea", "farm") if row[name] == b"1")]) for row in data
    ]
    sparse = make(tmp_path, "arff", as_arff(tmp_path / "sparse.arff", True), name="sparse.h5", **options)
    assert contents(sparse) == contents(found)


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
    ("message", "arguments"),
    [
        ("Y has 3 entries, but X has 37 rows", {"Y": [1, 2, 3]}),
        ("feature_names has 1 names, but X has 11 columns", {"feature_names": ["a"]}),
        ("two labels have the name 'x'", {"label_names": ["x"] * 5}),
        ("row 4: value nan", {"X": np.where(np.arange(37 * 11).reshape(37, 11) == 36, np.nan, 1)}),
        ("row 2: 0.5, but a label is a name or a whole number|row 2: column 'Y': 0.5", {"Y": [1, 0.5] + [1] * 35}),
        ("splits: 'a' has rows beyond 0 to 36", {"splits": {"a": [37]}}),
        ("split 'a,b' cannot be used", {"splits": ["a,b"] * 37}),
        ("npz has no option 'nonsense'", {"nonsense": 1}),
        ("npz has no option 'min_df'", {"min_df": 2}),
    ],
)
def test_bad_rows_in_memory(tmp_path, message, arguments):
    X, Y = matrices(6)
    with pytest.raises(HpcmlError, match=message):
        hpcml.Dataset.from_sparse(**{"X": X, "Y": Y, "path": tmp_path / "x.h5"} | arguments)
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
    with pytest.raises(DataError, match="the frame: column 'title': expected numbers"):
        hpcml.Dataset.from_frame(data, tmp_path / "x.h5", features="title", labels="topics")


def test_a_split_with_a_comma_in_its_name_is_that_split(tmp_path):
    X, Y = matrices(8)
    hpcml.Dataset.from_sparse(X, Y, tmp_path / "a.h5", splits={"a": [1], "b": [5, 3], "c": [0]}).file.close()
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["splits/a,b"] = np.array([7], dtype=np.int64)
    with hpcml.Dataset(tmp_path / "a.h5") as data:
        assert data.split("a,b").tolist() == [7]
        assert data.split("b, a").tolist() == data.split("b,a,b").tolist() == [1, 3, 5]
        assert data.split("c,all").size == X.shape[0]
        with pytest.raises(ConfigError, match="no split named 'd'; it has: a, a,b, b, c, all"):
            data.split("c,d")


def test_a_package_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # its import fails
    (tmp_path / "in").write_text("a,l\n1,x\n")
    with pytest.raises(ConfigError, match=r"needs the package .*; install it: pip install 'hpcml\[tables\]'"):
        make(tmp_path, "parquet", tmp_path / "in", labels=("l",))
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a,l\n1,x\n2,"x"y\n', r"line 3: text behind the quotation mark that closes a value"),
        ("a,l\n1,x\n1_0,y\n", r"line 3: column 'a': '1_0', but expected a number"),
        ("a,l\n1,x\n\u0663,y\n", r"line 3: column 'a': .*, but expected a number"),
        ('a,l\n1,x\n"-1.000,5",y\n', r"line 3: column 'a': '-1\.000,5', but expected a number; write a decimal point"),
        ("a,l\n1,x\nNA,y\n", r"line 3: column 'a': 'NA', but expected a number; leave a missing value empty"),
        ("sep=,\na,l\n1,x\n", r"line 1: 'sep=,', which only Excel reads; remove the line"),
        ("sep=;\na;l\n1;x\n", r"line 1: 'sep=;', which only Excel reads; remove the line"),
        ("a,l\n1,x\n2,y\rz\n", r"line 3: a carriage return without a line feed"),
        ('a,l\n\n1,"x\n\ny"\n,z\n', r"line 6: column 'a': no number"),
    ],
)
def test_rows_of_csv_that_are_refused(tmp_path, text, message):
    (tmp_path / "in").write_bytes(text.encode())
    with pytest.raises(DataError, match=rf"in: {message}"):
        make(tmp_path, "csv", tmp_path / "in", labels=("l",))


def test_a_quotation_mark_in_the_middle_of_a_value_is_a_character(tmp_path):
    (tmp_path / "in").write_text('a,l\n1,5" disk\n2,"say ""so"""\n')
    assert label_sets(make(tmp_path, "csv", tmp_path / "in", labels=("l",))) == [['5" disk'], ['say "so"']]


def test_an_array_by_columns(tmp_path):
    X, _ = matrices(2)
    np.save(tmp_path / "X.npy", np.asfortranarray(X.toarray()))
    np.save(tmp_path / "y.npy", np.arange(X.shape[0]) % 2)
    assert np.array_equal(matrix(make(tmp_path, "npz", tmp_path / "X.npy", tmp_path / "y.npy")), X.toarray())
