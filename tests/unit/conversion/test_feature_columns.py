"""Feature columns: --like needs all of them, and columns that only number or name the rows are excluded."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from support.converted import check_refusal, converted, strings
from support.formats import convert_table, write_table

import hpcml
from hpcml.data.dataset import DataFile

N = 40
RNG = np.random.default_rng(1)
DATA = pd.DataFrame({"a": RNG.standard_normal(N), "b": RNG.standard_normal(N)})


def make_labels(data):
    return pd.DataFrame({"l": np.where(np.arange(len(data)) % 2, "x", "y")}, index=data.index)


def convert(source, folder, name, data, **options):
    return convert_table(source, folder, data, make_labels(data), name, labels=["l"], **options)


SOURCES = ["csv", "tsv", "parquet", "arff", "h5ad", "npz", "frame", "sparse"]
TABLES = ["csv", "tsv", "parquet", "arff", "frame"]


def features(path):
    return strings(path, "feature_names")


@pytest.mark.parametrize("source", SOURCES)
def test_missing_column_is_refused_with_like(tmp_path, source):
    like = convert(source, tmp_path, "train", DATA)
    for data, words in (
        (DATA[["a"]], ["'b'", "train.h5"]),
        (DATA.rename(columns={"b": "B"}), ["'b'", "'B'"]),
        (DATA[["b"]].rename(columns={"b": " A"}), ["'a'", "1 more", "' A'"]),
    ):
        check_refusal(lambda data=data: convert(source, tmp_path, "new", data, like=like), *words)
    assert not (tmp_path / "new.h5").exists()
    with hpcml.Dataset(convert(source, tmp_path, "new", DATA[["a"]], like=like, missing_columns_as_zero=True)) as data:
        assert np.array_equal(data.matrix().toarray(), np.c_[DATA["a"].astype(np.float32), np.zeros(N)])


@pytest.mark.parametrize("source", ["npz", "xmc", "sparse"])
def test_missing_column_without_names_is_refused_with_like(tmp_path, source):
    def make(name, width, **options):
        X, Y = sp.csr_matrix(RNG.integers(0, 3, (6, width)).astype(float)), np.arange(6) % 2
        if source == "sparse":
            return hpcml.Dataset.from_sparse(X, Y, tmp_path / f"{name}.h5", **options).file.close()
        if source == "npz":
            np.savez(tmp_path / f"{name}.npz", X=X.toarray(), y=Y)
        else:
            rows = [f"{label} " + " ".join(f"{j}:1" for j in range(width)) for label in Y]
            (tmp_path / f"{name}.xmc").write_text("\n".join([f"6 {width} 2", *rows]) + "\n")
        return converted(source, tmp_path / f"{name}.{source}", tmp_path / f"{name}.h5", **options)

    make("train", 3)
    check_refusal(lambda: make("new", 2, like=tmp_path / "train.h5"), "2 columns", "3 features")
    make("new", 2, like=tmp_path / "train.h5", missing_columns_as_zero=True)
    make("more", 4, like=tmp_path / "train.h5")
    with DataFile(tmp_path / "new.h5") as new, DataFile(tmp_path / "more.h5") as more:
        assert new.n_features == more.n_features == 3


@pytest.mark.parametrize("options", [{"split_column": "b"}, {"features": ("a",)}])
def test_column_with_another_role_counts_as_missing(tmp_path, options):
    like = convert("csv", tmp_path, "train", DATA)
    check_refusal(lambda: convert("csv", tmp_path, "new", DATA, like=like, **options), "column 'b'")


def test_undeclared_nominal_values_are_zero(tmp_path):
    def arff(name, values, rows):
        head = ["@relation r", f"@attribute colour {{{','.join(values)}}}", "@attribute n numeric", "@attribute l {x,y}", "@data"]
        (tmp_path / name).write_text("\n".join([*head, *rows]))
        return tmp_path / name

    rows = ["red,1.5,x", "blue,1,y", "red,7,x"]
    train, options = arff("a", ["red", "blue", "green"], rows), {"labels": ("l",)}
    converted("arff", train, tmp_path / "train.h5", **options)
    new = arff("b", ["blue", "red"], rows)
    report = converted("arff", new, tmp_path / "new.h5", like=tmp_path / "train.h5", **options)
    with hpcml.Dataset(tmp_path / "train.h5") as first, hpcml.Dataset(tmp_path / "new.h5") as second:
        assert report.dropped_values == 0 and (first.matrix() != second.matrix()).nnz == 0
    other = arff("c", ["black"], ["black,1.5,x"])
    check_refusal(lambda: converted("arff", other, tmp_path / "x.h5", like=tmp_path / "train.h5", **options), "colour=red")


NUMBERING = {
    "": RNG.permutation(N),
    "Unnamed: 0": RNG.permutation(N) * 1.5,
    "Unnamed: 0.1": np.arange(N),
    "__index_level_0__": RNG.permutation(N),
    "n": np.arange(N),
    "number": np.arange(N) + 1.0,
    "id": RNG.permutation(N) * 7 + 10**9,
    "ID": RNG.permutation(N),
    "index": RNG.permutation(N) * 3,
}


@pytest.mark.parametrize("source", TABLES)
def test_columns_that_number_the_rows_are_excluded(tmp_path, source):
    names = [name for name in NUMBERING if name or source != "arff"]  # an attribute of ARFF has a name
    data = DATA.assign(**{name: NUMBERING[name] for name in names})
    path = convert(source, tmp_path, "without", data)
    assert features(path) == ["a", "b"]
    with hpcml.Dataset(path) as dataset:
        assert np.array_equal(dataset.matrix().toarray(), DATA.to_numpy(np.float32))
    chosen = convert(source, tmp_path, "chosen", data, features=("a", "n", "id"))
    assert features(chosen) == features(convert(source, tmp_path, "new", data, like=chosen)) == ["a", "n", "id"]


REMAINING = {
    "some number": np.arange(N) + 2,  # not from 0 or 1
    "falling": np.arange(N)[::-1],
    "shuffled": RNG.permutation(N),
    "almost": np.r_[np.arange(N - 1), 0],
    "id": np.r_[np.arange(N - 1), 0][::-1],
    "Id": RNG.permutation(N) + 0.5,
    "Unnamed: 1": RNG.permutation(N),
    "identity": RNG.permutation(N),
}


@pytest.mark.parametrize("source", ["csv", "arff"])
def test_similar_columns_are_features(tmp_path, source):
    data = DATA.assign(**REMAINING)
    found = convert(source, tmp_path, "found", data)
    assert features(found) == list(data)
    with hpcml.Dataset(found) as made:
        assert np.array_equal(made.matrix().toarray(), data.to_numpy(np.float32))


def test_row_numbers_per_file_and_over_all_files(tmp_path):
    parts = [DATA[:15], DATA[15:16], DATA[16:]]
    for kind, begins in {"own": (0, 0, 0), "whole": (1, 16, 17), "other": (1, 0, 1)}.items():
        paths = []
        for part, begin in zip(parts, begins, strict=True):
            paths.append(tmp_path / f"{kind}{len(paths)}.csv")
            write_table("csv", paths[-1], part.assign(n=np.arange(len(part)) + begin), make_labels(part))
        converted("csv", paths, tmp_path / f"{kind}.h5", labels=("l",))
    assert features(tmp_path / "own.h5") == features(tmp_path / "whole.h5") == ["a", "b"]
    assert features(tmp_path / "other.h5") == ["a", "b", "n"]


def test_id_column_is_a_feature_if_it_is_one_in_like(tmp_path):
    data = DATA.assign(key=np.arange(N) * 2)
    like = convert("csv", tmp_path, "train", data, features=("a", "key"), id="key")
    new = convert("csv", tmp_path, "new", data, like=like, id="key")
    assert features(new) == ["a", "key"] and strings(new, "row_ids")[3] == "6"
    assert features(convert("csv", tmp_path, "x", data, id="key")) == ["a", "b"]


def test_table_without_feature_columns_is_refused(tmp_path):
    (tmp_path / "in.csv").write_text("n,l\n1,x\n2,y\n3,x\n")
    check_refusal(lambda: converted("csv", tmp_path / "in.csv", tmp_path / "x.h5", labels=("l",)), "in.csv", "--features")
