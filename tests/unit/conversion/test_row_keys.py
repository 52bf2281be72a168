"""Splits: random, stratified and by group; a row keeps its split when other rows are added."""

import json
import time

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from support.converted import check_refusal, converted
from support.make import dataset, random_data
from support.training import train

import hpcml
from hpcml import mpi
from hpcml.conversion.split import draw_test_rows, split
from hpcml.data.dataset import DataFile
from hpcml.data.row_keys import name_key, string_keys
from hpcml.data.stratify import assign, divide
from hpcml.errors import ConfigError, DataError
from hpcml.log import Log
from hpcml.model import training_keys
from hpcml.model.open import open_model

RNG = np.random.default_rng(3)
WORDS = [f"word{n}" for n in range(60)]


def document(number, **more):
    draw = np.random.default_rng(number)
    return {"text": " ".join(draw.choice(WORDS, 12)), "labels": [f"label{number % 3}"], **more}


def write_jsonl(path, documents):
    path.write_text("".join(json.dumps(each) + "\n" for each in documents))
    return path


def write_csv(path, documents):
    table = pd.DataFrame([{"id": each.get("id"), "text": each["text"], "label": each["labels"][0]} for each in documents])
    table.to_csv(path, index=False)
    return path


def write_svmlight(path, documents):
    lines = []
    for each in documents:
        words = sorted({int(word.removeprefix("word")) + 1 for word in each["text"].split()})
        lines.append(f"{each['labels'][0].removeprefix('label')} {' '.join(f'{word}:1' for word in words)}\n")
    path.write_text("".join(lines))
    return path


def divided(path, test_share, valid_share=None, stratified=False, seed=0):
    split(mpi.self_comm(), path, None, test_share, stratified, seed, True, Log(1), valid_share)


def sides(path):
    with DataFile(path) as data:
        keys, out = data.map("row_keys").tolist(), {}
        for name in data.split_names():
            out |= {keys[row]: name for row in data.split(name).tolist()}
        return out


SOURCES = {
    "jsonl": (write_jsonl, {}),
    "csv": (write_csv, {"text": ["text"], "labels": ["label"], "id": "id"}),
    "svmlight": (write_svmlight, {}),
}


@pytest.mark.parametrize("with_ids", [True, False])
@pytest.mark.parametrize("source", SOURCES)
def test_no_row_changes_its_split_when_others_are_inserted(tmp_path, source, with_ids):
    write, options = SOURCES[source]
    if source == "csv" and not with_ids:
        options = {name: value for name, value in options.items() if name != "id"}
    old = [document(n, **({"id": f"d{n}"} if with_ids else {})) for n in range(120)]
    new = [document(1000 + n, **({"id": f"n{n}"} if with_ids else {})) for n in range(40)]
    for name, documents in {"old": old, "both": new + old[::-1]}.items():
        converted(source, write(tmp_path / f"{name}.txt", documents), tmp_path / f"{name}.h5", test_share=0.3, seed=5, **options)
    before, after = sides(tmp_path / "old.h5"), sides(tmp_path / "both.h5")
    assert before.items() <= after.items() and len(after) > len(before) > 100
    assert 0.15 < list(before.values()).count("test") / len(before) < 0.45


def test_rows_of_the_like_dataset_keep_its_splits(tmp_path):
    old = write_jsonl(tmp_path / "old.jsonl", [document(n, id=f"d{n}") for n in range(200)])
    converted("jsonl", old, tmp_path / "old.h5")
    divided(tmp_path / "old.h5", 0.4, 0.2, stratified=True, seed=9)
    both = write_jsonl(tmp_path / "both.jsonl", [document(n, id=f"d{n}") for n in [*range(900, 950), *range(200)]])
    converted("jsonl", both, tmp_path / "both.h5", like=tmp_path / "old.h5", test_share=0.1, seed=1)
    before, after = sides(tmp_path / "old.h5"), sides(tmp_path / "both.h5")
    assert before.items() <= after.items()
    new = [side for key, side in after.items() if key not in before]
    assert len(new) == 50 and 0 < new.count("test") < 15 and "valid" not in new


