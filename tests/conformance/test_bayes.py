"""Naive Bayes, boosted and in stages: independent implementations, scikit-learn, stored zeros, headings, errors."""

import json
from itertools import pairwise

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.naive_bayes import BernoulliNB
from support import oracles_bayes as twins
from support.converted import converted
from support.make import dataset
from support.training import train

import hpcml
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, DataError
from hpcml.methods.bayes import solvers
from hpcml.methods.bayes.options import MAX_PARTS as LIMIT
from hpcml.methods.bayes.solvers import fit_isotonic
from hpcml.model.combination import MOST_PARTS, Stages, Voter, Votes, encode_votes
from hpcml.model.linear import Model
from hpcml.mpi import self_comm
from hpcml.reduce.files import reduce_dataset

N, D, L = 150, 30, 4
ROOM = ("bernoulli-nb", "boosted-bayes", "staged-bayes", "staged-svm")
each = pytest.mark.parametrize("method", ROOM)


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    rng = np.random.default_rng(7)
    Y = rng.random((2 * N, L)) < np.array([0.3, 0.1, 0.05, 0.5])
    chance = 0.06 + 0.4 * (Y @ (rng.random((L, D)) < 0.25))
    X = (rng.random((2 * N, D)) < np.minimum(chance, 0.9)) * rng.normal(0, 1, (2 * N, D))
    X[5], X[N + 5] = 0, 0
    Y[:N, 2] &= rng.random(N) < 0.6
    parts = {"train": np.arange(N), "test": np.arange(N, 2 * N)}
    path = dataset(tmp_path_factory.mktemp("bayes") / "data.h5", sp.csr_matrix(X.astype(np.float32)), Y, splits=parts)
    rows = twins.rows_of(sp.csr_matrix(X))
    return path, rows[:N], rows[N:], Y[:N].astype(int)


def trained(method, path, folder, **options):
    return Model(train(method, None, path, folder / "run", options).model)


def scores(model, path, folder, split="test"):
    hpcml.predict(model.path, path, folder / "scores.h5", split=split, all_scores=True)
    with h5py.File(folder / "scores.h5") as file:
        return file["scores"][:]


@pytest.mark.parametrize("options", [{}, {"smoothing": 1.0, "min_weight": 0.0}])
def test_weights_equal_the_oracle(problem, tmp_path, options):
    path, rows, test_rows, Y = problem
    model = trained("bernoulli-nb", path, tmp_path, **options)
    found = scores(model, path, tmp_path)
    for label in range(L):
        weights, absent = twins.naive_bayes(rows, Y[:, label], **options)
        dense = np.zeros(D)
        dense[list(weights)] = list(weights.values())
        assert weights and np.abs(model.weights(label) - dense).max() < 1e-12
        bias = absent + np.log(Y[:, label].sum() / (N - Y[:, label].sum()))
        assert model.bias[label] == pytest.approx(bias, abs=1e-12)
        expected = [bias + twins.score(row, weights) for row in test_rows]
        np.testing.assert_allclose(found[:, label], expected, atol=1e-11)
        if options:  # the model of scikit-learn, on the features of positive rows
            columns = sorted({term for row, has in zip(rows, Y[:, label], strict=True) if has for term in row})
            X, X_test = ([[float(term in row) for term in columns] for row in part] for part in (rows, test_rows))
            chances = BernoulliNB(alpha=1.0).fit(X, Y[:, label]).predict_joint_log_proba(X_test)
            np.testing.assert_allclose(found[:, label], chances[:, 1] - chances[:, 0], atol=1e-10)


@pytest.mark.parametrize("options", [{}, {"trim": 0.4, "n_rounds": 3, "min_weight": 0.5}])
def test_boosting_equals_the_oracle(problem, tmp_path, options):
    path, rows, test_rows, Y = problem
    asked = {"rounds" if name == "n_rounds" else name: value for name, value in options.items()}
    model = trained("boosted-bayes", path, tmp_path, **asked)
    found = scores(model, path, tmp_path) + 0.5
    lines = (tmp_path / "run" / "history.csv").read_text().splitlines()[1:]
    n_rounds = []
    for label in range(L):
        expected, epsilons = twins.boosted(rows, Y[:, label], test_rows, **options)
        np.testing.assert_allclose(found[:, label], expected, atol=1e-9)
        told = [float(line.split(",")[4]) for line in lines if line.startswith(f"label{label},")]
        np.testing.assert_allclose(told, epsilons, atol=1e-12)
        n_rounds.append(len(epsilons))
    assert max(n_rounds) == options.get("n_rounds", 6) and model.labels["steps"].tolist() == n_rounds


