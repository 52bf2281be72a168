"""A model without its data scores texts, tables and matrices with the same bits as their dataset."""

import json
import shutil

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from support.converted import made

import hpcml
from hpcml.errors import ConfigError, DataError

WORDS = {"sea": "ship port storm harbour", "farm": "corn wheat plough grain"}
KINDS = {
    "binary": {"binary": True},
    "fields": {"fields": ("title=T", "text=A"), "pairs": True},
}


def documents(n, seed, split):
    rng = np.random.default_rng(seed)
    for number in range(n):
        topics = [topic for topic in WORDS if rng.random() < 0.6] or ["sea"]
        words = [str(rng.choice(WORDS[topic].split())) for topic in topics for _ in range(4)]
        title = str(rng.choice(WORDS[topics[0]].split()))
        text = "xyzzy" if number % 9 == 8 and split == "new" else ", ".join(words)
        yield {"id": f"{split}{number}", "title": title * (number % 9 != 8), "text": text, "labels": topics}


NEW = list(documents(40, 2, "new"))


@pytest.fixture(scope="module", params=["binary", "fields"])
def moved(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    train = made(folder, "jsonl", list(documents(120, 1, "train")), "train", **KINDS[request.param])[1]
    new = made(folder, "jsonl", NEW, "new", like=train)[1]
    hpcml.train("dual", train, folder / "run", loss="logistic")
    alone = tmp_path_factory.mktemp("moved") / "model.h5"
    shutil.copy(folder / "run" / "model.h5", alone)
    train.unlink()
    return alone, new


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv", "parquet"])
def test_records_and_their_dataset_have_the_same_predictions(moved, tmp_path, kind):
    model, new = moved
    records = tmp_path / f"new.{kind}"
    frame = pd.DataFrame(NEW).drop(columns="labels")
    if kind == "jsonl":
        records.write_text("".join(json.dumps(each) + "\n" for each in NEW))
    elif kind == "parquet":
        frame.to_parquet(records)
    else:
        frame.to_csv(records, sep="," if kind == "csv" else "\t", index=False)
    for options in ({}, {"top": 1}, {"threshold": -1.0}):
        hpcml.predict(model, new, tmp_path / "of_dataset.csv", force=True, **options)
        hpcml.predict(model, records, tmp_path / "of_records.csv", force=True, **options)
        lines = (tmp_path / "of_records.csv").read_text()
        assert lines == (tmp_path / "of_dataset.csv").read_text()
        assert len(lines.splitlines()) > 20


def test_texts_frames_and_matrices_have_the_scores_of_their_dataset(moved):
    model, new = moved
    loaded = hpcml.load(model)
    with hpcml.Dataset(new) as dataset:
        expected, X = loaded.decision_function(dataset), dataset.matrix(unlabelled=True)
    file = hpcml.Model(model)
    np.testing.assert_allclose(expected, X @ file.weight_matrix().T.toarray() + file.bias, rtol=0, atol=1e-6)
    frame = pd.DataFrame(NEW)
    for rows in (NEW, frame[["title", "text"]], frame[["text", "title", "id"]], X, X.toarray()):
        assert np.array_equal(loaded.decision_function(rows), expected)
    assert np.array_equal(loaded.decision_function(NEW[3:4]), expected[3:4])
    probabilities = loaded.predict_proba(NEW)
    np.testing.assert_allclose(probabilities, 1 / (1 + np.exp(-expected)), rtol=1e-12)
    is_empty = np.diff(X.indptr) == 0
    flags = loaded.predict(NEW)
    assert flags.dtype == bool and is_empty.any()
    assert np.array_equal(flags.toarray(), (expected > loaded.thresholds) & ~is_empty[:, None])
    for row, best in enumerate(loaded.top(NEW)):
        order = sorted(np.flatnonzero(flags[row].toarray()[0]), key=lambda label: -expected[row, label])
        assert [each.label for each in best] == [loaded.labels[label] for label in order]
        assert [each.probability for each in best] == [probabilities[row, label] for label in order]
    assert [len(best) for best in loaded.top(NEW, k=2)] == [0 if empty else 2 for empty in is_empty]
    assert repr(loaded).startswith(f"<hpcml model {model}: dual, 2 labels, ")
    assert loaded.top([]) == [] and loaded.decision_function([]).shape == (0, 2)


def test_convert_like_accepts_a_model(moved, tmp_path):
    model, new = moved
    again = made(tmp_path, "jsonl", NEW, "again", like=model)[1]
    with h5py.File(again) as file, h5py.File(new) as expected:
        for name in ("X/indptr", "X/indices", "Y/indptr", "Y/indices", "label_names", "feature_names"):
            assert np.array_equal(file[name][:], expected[name][:])
        assert file.attrs["vocabulary"] == expected.attrs["vocabulary"]


def test_models_hold_no_rows_texts_or_ids(tmp_path):
    train = made(tmp_path, "jsonl", list(documents(120, 1, "train")), "train")[1]
    for method, options in (("dual", {}), ("mbw", {}), ("psbml", {"cycles": 2, "grid": "2x2", "label": "sea"})):
        for no_id_hashes in (False, True):
            run = hpcml.train(method, train, tmp_path / f"{method}{no_id_hashes}", no_id_hashes=no_id_hashes, **options)
            content = run.model.read_bytes()
            assert b"train17" not in content and b"xyzzy" not in content
            with h5py.File(run.model) as file:
                assert ("training_keys" in file) is not no_id_hashes and "input" in file


def test_rejects_invalid_rows(moved, tmp_path):
    loaded = hpcml.load(moved[0])
    document = {"text": "a", "title": "b"}
    calls = [
        (ConfigError, "list of texts", lambda: loaded.top("a ship")),
        (DataError, "X has 3 columns", lambda: loaded.predict(np.ones((1, 3)))),
        (DataError, r"text 1 \(from 0\): int", lambda: loaded.predict([document, 3])),
        (DataError, r"text 1 \(from 0\): bytes", lambda: loaded.predict([document, b"a"])),
        (ConfigError, "X is NoneType", lambda: loaded.predict(None)),
        *((ConfigError, f"k={k!r}: ", lambda k=k: loaded.top([document], k=k)) for k in (0, 1.5, "2")),
        (ConfigError, "'title'", lambda: loaded.predict(pd.DataFrame({"Body": ["a"]}))),
    ]
    if "fields" in loaded.model.raw_input.attributes:
        calls.append((ConfigError, "keys title, text", lambda: loaded.predict(["a ship"])))
    for error, text, call in calls:
        with pytest.raises(error, match=text):
            call()
    for name, content, error, text in (
        ("new.csv", "name,body\na,b\n", ConfigError, "'title'"),
        ("new.csv", "name;title;text\na;b;c\n", ConfigError, "--delimiter"),
        ("new.csv", "name,title,text\na,b\n", DataError, "line 2"),
        ("new.jsonl", '{"text": "a"}\n\n{"text": 3}\n', DataError, "line 3"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(error, match=f"{name}: .*{text}"):
            hpcml.predict(moved[0], tmp_path / name, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_rejects_invalid_tables_of_numbers(tmp_path):
    (tmp_path / "train.csv").write_text("a,b,y\n" + "1,0,p\n0,1,q\n" * 20)
    hpcml.convert("csv", tmp_path / "train.csv", tmp_path / "train.h5", labels=["y"])
    run = hpcml.train("dual", tmp_path / "train.h5", tmp_path / "run")
    new = tmp_path / "new.csv"
    for text, reason in {
        "a,b\n1,\n": "line 2: column 'b': .* --missing-as-zero",
        "a\n1\n": "no column 'b', .* --missing-columns-as-zero",
        "a,b\n1,x\n": "line 2: column 'b': 'x'",
    }.items():
        new.write_text(text)
        with pytest.raises(DataError, match=rf"new\.csv: {reason}"):
            hpcml.predict(run.model, new, tmp_path / "out.csv")
    pd.DataFrame({"a": [1.0], "b": ["x"]}).to_parquet(tmp_path / "new.parquet")
    with pytest.raises(DataError, match="string"):
        hpcml.predict(run.model, tmp_path / "new.parquet", tmp_path / "out.csv")


def test_predicts_tables_of_numbers(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)).round(3)
    frame = pd.DataFrame(X, columns=["a", "b", "c d", "e"]).assign(id=[f"r{row}" for row in range(60)], y=(X[:, 0] > 0).astype(int))
    frame.to_csv(tmp_path / "train.csv", index=False)
    hpcml.convert("csv", tmp_path / "train.csv", tmp_path / "train.h5", labels=["y"], id="id")
    run = hpcml.train("dual", tmp_path / "train.h5", tmp_path / "run").model
    shuffled = frame[["y", "e", "id", "c d", "b", "a"]]
    shuffled.to_csv(tmp_path / "new.tsv", sep="\t", index=False)
    hpcml.predict(run, tmp_path / "new.tsv", tmp_path / "of_table.csv")
    hpcml.predict(run, tmp_path / "train.h5", tmp_path / "expected.csv")
    assert (tmp_path / "of_table.csv").read_text() == (tmp_path / "expected.csv").read_text()
    loaded = hpcml.load(run)
    expected = loaded.decision_function(X.astype(np.float32))
    assert np.array_equal(loaded.decision_function(shuffled), expected)
    assert np.array_equal(loaded.decision_function(sp.csr_matrix(X)), expected)
    with pytest.raises(DataError, match="no column 'c d'"):
        loaded.predict(frame[["a", "b", "e"]])
    frame.loc[3, "b"] = np.nan
    with pytest.raises(DataError, match="row 3: column 'b'"):
        loaded.predict(frame)
    with pytest.raises(ConfigError, match="was not trained on text"):
        loaded.predict(["a text"])
    (tmp_path / "new.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(ConfigError, match="was not trained on text"):
        hpcml.predict(run, tmp_path / "new.jsonl", tmp_path / "out.csv")


def test_rejects_damaged_feature_names(moved, tmp_path):
    path = tmp_path / "damaged.h5"
    shutil.copy(moved[0], path)
    with h5py.File(path, "r+") as file:
        file["input/feature_names"].write_direct(np.frombuffer(b"\0" * file["input/feature_names"].size, np.uint8).copy())
    with pytest.raises(DataError, match="feature names"):
        hpcml.load(path).top(["a"])
