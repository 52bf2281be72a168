"""A model alone scores texts, tables and matrices: with the bits that a dataset made like its training file gives."""

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
    "plain": {},
    "pairs": {"pairs": True},
    "binary": {"binary": True},
    "fields": {"fields": ("title=T", "text=A"), "pairs": True},
}


def documents(n, seed, split):
    """Documents of one or two topics, some without any word of their own."""
    rng = np.random.default_rng(seed)
    for number in range(n):
        topics = [topic for topic in WORDS if rng.random() < 0.6] or ["sea"]
        words = [str(rng.choice(WORDS[topic].split())) for topic in topics for _ in range(4)]
        title = str(rng.choice(WORDS[topics[0]].split()))
        text = "xyzzy" if number % 9 == 8 and split == "new" else ", ".join(words)
        yield {"id": f"{split}{number}", "title": title * (number % 9 != 8), "text": text, "labels": topics}


NEW = list(documents(40, 2, "new"))


@pytest.fixture(scope="module", params=sorted(KINDS))
def moved(request, tmp_path_factory):
    """A model in a folder without its data, and the dataset of new documents made like the training file."""
    folder = tmp_path_factory.mktemp("made")
    train = made(folder, "jsonl", list(documents(120, 1, "train")), "train", **KINDS[request.param])[1]
    new = made(folder, "jsonl", NEW, "new", like=train)[1]
    hpcml.train("dual", train, folder / "run", loss="logistic")
    alone = tmp_path_factory.mktemp("moved") / "model.h5"
    shutil.copy(folder / "run" / "model.h5", alone)
    train.unlink()
    return alone, new


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv", "parquet"])
def test_predict_writes_the_same_lines_for_records_and_for_their_dataset(moved, tmp_path, kind):
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


def test_python_gives_the_scores_of_the_dataset_for_texts_frames_and_matrices(moved):
    model, new = moved
    loaded = hpcml.load(model)
    with hpcml.Dataset(new) as dataset:
        expected, X = loaded.decision_function(dataset), dataset.matrix(unlabelled=True)
    file = hpcml.Model(model)
    np.testing.assert_allclose(expected, X @ file.weight_matrix().T.toarray() + file.bias, rtol=0, atol=1e-6)
    frame = pd.DataFrame(NEW)
    for given in (NEW, frame[["title", "text"]], frame[["text", "title", "id"]], X, X.toarray()):
        assert np.array_equal(loaded.decision_function(given), expected)
    assert np.array_equal(loaded.decision_function(NEW[3:4]), expected[3:4])
    probabilities = loaded.predict_proba(NEW)
    np.testing.assert_allclose(probabilities, 1 / (1 + np.exp(-expected)), rtol=1e-12)
    is_empty = np.diff(X.indptr) == 0
    flags = loaded.predict(NEW)
    assert flags.dtype == bool and is_empty.any()
    assert np.array_equal(flags.toarray(), (expected > loaded.thresholds) & ~is_empty[:, None])
    for row, found in enumerate(loaded.top(NEW)):
        order = sorted(np.flatnonzero(flags[row].toarray()[0]), key=lambda label: -expected[row, label])
        assert [each.label for each in found] == [loaded.labels[label] for label in order]
        assert [each.probability for each in found] == [probabilities[row, label] for label in order]
    best = loaded.top(NEW, k=2)
    assert [len(found) for found in best] == [0 if empty else 2 for empty in is_empty]
    assert repr(loaded).startswith(f"<hpcml model {model}: dual, 2 labels, ")
    assert loaded.top([]) == [] and loaded.decision_function([]).shape == (0, 2)


def test_convert_takes_a_model_for_its_training_file(moved, tmp_path):
    model, new = moved
    again = made(tmp_path, "jsonl", NEW, "again", like=model)[1]
    with h5py.File(again) as found, h5py.File(new) as expected:
        for name in ("X/indptr", "X/indices", "Y/indptr", "Y/indices", "label_names", "feature_names"):
            assert np.array_equal(found[name][:], expected[name][:])
        assert found.attrs["vocabulary"] == expected.attrs["vocabulary"]