STAGED = {
    "staged-bayes": [({}, (3.0,)), ({"stages": 3, "cut": 0.5, "factor": 2.0}, (2.0, 2.0))],
    "staged-svm": [({}, (10.0,)), ({"cut": 1.0, "factor": 0.3}, (0.3,))],
}


@pytest.mark.parametrize(("method", "case"), [(method, case) for method in STAGED for case in range(2)])
def test_stages_rank_as_the_oracle(problem, tmp_path, method, case):
    path, rows, test_rows, Y = problem
    options, factors = STAGED[method][case]
    found = scores(trained(method, path, tmp_path, **options), path, tmp_path)
    places = set()
    for label in range(L):
        stage = twins.bayes_stage() if method == "staged-bayes" else twins.svm_stage(D)
        cut = {"cut": options["cut"]} if "cut" in options else {}
        keys = twins.staged(rows, Y[:, label], test_rows, stage, factors=factors, **cut)
        order = sorted(range(N), key=keys.__getitem__)
        for i, j in pairwise(order):
            same = keys[i][0] == keys[j][0] and keys[j][1] - keys[i][1] < 1e-9
            assert abs(found[j, label] - found[i, label]) < 1e-8 if same else found[j, label] > found[i, label]
        last = [place == len(factors) for place, _ in keys]
        positive = [at_last and value > 0 for at_last, (_, value) in zip(last, keys, strict=True)]
        assert (found[:, label] > 0).tolist() == positive
        places |= {place for place, _ in keys}
    assert places == set(range(len(factors) + 1))


@each
def test_stored_zeros_count_as_absent(problem, tmp_path, method):
    path = problem[0]
    with DataFile(path) as data:
        X, Y = (
            sp.csr_matrix((np.array(data.map(f"{k}/data")), data.map(f"{k}/indices"), data.map(f"{k}/indptr")), (2 * N, n))
            for k, n in (("X", D), ("Y", L))
        )
    X.data[::3] = 0
    parts = {"train": np.arange(N), "test": np.arange(N, 2 * N)}
    stored = dataset(tmp_path / "stored.h5", X, Y, splits=parts)
    X = X.copy()
    X.eliminate_zeros()
    absent = dataset(tmp_path / "absent.h5", X, Y, splits=parts)
    models = [trained(method, data, tmp_path / data.stem) for data in (stored, absent)]
    assert models[0].path.read_bytes() == models[1].path.read_bytes()
    assert scores(models[0], stored, tmp_path / "stored").tobytes() == scores(models[1], absent, tmp_path / "absent").tobytes()


