"""Words, pairs, weights and vocabularies, against scikit-learn and against a slow twin."""

import json

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from anndata.io import read_elem
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from support.converted import check_refusal, converted, made
from support.oracles_text import slow_rows

from hpcml.conversion import merging as merging_module
from hpcml.conversion import text as text_module
from hpcml.conversion.vocabulary import PLAIN
from hpcml.errors import DataError

DOCUMENTS = [
    {"title": "Cats and dogs", "text": "The cat sat, the dog ran. Über-cat x_y!", "labels": ["pets"], "split": "train"},
    {"text": "the the the stock market; the stock fell 3.5 percent", "labels": ["money", "pets"], "split": "train"},
    {"text": "the market ran\nand the\tdog sat", "labels": ["money"], "split": "train"},
    {"text": "the unknown cat of the stock market", "labels": [], "split": "test"},
    {"text": "", "labels": ["money"], "split": "test"},
]


def make(folder, documents, name="data", **options):
    report, path = made(folder, "jsonl", documents, name, **options)
    return report, h5py.File(path, locking=False)  # as hpcml opens it


def features(file):
    return list(file["feature_names"].asstr()[:])


@pytest.mark.parametrize(
    ("pairs", "binary", "min_df", "stop_words"),
    [(False, False, 1, []), (True, False, 1, ["the", "and"]), (True, True, 2, []), (True, False, 2, ["the"])],
)
@pytest.mark.parametrize("block_tokens", [1, 12])
def test_rows_are_as_defined(tmp_path, monkeypatch, pairs, binary, min_df, stop_words, block_tokens):
    monkeypatch.setattr(text_module, "BLOCK_TOKENS", block_tokens)
    monkeypatch.setattr(text_module, "RUN_WORDS", block_tokens)  # every block is a run, or some, or one is
    monkeypatch.setattr(merging_module, "RANGE_WORDS", block_tokens)
    monkeypatch.setattr(merging_module, "RUN_KEYS", block_tokens)
    monkeypatch.setattr(merging_module, "RANGE_KEYS", block_tokens)
    (tmp_path / "stop").write_text("\n".join(stop_words))
    report, file = make(tmp_path, DOCUMENTS, pairs=pairs, binary=binary, min_df=min_df, stop_words=tmp_path / "stop")
    names, rows = slow_rows(DOCUMENTS, PLAIN, pairs, stop_words, min_df, binary)
    with file:
        assert features(file) == names
        X = read_elem(file["X"])
        np.testing.assert_allclose(X.toarray(), rows, rtol=3e-7, atol=0)
        assert X.nnz == np.count_nonzero(rows) == report.nnz
        assert X.has_sorted_indices
        assert list(file["label_names"].asstr()) == ["money", "pets"]
        assert read_elem(file["Y"]).toarray().tolist() == [[0, 1], [1, 1], [1, 0], [0, 0], [1, 0]]
        assert dict(file["text"].attrs) == {
            "weighting": "binary" if binary else "log-idf",
            "pairs": pairs,
            "min_df": min_df,
            "n_documents": 3,
        }
        assert list(file["text/stop_words"].asstr()) == sorted(stop_words)
        assert ("text/idf" in file) == (not binary)


@given(
    texts=st.lists(st.text("ab1 .,_\nÀßİ\u0301", max_size=30), min_size=1, max_size=6),
    pairs=st.booleans(),
    min_df=st.integers(1, 2),
)
def test_any_text(tmp_path_factory, texts, pairs, min_df):
    documents = [{"text": text, "labels": ["x"]} for text in texts]
    names, rows = slow_rows(documents, PLAIN, pairs, (), min_df)
    folder = tmp_path_factory.getbasetemp()
    if not names:
        with pytest.raises(DataError, match="no word"):
            make(folder, documents, pairs=pairs, min_df=min_df)
        return
    _, file = make(folder, documents, pairs=pairs, min_df=min_df)
    with file:
        assert features(file) == names
        np.testing.assert_allclose(read_elem(file["X"]).toarray(), rows, rtol=3e-7, atol=0)


def test_against_scikit_learn(data_dir, tmp_path):
    import lzma

    with lzma.open(data_dir / "20newsgroups.jsonl.xz", "rt", encoding="utf-8") as lines:
        documents = [json.loads(line) for line, _ in zip(lines, range(100), strict=False)]
    _, file = make(tmp_path, documents)
    train = np.array([document["split"] == "train" for document in documents])
    if not train.any():
        train[:] = True
    texts = [f"{document['title']} . {document['text']}" for document in documents]
    vectorizer = CountVectorizer(token_pattern=r"[^\W_]+").fit(np.array(texts, dtype=object)[train])
    counts = vectorizer.transform(texts).astype(np.float64)
    df = np.bincount(counts[train].indices, minlength=counts.shape[1])
    counts.data = np.log1p(counts.data) * np.log(train.sum() / df)[counts.indices]
    norms = np.sqrt(counts.multiply(counts).sum(axis=1)).A1
    with file:
        assert features(file) == list(vectorizer.get_feature_names_out())
        assert abs(read_elem(file["X"]) - sp.diags(1 / norms) @ counts).max() < 1e-7


def test_like_gives_the_same_rows(tmp_path):
    (tmp_path / "stop").write_text("and\n")
    _, whole = make(tmp_path, DOCUMENTS, "whole", pairs=True, stop_words=tmp_path / "stop")
    tests = [{**document, "labels": [*document["labels"], "new"], "split": ""} for document in DOCUMENTS[3:]]
    report, again = make(tmp_path, tests, "test", like=tmp_path / "whole.h5")
    with whole, again:
        assert (again["X/data"][:] == whole["X/data"][-report.nnz :]).all()
        assert (again["X/indices"][:] == whole["X/indices"][-report.nnz :]).all()
        for name in ("feature_names", "label_names", "text/idf", "text/stop_words"):
            assert (again[name][:] == whole[name][:]).all()
        assert dict(again["text"].attrs) == dict(whole["text"].attrs)
        assert again.attrs["vocabulary"] == whole.attrs["vocabulary"]
    assert report.dropped_values == 2  # "unknown" and "of"
    assert report.unknown_entries == 2


def test_like_of_numbers_and_of_text(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:1\n")
    converted("svmlight", tmp_path / "a.svm", tmp_path / "a.h5")
    check_refusal(lambda: make(tmp_path, DOCUMENTS, like=tmp_path / "a.h5"), "--like", "a.h5")
    make(tmp_path, DOCUMENTS, "whole")
    check_refusal(
        lambda: converted("svmlight", tmp_path / "a.svm", tmp_path / "b.h5", like=tmp_path / "whole.h5"), "--like", "whole.h5"
    )


def test_stop_words_are_tokenised(tmp_path):
    (tmp_path / "stop").write_text("Don't\n\nÜBER\n", encoding="utf-8")
    assert text_module.read_stop_words(tmp_path / "stop") == ["don", "t", "über"]
    (tmp_path / "stop").write_bytes(b"a\n\xff\n")
    check_refusal(lambda: make(tmp_path, DOCUMENTS, stop_words=tmp_path / "stop"), "stop: byte 3")
