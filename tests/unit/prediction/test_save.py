"""Saved estimators: scores, names and texts as in the pipeline, commands that read the run, and invalid arguments."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from support.edits import edit
from support.served import SUGGEST, ask
from support.tables import table
from support.training import train

import hpcml
from hpcml import mpi
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError, DataError, OptionError
from hpcml.model.scoring import make_scorer, score_block
from hpcml.serving.app import App, RequestLimits
from hpcml.serving.serve import open_suggester

SELF = mpi.self_comm()
WORDS = {
    "sea": "ship port harbour sailor grain",
    "farm": "wheat corn field harvest grain",
    "law": "court judge appeal verdict ship",
}


def _texts(n=45):
    random, texts, names = np.random.default_rng(0), [], []
    for number in range(n):
        labels = sorted({list(WORDS)[number % 3], list(WORDS)[number % 7 % 3]})
        words = " ".join(WORDS[label] for label in labels).split()
        texts.append(" ".join(random.choice(words, 4 + number % 3)) + f", No {number // 2}!")
        names.append(labels)
    return texts, names


TEXTS, NAMES = _texts()
CLASSES = [labels[0] for labels in NAMES]
TWO = np.array([int("sea" in labels) for labels in NAMES])


def _saved(tmp_path, estimator, y=NAMES, vectoriser=None, **options):
    pipeline = make_pipeline(*(vectoriser or [TfidfVectorizer(ngram_range=(1, 2))]), estimator).fit(TEXTS, y)
    hpcml.save(pipeline, tmp_path / "run", **options)
    return pipeline, hpcml.load(tmp_path / "run")


def _rounding(X, weights, bias):
    """Return a bound on the difference between scores of float64 and float32 rows, both summed in float64.

    The first part is the effect of rounding the values. A sum of n + 1 terms has a relative error of at most (n + 1) 2⁻⁵³ to first
    order; there are two sums, and 1 % accounts for higher orders.
    """
    values, n = sp.csr_matrix(X, dtype=np.float64), np.diff(sp.csr_matrix(X).indptr)[:, None]
    rounded = abs(values - values.astype(np.float32)) @ abs(weights).T
    return rounded + 2.02 * (n + 1) * 2.0**-53 * (abs(values) @ abs(weights).T + abs(bias))


ESTIMATORS = [
    hpcml.DualClassifier(),
    hpcml.DualClassifier(scale="max-abs", precision="double"),
    hpcml.ProbeClassifier(),
    hpcml.ElasticNetClassifier(),
    hpcml.OnlineClassifier("pa"),
    hpcml.OnlineClassifier("romma", voted=True),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.parametrize(("y", "labels"), [(NAMES, sorted(WORDS)), (TWO, ["1"])], ids=["sets", "2"])
def test_scores_of_linear_estimators(tmp_path, estimator, y, labels):
    pipeline, model = _saved(tmp_path, estimator, y)
    last = pipeline[-1]
    assert model.labels == labels
    assert np.array_equal(model.model.weights(), last.coef_) and np.array_equal(model.model.bias, last.intercept_)
    expected = pipeline.decision_function(TEXTS).reshape(len(TEXTS), -1)
    assert (
        abs(model.decision_function(TEXTS) - expected) <= _rounding(pipeline[0].transform(TEXTS), last.coef_, last.intercept_)
    ).all()


@pytest.mark.parametrize(
    "estimator",
    [
        hpcml.BernoulliNBClassifier(),
        hpcml.BoostedBayesClassifier(rounds=4),
        hpcml.StagedBayesClassifier(stages=3),
        hpcml.StagedSvmClassifier(),
        hpcml.PsbmlClassifier(cycles=2),
        hpcml.PsbmlClassifier(base="tree", cycles=2),
    ],
    ids=repr,
)
@pytest.mark.parametrize("y", [CLASSES, TWO], ids=["3", "2"])
def test_scores_of_other_estimators_have_the_same_bits(tmp_path, estimator, y):
    pipeline, model = _saved(tmp_path, estimator, y)
    assert np.array_equal(model.decision_function(TEXTS), pipeline[-1]._scores(pipeline[:-1].transform(TEXTS)))
    assert model.labels == (["1"] if y is TWO else sorted(WORDS))


@pytest.mark.parametrize("method", ["pw", "mbw"])
def test_winnows_divide_by_the_known_features(tmp_path, method):
    pipeline, model = _saved(
        tmp_path, hpcml.OnlineClassifier(method), vectoriser=[CountVectorizer(vocabulary=[*"xyz", "ship", "court"])]
    )
    last, X = pipeline[-1], pipeline[0].transform(["ship x y", "court z z", "ship ship court x"])
    scores = model.decision_function(X)
    known = X[:, 3:].sum(axis=1)
    assert last._state.seen[:5].tolist() == [False] * 3 + [True] * 2
    assert np.allclose(scores, (X @ last.coef_.T + last.intercept_) / (1 + np.asarray(known)), rtol=1e-15, atol=0)


def test_labels_of_all_rows_or_none_are_constant(tmp_path):
    Y = np.c_[TWO, np.ones_like(TWO), np.zeros_like(TWO)]
    pipeline, model = _saved(tmp_path, hpcml.BoostedBayesClassifier(rounds=2), Y, label_names=["sea", "all", "none"])
    assert np.array_equal(model.decision_function(TEXTS), pipeline.decision_function(TEXTS))
    assert model.decision_function(TEXTS[:1])[0, 1:].tolist() == [1, -1]
    assert model.model.labels["status"].tolist() == [0, 1, 1]
    assert model.model.labels["n_positive"].tolist() == Y.sum(axis=0).tolist() and model.model.attrs["n_rows"] == len(TEXTS)


VECTORISERS = [
    [CountVectorizer()],
    [CountVectorizer(binary=True, stop_words=["ship", "no"], dtype=np.float32)],
    [CountVectorizer(analyzer="char_wb", ngram_range=(2, 3), strip_accents="unicode", lowercase=False)],
    [CountVectorizer(vocabulary={"ship": 1, "court": 0, "no such": 2}, ngram_range=(1, 2))],
    [TfidfVectorizer(sublinear_tf=True, norm="l1", token_pattern=r"\S+", min_df=2)],
    [TfidfVectorizer(use_idf=False, stop_words="english", dtype=np.float32)],
    [CountVectorizer(max_features=9), TfidfTransformer(smooth_idf=False)],
    [HashingVectorizer(n_features=32)],
    [HashingVectorizer(n_features=64, alternate_sign=False, norm=None), TfidfTransformer()],
]


@pytest.mark.parametrize("vectoriser", VECTORISERS, ids=repr)
def test_rows_equal_those_of_the_vectoriser(tmp_path, vectoriser):
    pipeline, model = _saved(tmp_path, hpcml.DualClassifier(), vectoriser=vectoriser)
    texts = [*TEXTS, "", "Ünknown \n words: SHIP! court", "no such"]
    rows = model._row_maker.make_rows(texts)
    expected = sp.csr_matrix(pipeline[:-1].transform(texts), dtype=np.float32)
    expected.sort_indices()
    for part, name in ((rows.indptr, "indptr"), (rows.indices, "indices"), (rows.data, "data")):
        assert np.array_equal(part, getattr(expected, name)), name
    if hasattr(vectoriser[0], "vocabulary_"):
        assert model.model.raw_input.names == vectoriser[0].get_feature_names_out().tolist()
    assert model.top([""]) == [[]]  # a text without any known word


def test_all_kinds_of_rows_give_the_same_bits(tmp_path):
    pipeline, model = _saved(tmp_path, hpcml.DualClassifier(loss="logistic"), label_titles=["Farm", "", "At sea"])
    run, X = tmp_path / "run", pipeline[0].transform(TEXTS)
    scores = model.decision_function(TEXTS)
    for rows in (X, X.toarray(), [{"text": text} for text in TEXTS], pd.DataFrame({"other": 0, "text": TEXTS})):
        assert np.array_equal(model.decision_function(rows), scores)
    names = pipeline[0].get_feature_names_out()
    with hpcml.Dataset.from_sparse(X, NAMES, tmp_path / "docs.h5", feature_names=names) as data:
        assert np.array_equal(model.decision_function(data), scores)
        scorer = make_scorer(model.model, load_shard(SELF, data, "all"), np.arange(3))
        assert np.array_equal(np.concatenate([block for _, block in score_block(scorer, 0, 3)]), scores)
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    pd.DataFrame({"id": [f"r{k}" for k in range(len(TEXTS))], "text": TEXTS}).to_csv(tmp_path / "docs.csv", index=False)
    expected = model.predict_proba(TEXTS).astype(np.float32)
    for kind, first in (("jsonl", "1"), ("csv", "r0")):
        hpcml.predict(run, tmp_path / f"docs.{kind}", tmp_path / f"{kind}.csv", top=3)
        rows = table(tmp_path / f"{kind}.csv")
        assert len(rows) == 3 * len(TEXTS) and rows[0]["id"] == first
        for number, row in enumerate(rows):
            assert np.float32(row["probability"]) == expected[number // 3, model.labels.index(row["label"])]
    app = App(*open_suggester(SELF, run), RequestLimits(), lambda line: None)
    answer = ask(app, "POST", SUGGEST, {"text": TEXTS[1], "limit": 3}).json["results"]
    expected = dict(zip(model.labels, model.predict_proba(TEXTS[1:2])[0].tolist(), strict=True))
    assert {each["uri"]: each["score"] for each in answer} == expected
    assert {each["label"] for each in answer} == {"Farm", "law", "At sea"}


def test_titles_and_texts_of_a_document_are_joined_by_a_line_break(tmp_path):
    _, model = _saved(tmp_path, hpcml.DualClassifier(), vectoriser=[CountVectorizer(analyzer="char", vocabulary=["a", "b", "\n"])])
    rows = model._row_maker.make_rows([{"title": "a", "text": "bb"}, {"title": "ab"}])
    assert [rows.data.tolist(), rows.indices.tolist(), rows.indptr.tolist()] == [[1, 2, 1, 1, 1], [0, 1, 2, 0, 1], [0, 3, 5]]


def test_probabilities(tmp_path):
    pipeline, model = _saved(tmp_path, hpcml.DualClassifier(loss="logistic"))
    expected = 1 / (1 + np.exp(-model.decision_function(TEXTS)))
    assert np.allclose(model.predict_proba(TEXTS), expected, rtol=1e-14)
    assert np.allclose(model.predict_proba(TEXTS), pipeline.predict_proba(TEXTS), rtol=1e-6)
    _, weighted = _saved(tmp_path, hpcml.DualClassifier(loss="logistic", class_weight={"sea": 2.0}), force=True)
    with pytest.raises(ConfigError, match="has no probabilities"):  # as the estimator
        weighted.predict_proba(TEXTS)


def test_commands_read_saved_runs(tmp_path):
    pipeline, before = _saved(tmp_path, hpcml.DualClassifier())
    run, data, names = tmp_path / "run", tmp_path / "docs.h5", pipeline[0].get_feature_names_out()
    hpcml.Dataset.from_sparse(pipeline[0].transform(TEXTS), NAMES, data, feature_names=names).file.close()
    assert hpcml.evaluate(run, data, split="all").n_positive.tolist() == [
        sum(name in each for each in NAMES) for name in sorted(WORDS)
    ]
    hpcml.threshold(run, data, split="all", measure="label")
    hpcml.calibrate(run, data, split="all")
    after = hpcml.load(run)
    assert after.thresholds.any() and not before.thresholds.any()
    slope, offset = after.model.sigmoids
    assert np.allclose(after.predict_proba(TEXTS), 1 / (1 + np.exp(-slope * before.decision_function(TEXTS) - offset)), rtol=1e-14)
    assert np.array_equal(after.predict(TEXTS).toarray(), before.decision_function(TEXTS) > after.thresholds)
    hpcml.report([run], tmp_path / "report.html", data=data, split="all")
    page = (tmp_path / "report.html").read_text()
    assert "DualClassifier()" in page and "TfidfVectorizer(ngram_range=(1, 2))" in page
    assert set(names) >= {feature["name"] for label in json.loads(_explained(run, tmp_path)) for feature in label["features"]}
    with pytest.raises(ConfigError, match="saved by hpcml"):
        hpcml.retrain(run, data, tmp_path / "again")
    with pytest.raises(ConfigError, match="from_sparse"):
        hpcml.Dataset.from_frame(pd.DataFrame({"text": TEXTS}), tmp_path / "more.h5", text=["text"], like=run)


def _explained(run, folder):
    hpcml.explain(run, json=folder / "explained.json")
    return json.dumps(json.loads((folder / "explained.json").read_text())["labels"])


def test_saved_models_equal_those_of_the_command(tmp_path):
    X = sp.random(40, 12, 0.4, format="csr", random_state=0, dtype=np.float32)
    Y = (np.arange(40)[:, None] % [2, 3, 5] == 0).astype(int)
    hpcml.Dataset.from_sparse(X, Y, tmp_path / "rows.h5").file.close()
    train("dual", SELF, tmp_path / "rows.h5", tmp_path / "trained")
    hpcml.save(hpcml.DualClassifier().fit(X, Y), tmp_path / "saved")
    saved, trained = hpcml.open_model(tmp_path / "saved"), hpcml.open_model(tmp_path / "trained")
    assert saved.label_names == trained.label_names == ["0", "1", "2"] and saved.vocabulary == trained.vocabulary
    assert np.array_equal(saved.weights(), trained.weights()) and np.array_equal(saved.bias, trained.bias)
    for name in ("steps", "status", "n_positive", "f_min", "gap", "visited"):
        assert np.array_equal(saved.labels[name], trained.labels[name]), name
    assert {name: saved.attrs[name] for name in ("method", "loss", "lambda", "positive_weight", "n_rows")} == {
        name: trained.attrs[name] for name in ("method", "loss", "lambda", "positive_weight", "n_rows")
    }


def test_columns_of_frames_are_features(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)), columns=["age", "height", "länge"])
    model = hpcml.DualClassifier(loss="logistic").fit(frame, np.arange(30) % 2)
    hpcml.save(model, tmp_path / "run", label_names=["ill"], label_titles=["Is ill"])
    loaded = hpcml.load(tmp_path / "run")
    assert loaded.labels == ["ill"] and loaded.titles == ["Is ill"] and loaded.model.raw_input.names == list(frame)
    other = frame[["länge", "age", "height"]].assign(more=1.0)
    assert np.array_equal(loaded.decision_function(other), loaded.decision_function(frame.to_numpy()))
    assert np.array_equal(loaded.predict(other).toarray()[:, 0], model.predict(frame) == 1)
    with pytest.raises(DataError, match="'age'"):
        loaded.predict(frame[["height", "länge"]])


THREE = hpcml.DualClassifier().fit(np.eye(3), [0, 1, 2])
TOKENIZER = CountVectorizer(tokenizer=str.split, token_pattern=None)
FILES = HashingVectorizer(n_features=4)
INVALID = {  # estimator, arguments, and part of the message
    "not fitted": (hpcml.DualClassifier(), {}, "call fit"),
    "vectoriser not fitted": (make_pipeline(CountVectorizer(), THREE), {}, "call fit"),
    "other class": (LogisticRegression().fit([[0], [1]], [0, 1]), {}, "LogisticRegression"),
    "subclass": (type("Own", (hpcml.DualClassifier,), {})().fit([[0], [1]], [0, 1]), {}, "Own"),
    "step": (make_pipeline(StandardScaler(), hpcml.DualClassifier()).fit([[0], [1]], [0, 1]), {}, "StandardScaler"),
    "function": (make_pipeline(TOKENIZER, hpcml.DualClassifier()).fit(TEXTS, TWO), {}, "tokenizer"),
    "files": (
        make_pipeline(FILES, hpcml.DualClassifier()).fit(TEXTS, TWO).set_params(hashingvectorizer__input="file"),
        {},
        "input='file'",
    ),
    "number of names": (THREE, {"label_names": ["a", "b"]}, r"label_names=\['a', 'b'\]: .*\[0, 1, 2\]"),
    "one string": (THREE, {"label_titles": "abc"}, "label_titles='abc'"),
    "duplicate": (THREE, {"label_names": ["a", "b", "a"]}, "'a'"),
    "empty name": (hpcml.DualClassifier().fit(np.eye(3), ["a", "", "c"]), {}, "label_names: ''"),
    "surrogate": (THREE, {"label_names": ["a", "b", "\ud800"]}, r"label_names: '\\ud800'"),
    "feature": (
        make_pipeline(CountVectorizer(analyzer="char"), hpcml.DualClassifier()).fit(["a\0", "b"], [0, 1]),
        {},
        r"feature: '\\x00'",
    ),
    "titles": (
        hpcml.PsbmlClassifier(cycles=1).fit(np.eye(60)[:, :3], np.arange(60) % 2),
        {"label_titles": ["one"]},
        "label_titles: ",
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_rejects_what_cannot_be_saved(tmp_path, name):
    estimator, options, text = INVALID[name]
    with pytest.raises(ConfigError, match=text):
        hpcml.save(estimator, tmp_path / "run", **options)
    assert not list(tmp_path.iterdir())


def test_existing_runs_need_force(tmp_path):
    model = hpcml.DualClassifier().fit([[0], [1]], [0, 1])
    hpcml.save(model, tmp_path / "run")
    before = (tmp_path / "run" / "model.h5").read_bytes()
    with pytest.raises(ConfigError, match="exists already"):
        hpcml.save(model, tmp_path / "run", label_names=["new"])
    with pytest.raises(ConfigError, match="two labels"):
        hpcml.save(hpcml.DualClassifier().fit(np.eye(3), [0, 1, 2]), tmp_path / "run", label_names=[*"aab"], force=True)
    assert (tmp_path / "run" / "model.h5").read_bytes() == before
    hpcml.save(model, tmp_path / "run", label_names=["new"], force=True)
    assert hpcml.load(tmp_path / "run").labels == ["new"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="contains other files"):
        hpcml.save(model, tmp_path / "other", force=True)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match="is a file"):
        hpcml.save(model, tmp_path / "file", force=True)


def test_saved_online_models_cannot_be_continued(tmp_path):
    X, Y = np.eye(6), np.arange(6) % 3
    model = hpcml.OnlineClassifier("mbw", fit_intercept=True).fit(X, [str(y) for y in Y])
    hpcml.save(model, tmp_path / "run")
    hpcml.Dataset.from_sparse(X, [str(y) for y in Y], tmp_path / "rows.h5").file.close()
    with pytest.raises(OptionError, match=r"saved by hpcml\.save"):
        hpcml.train("mbw", tmp_path / "rows.h5", tmp_path / "more", initial_model=tmp_path / "run")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        (("words", "analyzer"), "import os"),
        (("words", "token_pattern"), "("),
        (("words", "ngram_range"), 3),
        (("tfidf",), [1]),
        (("words",), {}),
    ],
    ids=str,
)
def test_rejects_damaged_settings(tmp_path, part, value):
    _saved(tmp_path, hpcml.DualClassifier())
    path = tmp_path / "run" / "model.h5"

    def change(file):
        about = json.loads(file["input"].attrs["vectoriser"])
        *above, last = part
        (about[above[0]] if above else about)[last] = value
        file["input"].attrs["vectoriser"] = json.dumps(about)

    edit(path, change)
    with pytest.raises(DataError, match=r"model\.h5: damaged vectoriser"):
        hpcml.load(path).top(TEXTS)
