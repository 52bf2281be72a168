"""Which columns are features: none is missing with --like, and none that only numbers or names the rows is used."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from support.converted import converted, strings
from support.formats import as_h5ad

import hpcml
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, DataError

N = 40
RNG = np.random.default_rng(1)
DATA = pd.DataFrame({"a": RNG.standard_normal(N), "b": RNG.standard_normal(N)})


def write(source, path, data):
    """Write a table of numbers, with labels, as the source reads it. Returns its inputs and the options to read them."""
    labels = np.where(np.arange(len(data)) % 2, "x", "y")
    if source in ("csv", "tsv"):
        data.assign(l=labels).to_csv(path, index=False, sep="," if source == "csv" else "\t")
    elif source == "parquet":
        data.assign(l=labels).to_parquet(path)
    elif source == "arff":
        rows = [",".join(map(repr, [*row, str(label)])) for row, label in zip(data.to_numpy().tolist(), labels, strict=True)]
        head = ["@relation r", *(f"@attribute '{name}' numeric" for name in data), "@attribute l {x,y}", "@data"]
        path.write_text("\n".join([*head, *rows]))
    elif source == "h5ad":
        as_h5ad(path, data.to_numpy(np.float32), pd.DataFrame({"l": labels}, index=[f"r{k}" for k in range(len(data))]), list(data))
    else:
        np.savez(path.open("wb"), X=data.to_numpy(), y=labels, feature_names=list(map(str, data)))
    return [path], {} if source == "npz" else {"labels": ("l",)}


def convert(source, folder, name, data, **options):
    """The path of the dataset of a table."""
    if source == "frame":
        labels = np.where(np.arange(len(data)) % 2, "x", "y")
        hpcml.Dataset.from_frame(data.assign(l=labels), folder / f"{name}.h5", labels="l", force=True, **options).file.close()
    elif source == "sparse":
        made = {"feature_names": list(data), **options}
        Y = np.arange(len(data)) % 2
        hpcml.Dataset.from_sparse(sp.csr_matrix(data.to_numpy()), Y, folder / f"{name}.h5", force=True, **made).file.close()
    else:
        inputs, needed = write(source, folder / f"{name}.{source}", data)
        converted(source, inputs, folder / f"{name}.h5", told=True, **needed, **options)
    return folder / f"{name}.h5"


SOURCES = ["csv", "tsv", "parquet", "arff", "h5ad", "npz", "frame", "sparse"]
TABLES = ["csv", "tsv", "parquet", "arff", "frame"]


def features(path):
    return strings(path, "feature_names")


@pytest.mark.parametrize("source", SOURCES)
def test_a_column_that_is_missing_is_named(tmp_path, source, capsys):
    like = convert(source, tmp_path, "train", DATA)
    with pytest.raises(DataError, match=r"column 'b' is missing, a feature of .*like .*train\.h5; .*missing.columns.as.zero"):
        convert(source, tmp_path, "new", DATA[["a"]], like=like)
    with pytest.raises(DataError, match=r"column 'b' is missing.*; did you mean 'B'\?"):
        convert(source, tmp_path, "new", DATA.rename(columns={"b": "B"}), like=like)
    with pytest.raises(DataError, match=r"column 'a' is missing \(and 1 more of 2 features\).*; did you mean ' A'\?"):
        convert(source, tmp_path, "new", DATA[["b"]].rename(columns={"b": " A"}), like=like)
    assert not (tmp_path / "new.h5").exists()
    capsys.readouterr()
    new = convert(source, tmp_path, "new", DATA[["a"]], like=like, missing_columns_as_zero=True)
    with hpcml.Dataset(new) as data:
        assert np.array_equal(data.matrix().toarray(), np.c_[DATA["a"].astype(np.float32), np.zeros(N)])
    if source not in ("frame", "sparse"):
        said = capsys.readouterr().err
        assert said.count("warning: ") == 1 and "column 'b' is missing, a feature of" in said and "are 0 in all rows" in said


@pytest.mark.parametrize("source", ["npz", "xmc", "sparse"])
def test_a_column_without_a_name_that_is_missing(tmp_path, source):
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
    with pytest.raises(DataError, match=r"2 columns, but .*like .*train\.h5 has 3 features; .*missing.columns.as.zero"):
        make("new", 2, like=tmp_path / "train.h5")
    make("new", 2, like=tmp_path / "train.h5", missing_columns_as_zero=True)
    make("more", 4, like=tmp_path / "train.h5")
    with DataFile(tmp_path / "new.h5") as new, DataFile(tmp_path / "more.h5") as more:
        assert new.n_features == more.n_features == 3


def test_a_column_that_another_option_names_is_missing(tmp_path):
    like = convert("csv", tmp_path, "train", DATA)
    with pytest.raises(DataError, match=r"column 'b' is missing, .*; do not name it with another option"):
        convert("csv", tmp_path, "new", DATA, like=like, split_column="b")
    with pytest.raises(DataError, match="column 'b' is missing"):
        convert("csv", tmp_path, "new", DATA, like=like, features=("a",))


def test_values_of_a_nominal_attribute_that_a_file_does_not_declare(tmp_path):
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
    with pytest.raises(DataError, match="column 'colour=red' is missing"):
        converted("arff", other, tmp_path / "x.h5", like=tmp_path / "train.h5", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing_columns_as_zero": True}, "--missing-columns-as-zero: has no effect without --like"),
        ({"missing_columns_as_zero": True, "text": ("a",), "like": "x.h5"}, "--missing-columns-as-zero: has no effect with --text"),
    ],
)
def test_zero_columns_without_effect(tmp_path, options, message):
    with pytest.raises(ConfigError, match=message):
        convert("csv", tmp_path, "new", DATA, **options)
    (tmp_path / "in.jsonl").write_text('{"text": "one", "labels": ["a"]}\n')
    converted("jsonl", tmp_path / "in.jsonl", tmp_path / "texts.h5")
    with pytest.raises(ConfigError, match=r"--missing-columns-as-zero: is for numbers, but --like .*texts\.h5 was made from texts"):
        convert("csv", tmp_path, "new", DATA, like=tmp_path / "texts.h5", missing_columns_as_zero=True)


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
@pytest.mark.parametrize("name", NUMBERING)
def test_a_column_that_numbers_the_rows_is_no_feature(tmp_path, source, name, capsys):
    if source == "arff" and not name:
        pytest.skip("an attribute of ARFF has a name")
    data = DATA.assign(**{name: NUMBERING[name]})[["a", name, "b"]]
    found = convert(source, tmp_path, "found", data)
    assert features(found) == ["a", "b"]
    with hpcml.Dataset(found) as made:
        assert np.array_equal(made.matrix().toarray(), DATA.to_numpy(np.float32))
    if source != "frame":
        said = [line for line in capsys.readouterr().err.splitlines() if "not used as features" in line]
        assert len(said) == 1 and f": {name!r} (" in said[0] and "--features" in said[0]
    chosen = convert(source, tmp_path, "chosen", data, features=("a", name or "b"))
    assert features(chosen) == ["a", name or "b"]
    if name:
        assert features(convert(source, tmp_path, "new", data, like=chosen)) == ["a", name]
    assert features(convert(source, tmp_path, "other", data, like=found)) == ["a", "b"]
    assert "values" not in capsys.readouterr().err


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


@pytest.mark.parametrize("source", TABLES)
def test_other_columns_are_features(tmp_path, source):
    data = DATA.assign(**REMAINING)
    found = convert(source, tmp_path, "found", data)
    assert features(found) == list(data)
    with hpcml.Dataset(found) as made:
        assert np.array_equal(made.matrix().toarray(), data.to_numpy(np.float32))


def test_several_files_each_with_row_numbers_of_its_own(tmp_path):
    parts = [DATA[:15], DATA[15:16], DATA[16:]]
    for kind, begins in {"own": (0, 0, 0), "whole": (1, 16, 17), "other": (1, 0, 1)}.items():
        paths = []
        for part, begin in zip(parts, begins, strict=True):
            paths.append(tmp_path / f"{kind}{len(paths)}.csv")
            write("csv", paths[-1], part.assign(n=np.arange(len(part)) + begin))
        converted("csv", paths, tmp_path / f"{kind}.h5", labels=("l",))
    assert features(tmp_path / "own.h5") == features(tmp_path / "whole.h5") == ["a", "b"]
    assert features(tmp_path / "other.h5") == ["a", "b", "n"]


def test_identifiers_beyond_the_numbers_that_floats_tell_apart(tmp_path):
    data = DATA.assign(id=np.arange(N) // 3 + 2**60)
    data["Id"] = np.where(np.arange(N) < 5, 3.0, np.arange(N) + 2.0**60)
    assert features(convert("csv", tmp_path, "found", data)) == ["a", "b", "Id"]


def test_the_column_of_id_is_a_feature_where_like_says_so(tmp_path):
    data = DATA.assign(key=np.arange(N) * 2)
    like = convert("csv", tmp_path, "train", data, features=("a", "key"), id="key")
    new = convert("csv", tmp_path, "new", data, like=like, id="key")
    assert features(new) == ["a", "key"] and strings(new, "row_ids")[3] == "6"
    assert features(convert("csv", tmp_path, "x", data, id="key")) == ["a", "b"]


def test_an_index_with_a_name_in_parquet(tmp_path, capsys):
    data = DATA.set_index(pd.Index(RNG.permutation(N), name="patient")).assign(l="x")
    data.to_parquet(tmp_path / "in")
    options = {"labels": ("l",)}
    converted("parquet", tmp_path / "in", tmp_path / "a.h5", told=True, **options)
    assert features(tmp_path / "a.h5") == ["a", "b"]
    assert "not used as features: 'patient' (index of pandas); --features" in capsys.readouterr().err
    converted("parquet", tmp_path / "in", tmp_path / "b.h5", features=("patient",), **options)
    assert features(tmp_path / "b.h5") == ["patient"]


@pytest.mark.parametrize("n_rows", [1, 2])
def test_few_rows_say_nothing_of_row_numbers(tmp_path, n_rows):
    data = DATA[:n_rows].assign(n=np.arange(n_rows))
    assert features(convert("csv", tmp_path, "found", data)) == ["a", "b", "n"]


@pytest.mark.parametrize("name", ["", "n"])
def test_no_column_is_left(tmp_path, name):
    (tmp_path / "in.csv").write_text(f"{name},l\n1,x\n2,y\n3,x\n")
    with pytest.raises(ConfigError, match=r"in\.csv: no column is left for features; name .*--features"):
        converted("csv", tmp_path / "in.csv", tmp_path / "x.h5", labels=("l",))
    assert not (tmp_path / "x.h5").exists()


def test_a_sorted_table_of_noise_stays_noise(tmp_path):
    """A class's rows stand together, so a row number would tell it."""
    data = DATA.assign(l=np.repeat(["x", "y"], N // 2))
    data.to_csv(tmp_path / "in.csv")
    converted("csv", tmp_path / "in.csv", tmp_path / "a.h5", labels=("l",))
    data[data.a < 1].to_parquet(tmp_path / "in.parquet")
    converted("parquet", tmp_path / "in.parquet", tmp_path / "b.h5", labels=("l",))
    assert features(tmp_path / "a.h5") == features(tmp_path / "b.h5") == ["a", "b"]
