"""A fixed number of features during a pass: the documented rule by an eager twin, the bounds, and passes that are continued."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from support.make import dataset
from support.online import learnt, resumed, rows_of, same, shard_of
from support.oracles_online import BIAS, Learner
from support.training import asked, train

import hpcml.methods.online.source as source_module
from hpcml.data.shard import Shard
from hpcml.methods.online.live import KEEP_SHARE
from hpcml.methods.online.live_kernels import FREE
from hpcml.methods.online.state import LearnerState
from hpcml.model.linear import Model


def data_of(seed=1, m=150, d=60, n_labels=2, density=0.1):
    """Rows of positive values, and labels (dense) that a few features tell."""
    rng = np.random.default_rng(seed)
    X = sp.random(m, d, density, "csr", random_state=rng, data_rvs=lambda n: rng.random(n) + 0.01).astype(np.float32)
    X = X.tolil()
    X[m // 2] = rng.random((1, d)) < 0.9  # a row of nearly all features
    X = X.tocsr()
    return X, (X @ rng.standard_normal((d, n_labels)) > 0.1).astype(int)


class Twin:
    """The rule, eagerly: textbook learners, and a set of the features that they may see."""

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
def test_the_documented_rule(method, voted, size, share):
    """Also for rows that have more features than there may be."""
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
    """Each row has features that no other has, their numbers far apart; the arrays keep their sizes."""
    state = LearnerState(asked("mbw", live_features=50, voted=True), "mbw", 1, 0)

    def sizes():
        arrays = [value for owner in (state, state.live) for value in vars(owner).values() if isinstance(value, np.ndarray)]
        return sum(array.nbytes for array in arrays), len(arrays)

    before, rng = sizes(), np.random.default_rng(0)
    for row in range(0, 2000, 100):
        indices = np.sort(rng.choice(2**31 - 2, 1000, replace=False)).astype(np.int32).reshape(100, 10)
        data, y_indptr = np.ones(1000, dtype=np.float32), np.minimum(np.arange(101), 50)
        csr = (np.arange(101) * 10, indices.ravel(), data, y_indptr.astype(np.int64), np.zeros(50, dtype=np.int32))
        state.learn(Shard(row, np.arange(100), *csr, 100, 0, int(indices.max()) + 1, 1), np.arange(100))
        assert sizes() == before
        numbers, rows = state.model_features()
        assert numbers.size <= 50 and (np.diff(numbers) > 0).all()
        assert sorted(state.live.numbers[rows - 1].tolist()) == numbers.tolist()
        assert (state.live.numbers != FREE).sum() == numbers.size
    assert before[0] < 20_000


@pytest.mark.more("methods", one_in=2)
@pytest.mark.parametrize("voted", [False, True])
def test_a_continued_pass_has_the_bits_of_one_that_never_stopped(tmp_path, monkeypatch, voted):
    """From an initial model, from checkpoints, from both: of fewer live features, too, than the initial model had."""
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