def grouped():
    return [document(n, id=f"d{n}", work=f"w{n // 4}") for n in range(200)]


def write_grouped(tmp_path, source):
    documents, path = grouped(), tmp_path / f"grouped.{source}"
    frame = pd.DataFrame([{"text": d["text"], "label": d["labels"][0], "work": d["work"], "x": n} for n, d in enumerate(documents)])
    of_table = {"text": ["text"], "labels": ["label"], "group": "work"}
    if source == "jsonl":
        return write_jsonl(path, documents), {"group": "work"}
    if source == "csv":
        frame.to_csv(path, index=False)
        return path, of_table
    if source == "parquet":
        frame.to_parquet(path)
        return path, of_table
    if source == "annif":
        path = path.with_suffix(".jsonl")
        each = [{"text": d["text"], "subjects": [{"uri": d["labels"][0]}], "metadata": {"work": d["work"]}} for d in documents]
        return write_jsonl(path, each), {"group": "work"}
    obs = frame[["label", "work"]].set_index(pd.Index([d["id"] for d in documents]))
    anndata.AnnData(X=sp.csr_matrix(RNG.random((200, 5)).astype(np.float32)), obs=obs).write_h5ad(path)
    return path, {"labels": ["label"], "group": "work"}


@pytest.mark.parametrize("source", ["jsonl", "csv", "parquet", "annif", "h5ad"])
def test_groups_stay_together(tmp_path, source):
    path, options = write_grouped(tmp_path, source)
    converted(source, path, tmp_path / "data.h5", test_share=0.3, **options)
    for again in ({}, {"stratified": True}):
        with DataFile(tmp_path / "data.h5") as data:
            assert data.has_groups
            test = np.zeros(200, bool)
            test[data.split("test")] = True
            assert (test.reshape(50, 4).sum(axis=1) % 4 == 0).all()
            assert 0.1 < test.mean() < 0.5
            assert np.unique(data.map("row_groups")).size == 50
        divided(tmp_path / "data.h5", 0.25, seed=2, **again)


def test_divided_groups_cause_a_warning(tmp_path, capsys):
    def lines(split_of):
        return [document(n, id=f"d{n}", work=f"w{n // 4}", split=split_of(n)) for n in range(40)]

    for name, split_of, n_divided in (
        ("a", lambda n: "test" if n % 8 > 5 else "train", 5),
        ("b", lambda n: ["test", "train"][n > 19], 0),
    ):
        path = write_jsonl(tmp_path / f"{name}.jsonl", lines(split_of))
        converted("jsonl", path, tmp_path / f"{name}.h5", told=True, group="work")
        said = capsys.readouterr().err
        assert (f"warning: {path}: rows of {n_divided} groups" in said) == (n_divided > 0)
        assert ("several splits" in said) == (n_divided > 0)


def test_new_rows_of_a_group_get_the_split_of_its_known_rows(tmp_path, capsys):
    new = [document(1000 + n, id=f"n{n}", work=f"w{n % 50}") for n in range(100)]
    known, everything = write_jsonl(tmp_path / "known.jsonl", grouped()[::4]), write_jsonl(tmp_path / "all.jsonl", new + grouped())
    for group in ("work", None):
        converted("jsonl", known, tmp_path / "known.h5", test_share=0.3, group=group)
        converted(
            "jsonl", everything, tmp_path / "all.h5", told=True, test_share=0.3, seed=9, group="work", like=tmp_path / "known.h5"
        )
        with DataFile(tmp_path / "all.h5") as data:
            test = np.isin(np.arange(300), data.split("test"))
        assert (test[:50] == test[50:100]).all() and (test[:50] == test[100::4]).all()
        assert "several splits" not in capsys.readouterr().err
    converted("jsonl", known, tmp_path / "known.h5", test_share=0.3, group="work")
    converted("jsonl", everything, tmp_path / "all.h5", told=True, test_share=0.3, like=tmp_path / "known.h5")
    assert "known.h5 has row groups; without --group" in capsys.readouterr().err


