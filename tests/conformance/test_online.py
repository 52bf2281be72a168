"""Every single-pass learner, voted or not: its textbook form, its bits for any division of rows and labels, its errors."""

from dataclasses import replace
from functools import cache

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from support.make import dataset, names, random_data
from support.online import learnt, rows_of, same, shard_of
from support.oracles_online import BIAS, Learner
from support.training import asked, train

import hpcml.methods.online.source as source_module
from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import read_slab
from hpcml.errors import ConfigError, DataError
from hpcml.evaluation.evaluate import evaluate
from hpcml.log import Log
from hpcml.methods.online.kernels import CLOCK, NORM2, POSITIVES, SCALE, SHRINK, UNIT, UPDATES, _rescale
from hpcml.methods.online.options import LEARNERS
from hpcml.methods.online.state import LearnerState
from hpcml.model.linear import Model
from hpcml.model.scoring import Scorer
from hpcml.prediction.predict import predict

KINDS = [
    (method, asked(method, voted=voted, bias=bias))
    for method in LEARNERS
    for voted in (False, True)
    for bias in ((None,) if LEARNERS[method].winnow else (False, True))
]
IDS = [f"{'v-' * options.voted}{method}{'+1' * bool(options.bias)}" for method, options in KINDS]
every_kind = pytest.mark.parametrize(("method", "options"), KINDS, ids=IDS)
few_kinds = pytest.mark.parametrize(("method", "options"), KINDS[::2], ids=IDS[::2])  # one of each method
every_winnow = pytest.mark.parametrize("method", [method for method in LEARNERS if LEARNERS[method].winnow])
voted_or_not = pytest.mark.parametrize("voted", [False, True])


def oracle_of(method, options, rows, y):
    o = options
    out = Learner(method, o.voted, o.alpha, o.beta, o.theta, o.margin, o.epsilon, o.gamma, o.bias is not False)
    for x, label in zip(rows, y, strict=True):
        out.learn(x, 1 if label else -1)
    return out


def difference(state, oracle, lane=0):
    W, bias = state.linear()
    ref = oracle.linear()
    assert not set(ref) - {BIAS, *range(W.shape[1])}
    found = np.append(W[lane], bias[lane])
    expected = np.array([ref.get(j, 0.0) for j in range(W.shape[1])] + [ref[BIAS]])
    assert np.isfinite(found).all() and np.isfinite(expected).all()
    return np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-300)


@cache
def text_like(m=220, d=70, n_labels=3, seed=1, density=0.06):
    rng = np.random.default_rng(seed)
    X = sp.random(m, d, density, "csr", random_state=rng, data_rvs=lambda n: rng.random(n) + 0.01).astype(np.float32)
    T = rng.standard_normal((d, n_labels))
    return X, sp.csr_matrix((X @ T + 0.1 * rng.standard_normal((m, n_labels)) > 0.2).astype(float))


@cache
def uneven(m=150, d=30, seed=5):
    rng = np.random.default_rng(seed)
    X = sp.random(m, d, 0.1, "csr", random_state=rng, data_rvs=lambda n: 10.0 ** rng.uniform(-6, 6, n)).astype(np.float32)
    X = sp.vstack([X, X[:40], X[20:60]]).tocsr()
    return X, sp.csr_matrix((rng.random((X.shape[0], 2)) < 0.4).astype(float))


