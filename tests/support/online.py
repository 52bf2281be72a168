"""Learners in memory, and passes that are interrupted after every piece."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from hpcml.data.shard import Shard
from hpcml.errors import Interrupted
from hpcml.methods.online.state import LearnerState
from support.training import train


def shard_of(X, Y, first_row=0):
    X, Y = sp.csr_matrix(X, dtype=np.float32), sp.csr_matrix(Y)
    X.eliminate_zeros()
    (m, d), n_labels = X.shape, Y.shape[1]
    x, y = (X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data), (Y.indptr.astype(np.int64), Y.indices.astype(np.int32))
    return Shard(first_row, np.arange(m), *x, *y, m, 0, d, n_labels)


def rows_of(X):
    X = sp.csr_matrix(X, dtype=np.float32)
    X.eliminate_zeros()
    return [dict(zip(X[[i]].indices.tolist(), X[[i]].data.tolist(), strict=True)) for i in range(X.shape[0])]


def learnt(method, X, Y, options, labels=None):
    shard = shard_of(X, Y)
    state = LearnerState(options, method, shard.n_labels, shard.n_features, labels)
    state.learn(shard, shard.rows)
    return state


def same(a, b):
    (numbers, rows), (others, other_rows) = a.model_features(), b.model_features()
    if a.n_rows != b.n_rows or numbers.tolist() != others.tolist() or a.n_lanes != b.n_lanes:
        return False
    both = ((s.state_arrays(lane, np.append(0, r)) for s, r in ((a, rows), (b, other_rows))) for lane in range(a.n_lanes))
    return all(one[name].tobytes() == two[name].tobytes() for one, two in both for name in one)


def resumed(data, run, options):
    for rounds in range(1000):
        try:
            return train("mbw", None, data, run, replace(options, time_limit=1e-9), resume=rounds > 0)
        except Interrupted:
            pass
    raise AssertionError("it never ends")