def test_a_model_holds_no_row_text_or_id(moved, tmp_path):
    content = moved[0].read_bytes()
    assert b"train17" not in content and b"xyzzy" not in content
    train = made(tmp_path, "jsonl", list(documents(120, 1, "train")), "train")[1]
    for method, options in (("dual", {}), ("mbw", {}), ("psbml", {"cycles": 2, "grid": "2x2", "label": "sea"})):
        for no_id_hashes in (False, True):
            run = hpcml.train(method, train, tmp_path / f"{method}{no_id_hashes}", no_id_hashes=no_id_hashes, **options)
            with h5py.File(run.model) as file:
                assert ("training_keys" in file) is not no_id_hashes and "input" in file


def test_what_does_not_fit(moved, tmp_path):
    loaded = hpcml.load(moved[0])
    is_told_apart = "fields" in loaded.model.raw_input.attributes
    with pytest.raises(ConfigError, match="expected a list of texts"):
        loaded.top("a ship")
    with pytest.raises(DataError, match=r"X has 3 columns, but the model has \d+ features"):
        loaded.predict(np.ones((1, 3)))
    for wrong, kind in ((3, "int"), (None, "NoneType"), (b"a", "bytes")):
        expected = rf"text 1 \(from 0\): {kind}, but expected a string, or a dictionary with the keys title, text"
        with pytest.raises(DataError, match=expected):
            loaded.predict([{"text": "a", "title": "b"}, wrong])
    for wrong, kind in ((3, "int"), (None, "NoneType"), (b"a", "bytes")):
        with pytest.raises(ConfigError, match=f"X is {kind}, but expected a list of texts"):
            loaded.predict(wrong)
    for k in (0, -1, 1.5, "2"):
        with pytest.raises(ConfigError, match=f"k={k!r}: expected a whole number of labels, at least 1"):
            loaded.top([{"text": "a"}], k=k)
    if is_told_apart:
        with pytest.raises(ConfigError, match="tells fields apart; give each text as a dictionary with the keys title, text"):
            loaded.predict(["a ship"])
    with pytest.raises(ConfigError, match="no column 'title' with texts"):
        loaded.predict(pd.DataFrame({"Body": ["a"]}))
    table = tmp_path / "new.csv"
    table.write_text("name,body\na,b\n")
    with pytest.raises(ConfigError, match=r"new.csv: no column 'title' with texts, as the model was trained on"):
        hpcml.predict(moved[0], table, tmp_path / "out.csv")
    table.write_text("name;title;text\na;b;c\n")
    with pytest.raises(ConfigError, match=r"no column 'title' .*; its header is one column: --delimiter tells where columns end$"):
        hpcml.predict(moved[0], table, tmp_path / "out.csv")
    table.write_text("name,title,text\na,b\n")
    with pytest.raises(DataError, match=r"new.csv: line 2: 2 values, but the header names 3 columns"):
        hpcml.predict(moved[0], table, tmp_path / "out.csv")
    (tmp_path / "new.jsonl").write_text('{"text": "a"}\n\n{"text": 3}\n')
    with pytest.raises(DataError, match=r"new.jsonl: line 3: text is a number"):
        hpcml.predict(moved[0], tmp_path / "new.jsonl", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_the_log_names_the_columns_of_texts(tmp_path, caplog):
    """A misspelt column of titles is left out, and the log shows it."""
    _, train = made(tmp_path, "jsonl", list(documents(120, 1, "train")), "train")
    run = hpcml.train("dual", train, tmp_path / "run")
    (tmp_path / "new.csv").write_text("id,titel,text\na,ship,corn\n")
    with caplog.at_level("INFO", "hpcml"):
        hpcml.predict(run.model, tmp_path / "new.csv", tmp_path / "out.csv")
    assert f"{tmp_path / 'new.csv'}: scoring rows as they come; texts: text; ids: id" in caplog.text


def test_advice_names_what_predict_and_convert_have(tmp_path):
    """predict has no --missing-as-zero and no --features, but convert --like has the first."""
    (tmp_path / "train.csv").write_text("a,b,y\n" + "1,0,p\n0,1,q\n" * 20)
    hpcml.convert("csv", tmp_path / "train.csv", tmp_path / "train.h5", labels=["y"])
    run = hpcml.train("dual", tmp_path / "train.h5", tmp_path / "run")
    new, advice = tmp_path / "new.csv", "use hpcml convert --like with --missing"
    for text, reason in {
        "a,b\n1,\n": f"line 2: column 'b': missing number; fill it in, or {advice}-as-zero",
        "a\n1\n": f"no column 'b', a feature of the model; add it, or {advice}-columns-as-zero",
        "a,b\n1,x\n": "line 2: column 'b': 'x', but expected a number; the column is a feature of the model",
    }.items():
        new.write_text(text)
        with pytest.raises(DataError) as error:
            hpcml.predict(run.model, new, tmp_path / "out.csv")
        assert str(error.value) == f"{new}: {reason}"
    pd.DataFrame({"a": [1.0], "b": ["x"]}).to_parquet(tmp_path / "new.parquet")
    with pytest.raises(DataError, match=r"contains \S*string, but expected numbers; the column is a feature of the model$"):
        hpcml.predict(run.model, tmp_path / "new.parquet", tmp_path / "out.csv")


def test_tables_of_numbers(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)).round(3)
    frame = pd.DataFrame(X, columns=["a", "b", "c d", "e"]).assign(id=[f"r{row}" for row in range(60)], y=(X[:, 0] > 0).astype(int))
    frame.to_csv(tmp_path / "train.csv", index=False)
    hpcml.convert("csv", tmp_path / "train.csv", tmp_path / "train.h5", labels=["y"], id="id")
    run = hpcml.train("dual", tmp_path / "train.h5", tmp_path / "run").model
    shuffled = frame[["y", "e", "id", "c d", "b", "a"]]
    shuffled.to_csv(tmp_path / "new.tsv", sep="\t", index=False)
    hpcml.predict(run, tmp_path / "new.tsv", tmp_path / "found.csv")
    hpcml.predict(run, tmp_path / "train.h5", tmp_path / "expected.csv")
    assert (tmp_path / "found.csv").read_text() == (tmp_path / "expected.csv").read_text()
    loaded = hpcml.load(run)
    expected = loaded.decision_function(X.astype(np.float32))
    assert np.array_equal(loaded.decision_function(shuffled), expected)
    assert np.array_equal(loaded.decision_function(sp.csr_matrix(X)), expected)
    with pytest.raises(DataError, match="no column 'c d', a feature of the model"):
        loaded.predict(frame[["a", "b", "e"]])
    frame.loc[3, "b"] = np.nan
    with pytest.raises(DataError, match=r"the frame: row 3: column 'b': missing number"):
        loaded.predict(frame)
    with pytest.raises(ConfigError, match="was not trained on text"):
        loaded.predict(["a text"])
    (tmp_path / "new.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(ConfigError, match="was not trained on text"):
        hpcml.predict(run, tmp_path / "new.jsonl", tmp_path / "out.csv")


def test_damage(moved, tmp_path):
    for name, damage in {
        "the names of the features are not those of training": lambda file: file["input/feature_names"].write_direct(
            np.frombuffer(b"\0" * file["input/feature_names"].size, np.uint8).copy()
        ),
        "input": lambda file: file["input"].attrs.__setitem__("weighting", 3.5),
    }.items():
        path = tmp_path / "damaged.h5"
        shutil.copy(moved[0], path)
        with h5py.File(path, "r+") as file:
            damage(file)
        if name == "input":
            file = hpcml.load(path)
            assert file.model.raw_input.is_text  # of another weighting, words count as present
            continue
        with pytest.raises(DataError, match=name):
            hpcml.load(path).top(["a"])
