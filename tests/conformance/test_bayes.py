"""Naive Bayes, boosted and in stages: the paper's twins, scikit-learn, degenerate labels, parts, interruptions, headings."""

import json
from itertools import pairwise

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import spearmanr
from sklearn.naive_bayes import BernoulliNB
from support import oracles_bayes as twins
from support.converted import converted
from support.make import dataset
from support.training import train

import hpcml
from hpcml.data.dataset import DataFile
from hpcml.data.info import format_info, info
from hpcml.errors import ConfigError, DataError, NonFiniteError
from hpcml.log import Log
from hpcml.methods.bayes import solvers
from hpcml.methods.bayes.options import MOST_PARTS as LIMIT
from hpcml.methods.bayes.solvers import probabilities
from hpcml.methods.registry import METHODS
from hpcml.model.combination import MOST_PARTS, Stages, Voter, Votes, as_numbers
from hpcml.model.linear import Model
from hpcml.mpi import self_comm
from hpcml.reduce.dataset import reduce_dataset

N, D, L = 150, 30, 4
ROOM = ("bernoulli-nb", "boosted-bayes", "staged-bayes", "staged-svm")
each = pytest.mark.parametrize("method", ROOM)


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    """(data file, training rows, test rows, labels of the training rows): labels that some features speak for, empty rows."""
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
def test_weights_are_those_of_the_twin(problem, tmp_path, options):
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


def test_scikit_learn_ranks_alike_where_the_models_coincide(problem, tmp_path):
    path, rows, test_rows, Y = problem
    found = scores(trained("bernoulli-nb", path, tmp_path, smoothing=1.0, min_weight=0.0), path, tmp_path)
    for label in range(L):
        columns = sorted({term for row, has in zip(rows, Y[:, label], strict=True) if has for term in row})
        X, X_test = ([[float(term in row) for term in columns] for row in some] for some in (rows, test_rows))
        chances = BernoulliNB(alpha=1.0).fit(X, Y[:, label]).predict_joint_log_proba(X_test)
        odds = chances[:, 1] - chances[:, 0]
        np.testing.assert_allclose(found[:, label], odds, atol=1e-10)
        assert spearmanr(found[:, label].round(9), odds.round(9)).statistic == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("options", [{}, {"trim": 0.4, "n_rounds": 3, "min_weight": 0.5}])
def test_boosting_is_that_of_the_twin(problem, tmp_path, options):
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
def test_stages_rank_as_the_twin(problem, tmp_path, method, case):
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


@pytest.mark.parametrize("method", ROOM[1:])
def test_what_several_weight_vectors_cannot_do_and_damage(problem, tmp_path, method):
    path = problem[0]
    model = trained(method, path, tmp_path)
    from hpcml.evaluation.explain import explain
    from hpcml.reduce.prune import prune

    with DataFile(path) as data:
        with pytest.raises(ConfigError, match="explain takes models with one weight vector"):
            explain(self_comm(), model, (), 3, False)
        with pytest.raises(ConfigError, match="several weights per feature"):
            prune(self_comm(), model, data, "test", [0.1], None, False, Log(0))
    with h5py.File(model.path, "r+") as file:
        behind = int(file.attrs["parts"]) * int(file.attrs["width"])
        numbers = np.flatnonzero(file["W/indices"][:] >= behind)
        if method == "boosted-bayes":
            file["W/data"][numbers[0]] = np.nan
        else:
            file.attrs["parts"] = np.int64(file.attrs["parts"] + 1)
    with pytest.raises((DataError, NonFiniteError), match=r"damaged model|'label0' is not a finite number"):
        scores(Model(model.path), path, tmp_path)


@each
def test_values_that_are_0_are_absent_ones(problem, tmp_path, method):
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