@cache
def one_feature(m=150, d=6, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.random((m, d)) * (rng.random((m, d)) < 0.5)
    X[::4] = 0
    X[::4, 0] = 10.0 ** rng.uniform(2, 30, X[::4].shape[0])
    return sp.csr_matrix(X.astype(np.float32)), sp.csr_matrix((rng.random((m, 2)) < 0.5).astype(float))


DATA = {"text": text_like, "uneven": uneven, "one feature": one_feature}


@pytest.mark.parametrize("data", DATA)
@every_kind
def test_weights_and_counters_are_those_of_the_textbook(method, options, data):
    if data == "one feature" and not LEARNERS[method].winnow:
        return  # rows are parallel except for rounding, so the result is undefined
    X, Y = DATA[data]()
    state, rows = learnt(method, X, Y, options), rows_of(X)
    for lane, y in enumerate(Y.toarray().T > 0):
        oracle = oracle_of(method, options, rows, y)
        positives, false_positives, false_negatives, updates = state.counters[:, lane].tolist()
        assert (positives, false_positives + false_negatives, updates) == (y.sum(), oracle.wrong, oracle.updates)
        assert difference(state, oracle, lane) <= 1e-12


OTHER_OPTIONS = {
    "pw": {"alpha": 3.0, "beta": 0.9, "theta": 0.25},
    "bw": {"alpha": 1.01, "beta": 0.99, "theta": 0.0},
    "mbw": {"alpha": 1.1, "beta": 0.7, "theta": 2.0, "margin": 0.0},
    "pa": {"epsilon": 0.0, "gamma": 0.0},
}


@pytest.mark.parametrize("method", OTHER_OPTIONS)
def test_options_equal_the_textbook(method):
    X, Y = text_like()
    rows = rows_of(X)
    for voted in (False, True):
        options = asked(method, voted=voted, **OTHER_OPTIONS[method])
        state = learnt(method, X, Y, options)
        assert difference(state, oracle_of(method, options, rows, Y.toarray()[:, 0] > 0)) <= 1e-12
        assert difference(state, oracle_of(method, asked(method, voted=voted), rows, Y.toarray()[:, 0] > 0)) > 1e-3


@voted_or_not
def test_romma_keeps_the_length_of_its_weights(voted):
    rng = np.random.default_rng(0)
    X, y = rng.random((1000, 8)) < 0.6, rng.random(1000) < 0.5
    options = asked("romma", voted=voted, bias=False)
    state = learnt("romma", X, y[:, None], options)
    oracle = oracle_of("romma", options, rows_of(X), y)
    assert state.counters[UPDATES].tolist() == [oracle.updates]
    assert difference(state, oracle) <= 1e-9
    if not voted:
        W, _ = state.linear()
        assert state.lanes[NORM2, 0] == pytest.approx((W**2).sum(), rel=1e-9)


@few_kinds
def test_empty_rows_and_constant_labels(method, options):
    X = np.array([[0, 0], [1, 0], [0, 0], [0, 0.5], [0, 0], [1, 0.5]], dtype=np.float32)
    for y in (np.ones(6), np.zeros(6), np.arange(6) % 2):
        state = learnt(method, X, y[:, None], options)
        assert difference(state, oracle_of(method, options, rows_of(X), y > 0)) <= 1e-12
        assert state.counters[POSITIVES, 0] == y.sum()
    nothing = learnt(method, X[:0], np.zeros((0, 1)), options)
    W, intercept = nothing.linear()
    assert W.tolist() == [[0, 0]] and nothing.n_rows == 0 and not nothing.seen.any()
    assert intercept[0] == difference(nothing, oracle_of(method, options, [], [])) == 0 or LEARNERS[method].winnow


@few_kinds
def test_labels_together_have_the_bits_of_labels_alone(method, options):
    X, Y = text_like(n_labels=11)
    together = learnt(method, X, Y, options)
    W, intercept = together.linear()
    _, rows = together.model_features()
    for some in ([3], [10, 1, 4], range(2, 11)):
        some = np.array(some)
        apart = learnt(method, X, Y, options, some)
        assert apart.linear()[0].tobytes() == W[some].tobytes() and apart.linear()[1].tobytes() == intercept[some].tobytes()
        for lane, label in enumerate(some.tolist()):
            theirs = together.state_arrays(label, np.append(0, rows))
            assert all(
                mine.tobytes() == theirs[name].tobytes() for name, mine in apart.state_arrays(lane, np.append(0, rows)).items()
            )


@few_kinds
def test_any_cut_of_the_rows_has_the_bits_of_one_piece(method, options):
    X, Y = text_like()
    whole, rng = learnt(method, X, Y, options), np.random.default_rng(0)
    for n in (1, 4, 60):
        cuts = np.sort(rng.choice(221, n))
        state, grown = LearnerState(options, method, 3, 70), LearnerState(options, method, 3, 0)
        for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), 220], strict=True):
            part = X[begin:end]
            width = int(part.indices.max(initial=-1)) + 1  # a stream reveals the width only row by row
            state.learn(shard_of(part, Y[begin:end], begin), np.arange(end - begin))
            grown.learn(shard_of(part[:, :width], Y[begin:end], begin), np.arange(end - begin))
        assert same(state, whole) and same(grown, whole)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("online")
    X, Y = text_like()
    X, Y = X.tolil(), sp.csr_matrix(np.column_stack([Y.toarray(), np.arange(220) >= 200]))
    X[:160, 60:] = 0
    X[170, 65] = 5
    splits = {"first": np.arange(100), "second": np.arange(100, 160), "train": np.arange(160), "test": np.arange(160, 220)}
    return dataset(folder / "data.h5", X.tocsr(), Y, names("feature", 70), splits=splits)