def test_rejects_models_with_too_many_columns(problem, tmp_path, monkeypatch):
    monkeypatch.setattr(solvers, "MAX_COLUMNS", 2 * D)
    assert MOST_PARTS == LIMIT  # every model that can be trained can be read
    with pytest.raises(ConfigError, match="2 times 30 features are too many for a model"):
        train("staged-bayes", None, problem[0], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_rules():
    bounds, values = fit_isotonic(np.array([1.0, 2, 2, 3, 4, 5]), np.array([0, 1, 0, 0, 1, 1]), np.full(6, 1 / 6))
    assert bounds.tolist() == [1, 3, 5] and values == pytest.approx([0, 1 / 3, 1])
    votes = Votes.decode(encode_votes([Voter(2.0, bounds, values), Voter(1.0, np.array([0.0]), np.array([0.5]))]), 3)
    found = votes(np.array([[0.5, 1.0, 1.5, 3.5, 9.0], [0.0] * 5, [np.nan] * 5]))
    assert found + 0.5 == pytest.approx([0.5 / 3, 0.5 / 3, (2 / 3 + 0.5) / 3, 2.5 / 3, 2.5 / 3])
    even = Votes((Voter(1.0, np.array([0.0]), np.array([0.5])),))(np.zeros((1, 1)))
    assert even[0] > 0  # a category at 1/2
    stages = Stages(1.0, (1.0, 3.0), np.array([0.0, 0.5]))
    found = stages(np.array([[-9.0, 1.0, 1.1, 1.1, 2.0], [7.0, 7.0, -99.0, 2.0, 2.0]]))
    assert (np.diff(found) > 0).all() and found[3] == pytest.approx(1.1 + 7.5) and found[2] > -1 >= found[1]


@pytest.fixture
def documents(tmp_path):
    rng = np.random.default_rng(3)
    lines = []
    for row in range(120):
        labels = [name for name, chance in (("Mice, Inbred", 0.4), ("york x", 0.3)) if rng.random() < chance]
        labels += ["Rodents"] if "Mice, Inbred" in labels and rng.random() < 0.9 else []
        text = "new york x " * (row % 3 == 0) + ("mouse " if rng.random() < (0.6 if labels else 0.3) else "cat") + " end"
        lines.append(json.dumps({"text": text, "labels": labels, "split": "test" if row >= 90 else "train"}))
    path = tmp_path / "documents.jsonl"
    path.write_text("\n".join(lines))
    return path


@each
def test_label_does_not_use_its_own_heading(documents, tmp_path, method):
    data = converted("jsonl", documents, tmp_path / "data.h5", headings_as_features=True).output
    with DataFile(data) as file:
        names = file.strings("feature_names")
    headings = {name: names.index(f"{name} (heading)") for name in ("Mice, Inbred", "Rodents", "york x")}
    options = {"min_weight": 0.0} | ({"cut": -9.0} if "staged" in method else {})
    model = trained(method, data, tmp_path, **options)
    used = {}
    for number, label in enumerate(model.label_names):
        parts = [0] if model.combination is None else range(model.combination.n_parts)
        found = sum(np.abs(model.rows(np.array([number]), part)[0]) for part in parts)[model.columns] * model.factors
        used[label] = {name for name, feature in headings.items() if found[feature]}
    assert all(label not in seen for label, seen in used.items()) and "Mice, Inbred" in used["Rodents"]
    hidden = trained(method, data, tmp_path / "hidden", exclude=("Mice, Inbred",), **options)
    rodents = hidden.label_names.index("Rodents")
    assert not hidden.weights(rodents)[headings["Mice, Inbred"]] and hidden.weights(rodents)[headings["york x"]]


def test_rejects_damaged_models_and_unknown_headings(problem, documents, tmp_path):
    model = trained("staged-bayes", problem[0], tmp_path)
    with h5py.File(model.path, "r+") as file:
        file.attrs["parts"] = np.int64(file.attrs["parts"] + 1)
    with pytest.raises(DataError, match="damaged model"):
        scores(Model(model.path), problem[0], tmp_path)
    data = converted("jsonl", documents, tmp_path / "data.h5", headings_as_features=True).output
    plain = converted("jsonl", documents, tmp_path / "plain.h5").output
    few = tmp_path / "few.h5"
    with DataFile(data) as file:
        reduce_dataset(self_comm(), file, np.arange(file.n_features)[1:], few, False)
    for method, path, options in (
        ("bernoulli-nb", data, {"exclude": ("Rodent",)}),
        ("bernoulli-nb", plain, {"exclude": ("Mice, Inbred",)}),
        ("dual", few, {}),  # labels are features
        ("boosted-bayes", data, {"trim": 1.0}),
    ):
        with pytest.raises(ConfigError):
            train(method, None, path, tmp_path / "no", options)
    hidden, leaked = (hpcml.cross_validate(["multinomial-nb"], [f"{f}:Rodents"], folds=3, split="train") for f in (plain, data))
    assert (
        leaked.f1[0].mean() < 100 and leaked.f1[0].mean() != hidden.f1[0].mean()
    )  # the label's own heading is hidden, others are used