def test_too_wide_for_a_model(problem, tmp_path, monkeypatch):
    monkeypatch.setattr(solvers, "WIDEST", 2 * D)
    assert MOST_PARTS == LIMIT  # what may be trained can be read
    with pytest.raises(ConfigError, match="2 times 30 features are too many for a model"):
        train("staged-bayes", None, problem[0], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_rules():
    bounds, values = probabilities(np.array([1.0, 2, 2, 3, 4, 5]), np.array([0, 1, 0, 0, 1, 1]), np.full(6, 1 / 6))
    assert bounds.tolist() == [1, 3, 5] and values == pytest.approx([0, 1 / 3, 1])
    votes = Votes.decode(as_numbers([Voter(2.0, bounds, values), Voter(1.0, np.array([0.0]), np.array([0.5]))]), 3)
    found = votes(np.array([[0.5, 1.0, 1.5, 3.5, 9.0], [0.0] * 5, [np.nan] * 5]))
    assert found + 0.5 == pytest.approx([0.5 / 3, 0.5 / 3, (2 / 3 + 0.5) / 3, 2.5 / 3, 2.5 / 3])
    even = Votes((Voter(1.0, np.array([0.0]), np.array([0.5])),))(np.zeros((1, 1)))
    assert even[0] > 0  # a category at 1/2
    stages = Stages(1.0, (1.0, 3.0), np.array([0.0, 0.5]))
    found = stages(np.array([[-9.0, 1.0, 1.1, 1.1, 2.0], [7.0, 7.0, -99.0, 2.0, 2.0]]))
    assert (np.diff(found) > 0).all() and found[3] == pytest.approx(1.1 + 7.5) and found[2] > -1 >= found[1]


@pytest.fixture
def documents(tmp_path):
    """JSON lines where a word tells little and another heading much."""
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


@pytest.mark.parametrize("fields", [{}, {"fields": ("text=T",)}, {"pairs": True}])
def test_headings_are_features_of_their_own(documents, tmp_path, fields):
    path = converted("jsonl", documents, tmp_path / "data.h5", headings_as_features=True, binary=True, **fields).output
    again = converted("jsonl", documents, tmp_path / "like.h5", like=path).output
    assert again.read_bytes() == path.read_bytes()
    with DataFile(path) as data:
        names, labels = data.strings("feature_names"), data.label_names()
        X, Y = (
            sp.csr_matrix((np.ones(data.map(f"{k}/indices").size), data.map(f"{k}/indices"), data.map(f"{k}/indptr")), (120, n))
            for k, n in (("X", data.n_features), ("Y", data.n_labels))
        )
    assert len(set(names)) == len(names) and (f"york x{' T' if 'fields' in fields else ''}" in names) == ("pairs" in fields)
    for number, label in enumerate(labels):  # a heading's column is its label's
        assert (X[:, names.index(f"{label} (heading)")].toarray() == Y[:, number].toarray()).all()


@each
def test_a_label_does_not_see_its_own_heading(documents, tmp_path, method):
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


def test_what_headings_refuse(documents, tmp_path):
    data = converted("jsonl", documents, tmp_path / "data.h5", headings_as_features=True).output
    plain = converted("jsonl", documents, tmp_path / "plain.h5").output
    with pytest.raises(ConfigError, match=r"--exclude Rodent: no such heading .*; did you mean 'Rodents'"):
        train("bernoulli-nb", None, data, tmp_path / "no", {"exclude": ("Rodent",)})
    with pytest.raises(ConfigError, match="has no headings as features; convert with --headings-as-features"):
        train("bernoulli-nb", None, plain, tmp_path / "no", {"exclude": ("Mice, Inbred",)})
    with pytest.raises(ConfigError, match="reserved for headings"):
        converted("jsonl", documents, tmp_path / "no.h5", fields=("text=(heading)",))
    few = tmp_path / "few.h5"
    with DataFile(data) as file:
        assert "headings True" in format_info(info(self_comm(), data, [1]))
        reduce_dataset(self_comm(), file, np.arange(file.n_features)[1:], few, False)
    with pytest.raises(ConfigError, match="would leak them to"):
        train("dual", None, few, tmp_path / "no")
    kept, told = (hpcml.cross_validate(["multinomial-nb"], [f"{file}:Rodents"], folds=3, split="train") for file in (plain, data))
    assert told.f1[0].mean() < 100 and told.f1[0].mean() != kept.f1[0].mean()  # with other headings, but not the answer


def test_options_that_make_no_sense():
    for method, options, sentence in (
        ("bernoulli-nb", {"smoothing": 0.0}, "--smoothing 0.0: expected a number above 0"),
        ("bernoulli-nb", {"min_weight": -1.0}, "--min-weight -1.0: expected at least 0"),
        ("boosted-bayes", {"rounds": 0}, "--rounds 0: expected at least 1"),
        ("boosted-bayes", {"trim": 1.0}, "--trim 1.0: expected a share"),
        ("staged-bayes", {"stages": 1}, "--stages 1: expected at least 2"),
        ("staged-bayes", {"cut": float("nan")}, "--cut nan: expected a finite number"),
        ("staged-svm", {"svm_c": 0.0}, "--svm-c 0.0: expected a number above 0"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            METHODS[method].options(**options).validate()
