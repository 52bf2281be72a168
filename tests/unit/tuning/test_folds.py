"""Folds: every label is dealt evenly, and a fold's rows are those that a data set without the others would have."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.make import dataset, random_data

from hpcml import mpi
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError
from hpcml.tuning.folds import deal, fold_rows

KEYS = np.arange(60, dtype=np.uint64)


def rows_of(tmp_path, seed=0, n=60, n_labels=8):
    path = dataset(tmp_path / f"{seed}-{n}.h5", *random_data(seed, n, 12, n_labels))
    comm = mpi.self_comm()
    return compact_rows(comm, load_shard(comm, DataFile(path), "all"), True)[0]


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 1000), st.integers(3, 7))
def test_labels_are_dealt_evenly(tmp_path_factory, seed, n_folds):
    rows = rows_of(tmp_path_factory.mktemp("folds"), seed % 7)
    labels = np.arange(rows.n_labels)
    fold = deal(rows, labels, n_folds, seed, KEYS)
    assert np.array_equal(fold, deal(rows, labels, n_folds, seed, KEYS)) and set(fold) == set(range(n_folds))
    blind = np.random.default_rng(seed).permutation(fold)
    uneven = [sum(np.bincount(each[rows.rows_of(k)], minlength=n_folds).var() for k in labels) for each in (fold, blind)]
    assert uneven[0] < uneven[1]


@pytest.mark.parametrize("n_folds", [3, 5])
def test_rows_outside_a_fold(tmp_path, n_folds):
    rows = rows_of(tmp_path)
    fold = deal(rows, np.arange(rows.n_labels), n_folds, 0, KEYS)
    order = np.argsort(fold, kind="stable")

    def line(arrays, i):
        indptr, indices, data = arrays
        some = slice(indptr[i], indptr[i + 1])
        return tuple(indices[some]), tuple(data[some])

    whole = (rows.indptr, rows.indices, rows.data)
    for k, each in enumerate(fold_rows(mpi.self_comm(), rows, fold, n_folds)):
        training = each.training
        numbers = np.concatenate([order[fold[order] > k], order[fold[order] < k]])
        view = (training.indptr, training.indices, training.data)
        assert training.n_local == training.n_global == numbers.size
        assert [line(view, i) for i in range(numbers.size)] == [line(whole, i) for i in numbers]
        assert set(each.numbers) == set(np.flatnonzero(fold == k))
        assert [line(each.held_out, i) for i in range(each.numbers.size)] == [line(whole, i) for i in each.numbers]
        assert np.array_equal(training.counts, np.bincount(training.indices, minlength=rows.n_columns))
        for label in range(rows.n_labels):
            assert set(numbers[training.rows_of(label)]) == set(rows.rows_of(label)) - set(each.numbers)
            assert training.n_positive[label] == training.rows_of(label).size


def test_too_few_rows(tmp_path):
    with pytest.raises(ConfigError, match="folds"):
        deal(rows_of(tmp_path, n=4), np.arange(8), 5, 0, KEYS[:4])


def test_groups_are_not_divided(tmp_path):
    rows = rows_of(tmp_path)
    groups = KEYS // 4
    fold = deal(rows, np.arange(8), 5, 0, groups)
    assert all(len(set(fold[groups == group])) == 1 for group in range(15))
    sizes = np.bincount(fold)
    assert sizes.max() - sizes.min() <= 8
    with pytest.raises(ConfigError, match="2 groups of rows leave a fold empty"):
        deal(rows, np.arange(8), 5, 0, KEYS // 30)