def test_ids_and_groups_are_numbers_or_strings(tmp_path):
    numbers = np.where(np.arange(60) % 5 == 4, np.nan, np.arange(60) // 3)
    frame = pd.DataFrame(
        {"text": [document(n)["text"] for n in range(60)], "label": "a", "n": np.arange(60.0) + 7, "work": numbers}
    )
    frame.to_csv(tmp_path / "in.csv", index=False)
    frame.to_parquet(tmp_path / "in.parquet")
    documents = [
        {"id": int(row.n), "text": row.text, "labels": ["a"], "work": None if row.work != row.work else str(int(row.work))}
        for row in frame.itertuples()
    ]
    write_jsonl(tmp_path / "in.jsonl", documents)
    of_table, found = {"text": ("text",), "labels": ("label",), "id": "n"}, []
    for source in ("csv", "parquet", "jsonl"):
        more = {} if source == "jsonl" else of_table
        converted(source, tmp_path / f"in.{source}", tmp_path / "out.h5", group="work", **more)
        with DataFile(tmp_path / "out.h5") as data:
            found.append((data.map("row_keys").tolist(), data.map("row_groups").tolist()))
    assert found[0] == found[1] == found[2]
    assert string_keys(b"id", ["v1.0"]) == name_key(b"id", "v1.0") != name_key(b"id", "v1")


def test_groups_of_rows_in_memory(tmp_path):
    X, Y = sp.random(60, 8, 0.5, random_state=0, format="csr"), [["a"], ["b"]] * 30
    groups = [f"g{n // 3}" for n in range(60)]
    with hpcml.Dataset.from_sparse(X, Y, tmp_path / "data.h5", groups=groups, test_share=0.4) as data:
        assert (np.bincount(data.split("test") // 3, minlength=20) % 3 == 0).all()


def test_group_without_values_is_refused(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [document(n) for n in range(10)])
    check_refusal(lambda: converted("jsonl", path, tmp_path / "a.h5", group="work"), "--group work")
    frame = pd.DataFrame({"x": [3.0, 1.0, 2.5], "l": ["a", "b", "a"], "work": [None, None, None]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    for source in ("csv", "parquet"):
        check_refusal(
            lambda source=source: converted(source, tmp_path / f"a.{source}", tmp_path / "a.h5", labels=("l",), group="work"),
            "--group work",
        )


def test_training_rows_are_recognised_in_other_files(tmp_path, monkeypatch):
    documents = [document(n, id=f"d{n}") for n in range(300)]
    converted("jsonl", write_jsonl(tmp_path / "a.jsonl", documents[:200]), tmp_path / "a.h5", test_share=0.3)
    other = [*[document(n, id=f"n{n}") for n in range(500, 550)], *documents[100:]]
    converted("jsonl", write_jsonl(tmp_path / "b.jsonl", other), tmp_path / "b.h5", like=tmp_path / "a.h5")
    with DataFile(tmp_path / "a.h5") as data:
        trained_on = set(data.map("row_keys")[data.split("train")].tolist())
    with DataFile(tmp_path / "b.h5") as data:
        expected = len(trained_on & set(data.map("row_keys").tolist()))
    assert 50 < expected < 100
    model = open_model(train("dual", None, tmp_path / "a.h5", tmp_path / "run", {}).model)
    assert hpcml.evaluate(tmp_path / "run", tmp_path / "b.h5", split="all").seen.n_rows == expected
    assert model.training_keys.complete and set(model.training_keys.keys.tolist()) == trained_on
    monkeypatch.setattr(training_keys, "LIMIT", 60)
    train("dual", None, tmp_path / "a.h5", tmp_path / "few", {})
    few = open_model(tmp_path / "few" / "model.h5").training_keys
    assert few.keys.size == 60 and not few.complete and few.keys.tolist() == sorted(trained_on)[:60]
    found = hpcml.evaluate(tmp_path / "few", tmp_path / "b.h5", split="all")
    assert abs(found.seen.n_rows - expected) < 40
    assert f"about {found.seen.n_rows} of the 250 rows are training rows" in str(found)


def test_merged_keys_end_at_the_smaller_bound():
    one, other = (training_keys.TrainingKeys(np.array(keys, np.uint64), False) for keys in ([1, 5], [2, 9]))
    merged = training_keys.merge_training_keys(one, other)
    assert merged.keys.tolist() == [1, 2, 5]
    assert not merged.complete


def test_damaged_keys_are_refused(tmp_path):
    converted("jsonl", write_jsonl(tmp_path / "a.jsonl", [document(n) for n in range(20)]), tmp_path / "a.h5")
    train("dual", None, tmp_path / "a.h5", tmp_path / "run", {})
    with h5py.File(tmp_path / "run" / "model.h5", "r+") as file:
        file["training_keys"][:] = file["training_keys"][:][::-1]
    with pytest.raises(DataError, match="damaged model"):
        open_model(tmp_path / "run" / "model.h5")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        del file["row_keys"]
    with pytest.raises(DataError, match="row_keys is missing"):
        DataFile(tmp_path / "a.h5")


def run(path, output=None, test_share=0.3, stratified=False, seed=0, force=False, valid_share=None):
    split(mpi.self_comm(), path, output, test_share, stratified, seed, force, Log(0), valid_share)


@pytest.fixture
def path(tmp_path):
    return dataset(tmp_path / "data.h5", *random_data(5, 200, 12, 4), row_ids=[f"r{i}" for i in range(200)])


def test_random_split_of_a_file_in_place(path):
    with h5py.File(path) as file:
        before = {name: file[name][:] for name in ("X/indptr", "X/indices", "X/data", "Y/indptr", "Y/indices", "row_ids")}
    run(path, seed=3)
    with DataFile(path) as data:
        expected = draw_test_rows(3, 0.3, data.map("row_keys"))
        assert data.split("test").tolist() == np.flatnonzero(expected).tolist()
        assert data.split("train").tolist() == np.flatnonzero(~expected).tolist()
        assert all((data.file[name][:] == values).all() for name, values in before.items())
    assert 30 < expected.sum() < 90
    assert [entry.name for entry in path.parent.iterdir()] == ["data.h5"]


@pytest.mark.parametrize("stratified", [False, True])
def test_validation_rows(path, tmp_path, stratified):
    run(path, tmp_path / "two.h5", stratified=stratified)
    run(path, tmp_path / "three.h5", stratified=stratified, valid_share=0.25)
    with DataFile(tmp_path / "two.h5") as two, DataFile(tmp_path / "three.h5") as three:
        parts = {name: three.split(name).tolist() for name in ("train", "valid", "test")}
        assert stratified or parts["test"] == two.split("test").tolist()
        assert sorted(row for rows in parts.values() for row in rows) == list(range(200))
        assert 30 < len(parts["valid"]) < 70


@pytest.mark.parametrize(
    ("shares", "word"),
    [
        ({"valid_share": 0.7}, "--valid-share 0.7"),
        ({"valid_share": 1.5}, "--valid-share 1.5"),
        ({"valid_share": 1e-9}, "split valid"),
        ({"test_share": 1e-6}, "split test"),
        *(({"test_share": share}, "--test-share") for share in (0, 1, -0.1, float("nan"))),
    ],
)
def test_bad_shares_are_refused(path, shares, word):
    before = path.read_bytes()
    check_refusal(lambda: run(path, **shares), word)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["data.h5"]


def test_convert_makes_the_same_split(tmp_path):
    (tmp_path / "a.svm").write_text("".join(f"{i % 3} {i + 1}:1\n" for i in range(50)))
    for name, options in {"a": {"test_share": 0.4, "seed": 9}, "b": {}}.items():
        converted("svmlight", tmp_path / "a.svm", tmp_path / f"{name}.h5", **options)
    run(tmp_path / "b.h5", tmp_path / "c.h5", 0.4, seed=9)
    with DataFile(tmp_path / "a.h5") as a, DataFile(tmp_path / "b.h5") as b, DataFile(tmp_path / "c.h5") as c:
        assert b.split_names() == []
        for name in ("train", "test"):
            assert a.split(name).tolist() == c.split(name).tolist()


@st.composite
def label_sets(draw):
    n_labels = draw(st.integers(1, 30))
    sets = draw(st.lists(st.sets(st.integers(0, n_labels - 1), max_size=4), min_size=2, max_size=80))
    Y = sp.csr_matrix([[label in labels for label in range(n_labels)] for labels in sets], dtype=bool)
    return n_labels, Y.indptr.astype(np.int64), Y.indices


@given(label_sets(), st.floats(0.02, 0.5), st.floats(0.02, 0.4), st.integers(0, 5))
def test_stratified_parts_keep_their_shares_to_one_row(rows, test_share, valid_share, seed):
    n_labels, indptr, indices = rows
    shares = np.array([test_share, valid_share, 1 - test_share - valid_share])
    part = divide(n_labels, indptr, indices, shares, np.arange(indptr.size - 1, dtype=np.uint64), seed)
    assert (np.abs(np.bincount(part, minlength=3) - shares * part.size) <= 1).all()


def test_long_tailed_labels_keep_the_share():
    rng = np.random.default_rng(0)
    chances = np.arange(1, 20001) ** -0.8
    Y = np.sort(np.stack([rng.choice(20000, 5, replace=False, p=chances / chances.sum()) for _ in range(1000)]), axis=1)
    indptr, keys = np.arange(0, Y.size + 1, 5), rng.integers(0, 2**63, len(Y)).astype(np.uint64)
    for share in (0.1, 0.3):
        test = divide(20000, indptr, Y.ravel(), np.array([share, 1 - share]), keys, 0) == 0
        assert abs(test.sum() - share * len(Y)) <= 1
        frequent = np.flatnonzero(np.bincount(Y.ravel(), minlength=20000) > 40)
        shares = np.array([test[(label == Y).any(axis=1)].mean() for label in frequent])
        assert np.abs(shares - share).max() < 0.08


@given(label_sets(), st.integers(1, 12), st.integers(0, 3))
def test_parts_and_folds_do_not_divide_groups(rows, n_groups, seed):
    n_labels, indptr, indices = rows
    keys = np.random.default_rng(seed).integers(0, n_groups, indptr.size - 1).astype(np.uint64)
    part = divide(n_labels, indptr, indices, np.array([0.3, 0.7]), keys, seed)
    fold = assign(n_labels, indptr, indices, np.full(3, 1 / 3), np.full(3, keys.size), keys, keys)
    for group in np.unique(keys):
        assert len(set(part[keys == group])) == len(set(fold[keys == group])) == 1
    assert abs((part == 0).sum() - 0.3 * part.size) <= np.bincount(keys.astype(int)).max()


def test_parts_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(1)
    Y = sp.random(300, 40, 0.05, random_state=1, format="csr").astype(bool)
    keys, order = rng.integers(0, 2**62, 300).astype(np.uint64), rng.permutation(300)
    shares = np.array([0.25, 0.75])
    rows = Y[order].sorted_indices()
    part = divide(40, Y.indptr.astype(np.int64), Y.indices, shares, keys, 7)
    other = divide(40, rows.indptr.astype(np.int64), rows.indices, shares, keys[order], 7)
    assert np.array_equal(part[order], other)


def test_splits_are_replaced_only_with_force(path, tmp_path):
    run(path)
    for output in (None, tmp_path / "new.h5"):
        with pytest.raises(ConfigError, match="has splits"):
            run(path, output, seed=1)
    run(path, seed=1, force=True)
    with DataFile(path) as data:
        assert data.split("test").tolist() == np.flatnonzero(draw_test_rows(1, 0.3, data.map("row_keys"))).tolist()


def test_bytes_do_not_depend_on_time(path, tmp_path):
    run(path, tmp_path / "first.h5")
    second = int(time.time())
    while int(time.time()) == second:  # HDF5's time stamps count seconds
        time.sleep(0.05)
    run(path, tmp_path / "second.h5")
    assert (tmp_path / "first.h5").read_bytes() == (tmp_path / "second.h5").read_bytes()