def arrays_of(path):
    with h5py.File(path) as file:
        found = {}
        file.visititems(lambda name, node: found.__setitem__(name, node[()] if isinstance(node, h5py.Dataset) else None))
        found = {name: a.tolist() if a.dtype == object else a.tobytes() for name, a in found.items() if a is not None}
        return found | {name: file.attrs[name] for name in ("method", "vocabulary", "n_rows", "normalised", "voted", "bias")}


def matrices(path):
    with DataFile(path) as data:
        shapes = (data.n_rows, data.n_features), (data.n_rows, data.n_labels)
        parts = [[np.array(data.map(f"{name}/{part}")) for part in ("data", "indices", "indptr")] for name in "XY"]
    X, Y = (sp.csr_matrix(tuple(arrays), shape) for arrays, shape in zip(parts, shapes, strict=True))
    return X, Y.toarray()


def of_split(path, split):
    data = DataFile(path)
    rows = data.split(split)
    return read_slab(data, rows, 0, rows.size)


@every_kind
def test_model_scores_as_the_learner_does(files, tmp_path, method, options):
    options = replace(options, min_positives=0)
    model = Model(train(method, None, files, tmp_path / "run", options).model)
    shard, test = of_split(files, "train"), of_split(files, "test")
    state = LearnerState(options, method, 4, 70)
    state.learn(shard, shard.rows)
    W, intercept = state.linear()
    found = model.weights()
    assert not found[:, ~state.seen].any() and found[:, state.seen].tobytes() == W[:, state.seen].tobytes()
    assert np.asarray(model.bias).tobytes() == intercept.tobytes()
    assert model.normalised == LEARNERS[method].winnow and (model.factors != 0).tolist() == state.seen.tolist()
    assert not state.seen[60:].any() and model.labels["n_positive"].tolist() == state.counters[POSITIVES].tolist()

    scorer, labels = Scorer(model, test, np.arange(4)), np.arange(4)
    scores = scorer.score_rows(test.rows, *scorer.weights(0, 4))
    pairs = scorer.score_pairs(np.repeat(test.rows, 4), np.tile(labels, 60)).reshape(60, 4)
    assert scores.tobytes() == pairs.tobytes()
    X, Y = matrices(files)
    rows, seen = rows_of(X[160:]), rows_of(X[:160])
    for label in range(3):
        oracle = oracle_of(method, options, seen, Y[:160, label] > 0)
        expected = [score_of(oracle, row) for row in rows]
        np.testing.assert_allclose(scores[:, label], expected, rtol=1e-11, atol=1e-11)
        assert ((scores[:, label] > 0) == (np.array(expected) > 0)).all()


def score_of(oracle, row):
    weights, start = oracle.weights(), oracle.start
    row = {j: x for j, x in row.items() if j in weights and j != BIAS}
    if oracle.bias:
        row[BIAS] = 1.0
    total = sum(row.values()) if oracle.winnow else 1.0
    dots = [sum(x / total * weights.get(j, start)[part] for j, x in row.items()) for part in range(len(start))]
    return dots[0] - (dots[1] if len(dots) > 1 else 0.0) - (oracle.theta if oracle.winnow else 0.0)


@every_kind
def test_initial_model_continues_with_the_bits_of_one_pass(files, tmp_path, method, options):
    options = replace(options, label=("label0", "label2"), split="train")
    whole = train(method, None, files, tmp_path / "whole", options)
    first = train(method, None, files, tmp_path / "first", replace(options, split="first"))
    second = train(method, None, files, tmp_path / "second", replace(options, split="second", initial_model=first.model))
    assert arrays_of(second.model) == arrays_of(whole.model)
    assert second.n_rows == 160 and second.error == whole.error


def test_final_model_stores_its_non_zero_weights(tmp_path):
    X, Y = random_data(3, 40, 400, 5, density=0.02)
    data = dataset(tmp_path / "data.h5", X, Y)
    state, final = (
        Model(train("perceptron", None, data, tmp_path / f"final-{final}", {"final": final}).model) for final in (False, True)
    )
    assert (state.sparse, final.sparse) == (False, True)
    assert np.array_equal(final.weights(), state.weights())


