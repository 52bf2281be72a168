"""Live features against an eager implementation of the documented rule, and warnings about the order of rows."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from support.make import dataset
from support.online import learnt, resumed, rows_of, same, shard_of
from support.oracles_online import BIAS, Learner
from support.training import asked, train

import hpcml.methods.online.source as source_module
from hpcml import mpi
from hpcml.data.shard import Shard
from hpcml.methods.online.live import KEEP_SHARE
from hpcml.methods.online.order import RowOrder
from hpcml.methods.online.state import LearnerState
from hpcml.model.linear import Model


def data_of(seed=1, m=150, d=60, n_labels=2, density=0.1):
    rng = np.random.default_rng(seed)
    X = sp.random(m, d, density, "csr", random_state=rng, data_rvs=lambda n: rng.random(n) + 0.01).astype(np.float32)
    X = X.tolil()
    X[m // 2] = rng.random((1, d)) < 0.9  # a row of nearly all features
    X = X.tocsr()
    return X, (X @ rng.standard_normal((d, n_labels)) > 0.1).astype(int)


class Twin:
    def __init__(self, method, options, n_labels):
        self.options, self.live = options, set()
        self.learners = [Learner(method, options.voted) for _ in range(n_labels)]

    def importance(self, j):
        return max(abs(u - v) for u, v in (learner.vectors(j) for learner in self.learners))

    def prune(self):
        keep = int(KEEP_SHARE * self.options.live_features)
        by_importance = sorted(self.live, key=lambda j: (-self.importance(j), j))
        top = by_importance[: min(keep, int(self.options.share * keep + 0.5 + 1e-9))]
        rest = sorted(set(by_importance) - set(top), key=lambda j: (self.importance(j), j))
        stay = {*top, *rest[: keep - len(top)]}
        for learner in self.learners:
            for weights in (learner.w, *(hypothesis for hypothesis, _ in learner.hypotheses)):
                for j in self.live - stay:
                    weights.pop(j, None)
        self.live = stay

    def learn(self, row, labels):
        if len(row.keys() - self.live) > self.options.live_features - len(self.live):
            self.prune()
        for j in sorted(row.keys() - self.live)[: self.options.live_features - len(self.live)]:
            self.live.add(j)
        for learner, label in zip(self.learners, labels, strict=True):
            learner.learn({j: x for j, x in row.items() if j in self.live}, 1 if label else -1)


@pytest.mark.parametrize(("size", "share"), [(1, 0.9), (7, 0.5), (20, 0.0), (33, 1.0), (59, 0.9)])
@pytest.mark.parametrize(("method", "voted"), [("bw", False), ("mbw", True)])
def test_live_features_follow_the_documented_rule(method, voted, size, share):
    X, Y = data_of()
    options = asked(method, voted=voted, live_features=size, share=share)
    state, twin = LearnerState(options, method, 2, 60), Twin(method, options, 2)
    shard = shard_of(X, Y)
    for row, values in enumerate(rows_of(X)):
        twin.learn(values, Y[row])
        state.learn(shard, np.array([row]))
        numbers, _ = state.model_features()
        assert numbers.tolist() == sorted(twin.live)
        assert numbers.size <= size
    assert same(learnt(method, X, Y, options), state)
    W, bias = state.linear()
    for lane, learner in enumerate(twin.learners):
        expected = learner.linear()
        found = dict(enumerate(W[lane].tolist())) | {BIAS: bias[lane]}
        largest = max(abs(value) for value in expected.values())
        assert all(abs(value - expected.get(j, 0.0)) <= 1e-12 * largest for j, value in found.items())
        assert (state.counters[1:3, lane].sum(), state.counters[3, lane]) == (learner.wrong, learner.updates)


def test_memory_does_not_grow_with_the_features_of_a_stream():
    state = LearnerState(asked("mbw", live_features=50, voted=True), "mbw", 1, 0)

    def n_bytes():
        return sum(v.nbytes for owner in (state, state.live) for v in vars(owner).values() if isinstance(v, np.ndarray))

    before, rng = n_bytes(), np.random.default_rng(0)
    for _ in range(20):
        indices = np.sort(rng.choice(2**31 - 2, 1000, replace=False)).astype(np.int32)
        csr = (np.arange(101) * 10, indices, np.ones(1000, np.float32), np.minimum(np.arange(101), 50), np.zeros(50, np.int32))
        state.learn(Shard(0, np.arange(100), *csr, 100, 0, int(indices.max()) + 1, 1), np.arange(100))
        assert n_bytes() == before < 20_000 and state.model_features()[0].size <= 50


@pytest.mark.more("methods", one_in=2)
@pytest.mark.parametrize("voted", [False, True])
def test_continued_pass_has_the_bits_of_an_uninterrupted_one(tmp_path, monkeypatch, voted):
    X, Y = data_of(m=260, density=0.08)
    splits = {"first": np.arange(100), "second": np.arange(100, 260), "all of it": np.arange(260)}
    data = dataset(tmp_path / "data.h5", X, Y, splits=splits)
    options = asked("mbw", live_features=20, voted=voted, split="all of it")
    whole = train("mbw", None, data, tmp_path / "whole", options).model
    first = train("mbw", None, data, tmp_path / "first", replace(options, split="first")).model
    more = replace(options, split="second", initial_model=first)
    second = train("mbw", None, data, tmp_path / "second", more).model
    assert Model(second).weights().tobytes() == Model(whole).weights().tobytes()
    assert np.count_nonzero(Model(whole).factors) <= 20
    monkeypatch.setattr(source_module, "PIECE_NNZ", 60)
    assert resumed(data, tmp_path / "a", options).model.read_bytes() == whole.read_bytes()
    assert resumed(data, tmp_path / "b", more).model.read_bytes() == second.read_bytes()


def order_of(Y, pieces=1):
    shard, n_labels = shard_of(sp.csr_matrix((len(Y), 0)), Y), Y.shape[1]
    order = RowOrder(np.arange(n_labels), n_labels)
    for rows in np.array_split(shard.rows, pieces):
        order.add(shard, rows)
    return order


def warning_for(Y):
    return order_of(Y).block_warning(mpi.self_comm(), [f"l{k}" for k in range(Y.shape[1])])


@pytest.mark.parametrize("seed", range(3))
def test_random_order_causes_no_warning(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 3000))
    shares = np.concatenate([[0.0, 1.0, 0.5, 2 / m, 1 - 2 / m], rng.random(10), 10.0 ** -rng.random(400) / 5])
    Y = (rng.random((m, shares.size)) < shares).astype(float)
    assert warning_for(Y) == ""
    exact = np.zeros((m, 20))  # an exact number of positive rows
    for k, n in enumerate(rng.integers(0, min(m, 100), 20)):
        exact[rng.permutation(m)[:n], k] = 1
    assert warning_for(exact) == ""


@pytest.mark.parametrize(("m", "n", "begin"), [(64, 32, 0), (1000, 30, 970), (1000, 900, 50)])
def test_warns_of_sorted_rows(m, n, begin):
    y = np.zeros((m, 1))
    y[begin : begin + n] = 1
    assert f"{n:,} rows in 1 runs" in warning_for(y)


@pytest.mark.parametrize("pieces", [1, 7])
def test_runs_are_counted_over_any_pieces(pieces):
    Y = (np.random.default_rng(1).random((300, 6)) < [0.5, 0.1, 0.9, 0.0, 1.0, 0.02]).astype(float)
    order = order_of(Y, pieces)
    assert order.runs.tolist() == [int(((y > 0) & (np.append(0, y[:-1]) == 0)).sum()) for y in Y.T]
    assert order.positives.tolist() == Y.sum(axis=0).tolist()
    other = RowOrder(np.arange(3), 6)
    other.restore(order.pack())
    assert (other.n_rows, other.pack().tolist()) == (300, order.pack().tolist())


def test_resumed_pass_gives_the_same_warning(tmp_path, monkeypatch):
    rows = np.random.default_rng(0).random((400, 5)), np.repeat([1.0, 0.0], 200)[:, None]
    data = dataset(tmp_path / "data.h5", *rows)
    monkeypatch.setattr(source_module, "PIECE_NNZ", 500)
    whole = train("mbw", None, data, tmp_path / "whole", {})
    assert resumed(data, tmp_path / "run", asked("mbw")).warning == whole.warning != ""