def test_progressive_errors_are_counted_before_the_row_is_learnt(files, tmp_path):
    options = asked("mbw", min_positives=0)
    report = train("mbw", None, files, tmp_path / "run", options)
    X, Y = matrices(files)
    rows, lines = rows_of(X[:160]), (tmp_path / "run" / "history.csv").read_text().splitlines()
    assert lines[0] == "label,rows,positives,false_positives,false_negatives,updates,error,recent_error"
    expected, wrong = [], 0
    for label in range(4):
        y, before, n_before = Y[:160, label] > 0, 0, 0
        for n in (1, 2, 4, 8, 16, 32, 64, 128, 160):
            oracle = oracle_of("mbw", options, rows[:n], y[:n])
            recent = (oracle.wrong - before) / (n - n_before)
            expected.append([n, y[:n].sum(), oracle.wrong, oracle.updates, oracle.wrong / n, recent])
            before, n_before = oracle.wrong, n
        wrong += before
    found = [line.split(",") for line in lines[1:]]
    assert [line[0] for line in found] == [f"label{label}" for label in range(4) for _ in range(9)]
    found = [[int(a), int(b), int(c) + int(d), int(e), float(f), float(g)] for _, a, b, c, d, e, f, g in found]
    assert found == expected
    assert report.error == wrong / (4 * 160)


def test_shuffling_follows_the_seed_and_not_the_pieces(files, tmp_path, monkeypatch):
    options = asked("mbw", shuffle=True, seed=3, voted=True)
    chosen = {"same": options, "pieces": options, "other": replace(options, seed=4), "none": asked("mbw", voted=True)}
    models = {}
    for name, each in chosen.items():
        monkeypatch.setattr(source_module, "PIECE_NNZ", 60 if name == "pieces" else 1 << 22)
        models[name] = train("mbw", None, files, tmp_path / name, each).model.read_bytes()
    assert models["same"] == models["pieces"] and len(set(models.values())) == 3


def test_trains_continues_and_scores_without_values(tmp_path, monkeypatch):
    X, Y = np.zeros((50, 3)), np.arange(50)[:, None] % 2
    X[40:, 1] = 1
    data = dataset(tmp_path / "data.h5", X, Y, splits={"none": [], "some": np.arange(50)})
    for method in LEARNERS:
        report = train(method, None, data, tmp_path / f"none-{method}", {"split": "none", "min_positives": 0})
        assert (report.n_rows, report.n_features, report.error) == (0, 0, 0)
        with pytest.raises(ConfigError, match="no label has 1 positive rows"):
            train(method, None, data, tmp_path / "run", {"split": "none"})
        more = asked(method, split="some", initial_model=report.model)
        alone = train(method, None, data, tmp_path / f"alone-{method}", {"split": "some"})
        continued = train(method, None, data, tmp_path / f"more-{method}", more)
        assert continued.model.read_bytes() == alone.model.read_bytes()
        predict(mpi.self_comm(), Model(report.model), DataFile(data), "all", tmp_path / f"{method}.csv", False, Log(0))


def test_winnow_models_reject_negative_values(tmp_path):
    X, Y = random_data(3, 30, 8, 2, density=0.5)
    X.data = np.abs(X.data)
    X[25, int(X[[25]].indices[0])] = -2
    data = dataset(tmp_path / "data.h5", X, Y, splits={"train": np.arange(20), "test": np.arange(20, 30)})
    arguments = mpi.self_comm(), Model(train("mbw", None, data, tmp_path / "run", {}).model), DataFile(data), "test"
    for call in (lambda: evaluate(*arguments, Log(0)), lambda: predict(*arguments, tmp_path / "out.csv", False, Log(0))):
        with pytest.raises(DataError, match=r"row 25 \(from 0\): negative"):
            call()
    assert not (tmp_path / "out.csv").exists()


@every_winnow
@voted_or_not
def test_winnow_is_the_textbook_at_its_lower_limit(method, voted):
    rng = np.random.default_rng(3)
    X = (rng.random((2500, 8)) < 0.35) & (rng.random((2500, 1)) < 0.99)  # some rows are empty; labels are random
    y, options = rng.random(2500) < 0.5, asked(method, voted=voted, beta=0.1)
    state, n_vectors = learnt(method, X, y[:, None], options), len(LEARNERS[method].weights)
    if method == "mbw":
        assert state.weights[:, :n_vectors].min() == 2.0**-10
    oracle = oracle_of(method, replace(options, voted=False), rows_of(X), y)
    assert state.counters[UPDATES, 0] == oracle.updates
    for j in range(8):
        np.testing.assert_allclose(state.weights[j + 1, :n_vectors], oracle.w[j], rtol=1e-9)


def test_rescaling_keeps_the_direction_of_the_average():
    lanes, weights = np.zeros((5, 1)), np.array([[1.0, 2.0], [3.0, 5.0]])
    lanes[[CLOCK, SCALE, NORM2, UNIT], 0] = 6.0, 4.0, 1e101, 1.0
    before = lanes[CLOCK, 0] * weights[:, 0] - weights[:, 1]
    _rescale(lanes, 0, weights, 0.0, True)
    assert (lanes[CLOCK, 0] * weights[:, 0] - weights[:, 1]).tolist() == (SHRINK * before).tolist()
