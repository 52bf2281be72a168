"""Near-duplicates and label consistency against all pairs compared one by one; recall and bounded work."""

import csv
import json
import math

import numpy as np
import pytest
from scipy.stats import binomtest
from support import make
from support.oracles_duplicates import alike_data, slow_consistency, slow_counted, slow_pairs

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError, DataError
from hpcml.log import Log
from hpcml.near_duplicates import kernels
from hpcml.near_duplicates import search as pairs_module
from hpcml.near_duplicates.search import (
    Bands,
    Consistency,
    choose_bands,
    feature_hashes,
    find_duplicates,
    find_pairs,
    hash_functions,
)

SELF, QUIET = mpi.self_comm(), Log(1)


def pairs_of(path, similarity, split="all", bands=None):
    with DataFile(path) as dataset:
        found = find_pairs(SELF, dataset, load_shard(SELF, dataset, split), similarity, bands or choose_bands(similarity), QUIET)
    places = zip(found.first.tolist(), found.other.tolist(), strict=True)
    return found, dict(zip(places, found.similarity.tolist(), strict=True))


@pytest.mark.parametrize(("seed", "similarity"), [(0, 0.3), (1, 0.5), (2, 0.8), (0, 0.95), (1, 1.0)])
def test_pairs_equal_exhaustive_search(tmp_path, seed, similarity):
    sets, _, path = alike_data(tmp_path / "data.h5", np.random.default_rng(seed), 150)
    found, pairs = pairs_of(path, similarity)
    expected = slow_pairs(sets, similarity)
    assert expected
    assert pairs.items() <= expected.items()
    missed = expected.keys() - pairs.keys()
    assert len(missed) <= 0.005 * len(expected)
    assert not missed & {pair for pair, value in expected.items() if value == 1}
    assert list(pairs) == sorted(pairs)
    assert found.n_empty == sum(not features for features in sets)
    assert found.n_equal == sum(map(bool, sets)) - len({frozenset(features) for features in sets if features})


def test_recall_is_as_computed(tmp_path):
    rng, sets, n = np.random.default_rng(5), [], 1000
    shared, own = (32, 36, 38), (8, 4.5, 2)
    for common, more in zip(shared, own, strict=True):
        for _ in range(n):
            features = rng.choice(100_000, common + int(2 * more), replace=False).tolist()
            sets += [set(features[: common + math.ceil(more)]), set(features[:common] + features[common + math.ceil(more) :])]
    indptr = np.concatenate([[0], np.cumsum([len(each) for each in sets])])
    X = make.sp.csr_matrix((np.ones(indptr[-1]), [j for each in sets for j in sorted(each)], indptr), (len(sets), 100_000))
    path = make.dataset(tmp_path / "data.h5", X, np.ones((len(sets), 1)), ones=True)
    least = 32 / 48
    for bands in (Bands(5, 4), choose_bands(0.8)):
        _, pairs = pairs_of(path, least, bands=bands)
        for place, (common, more) in enumerate(zip(shared, own, strict=True)):
            found = sum((2 * (place * n + k), 2 * (place * n + k) + 1) in pairs for k in range(n))
            low, high = binomtest(found, n).proportion_ci(0.9999)
            assert low <= bands.recall(common / (common + 2 * more)) <= high


@pytest.mark.parametrize("similarity", [0.09, 1.01, math.nan])
def test_similarity_out_of_range_is_refused(similarity):
    with pytest.raises(ConfigError, match="--similarity"):
        choose_bands(similarity)


def test_kernels_against_their_definition():
    rng = np.random.default_rng(0)
    X = make.sp.random(20, 50, 0.3, "csr", random_state=rng)
    X.sort_indices()
    indptr, indices, rows = X.indptr.astype(np.int64), X.indices, np.arange(20)[::2].copy()
    bands = Bands(3, 4)
    hashes, (factors, addends) = feature_hashes(50), hash_functions(bands)
    assert (factors % 2 == 1).all()
    keys, least = np.zeros((3, 12), np.uint64), np.zeros(12, np.uint32)
    kernels.band_keys((indptr, indices), rows, hashes, (factors.reshape(-1), addends.reshape(-1)), 4, least, 2, keys)
    tables = (hashes[:, None].astype(object) * factors.reshape(-1) + addends.reshape(-1)) % 2**32
    seen = {}
    for place, row in enumerate(rows):
        minima = tables[indices[indptr[row] : indptr[row + 1]]].min(axis=0).reshape(3, 4)
        for band in range(3):
            seen.setdefault((band, tuple(minima[band])), set()).add(int(keys[band, 2 + place]))
    assert all(len(found) == 1 for found in seen.values())
    assert len({found.pop() for found in seen.values()}) == len(seen)
    counts = np.zeros(20, np.int64)
    kernels.count_common((indptr, indices), np.arange(20), (indptr, indices), np.arange(20)[::-1].copy(), counts)
    dense = X.toarray() != 0
    assert counts.tolist() == (dense & dense[::-1]).sum(axis=1).tolist()


def test_large_buckets_are_not_compared_completely(tmp_path, monkeypatch):
    monkeypatch.setattr(pairs_module, "WINDOW", 5)
    X = np.zeros((120, 120))
    X[:, :20] = 1
    X[60:, 60:] = np.eye(60)  # 60 equal rows, and 60 that differ in one feature
    path = make.dataset(tmp_path / "data.h5", X, np.ones((120, 2)), ones=True)
    found, pairs = pairs_of(path, 0.8)
    assert found.n_equal == 59
    assert found.n_limited > 0
    assert {pair for pair in pairs if pair[1] < 60} == {(row, row + 1) for row in range(59)}
    others = len(pairs) - 59
    assert 60 <= others < 60 * 5 * 23
    with DataFile(path) as dataset:
        result = find_duplicates(SELF, dataset, "all", 0.8, None, QUIET)
    assert result.n_counted == 119
    assert result.labels.both.tolist() == [119, 119]


@pytest.mark.parametrize("split", ["some"])
def test_labels_of_pairs(tmp_path, split):
    chosen = np.arange(0, 150, 1 if split == "all" else 2)
    ids = [f"doc {row}" for row in range(150)]
    sets, label_sets, path = alike_data(tmp_path / "data.h5", np.random.default_rng(7), 150, row_ids=ids, splits={"some": chosen})
    sets, label_sets = [sets[row] for row in chosen], [label_sets[row] for row in chosen]
    with DataFile(path) as dataset:
        found = find_duplicates(SELF, dataset, split, 0.8, tmp_path / "pairs.csv", QUIET)
    expected = slow_pairs(sets, 0.8)
    with (tmp_path / "pairs.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == found.n_pairs == len(expected)
    position = {row: place for place, row in enumerate(chosen.tolist())}
    for line in lines:
        a, b = position[int(line["row"])], position[int(line["other_row"])]
        assert (line["id"], line["other_id"]) == (f"doc {line['row']}", f"doc {line['other_row']}")
        assert float(line["similarity"]) == expected[a, b]
        assert line["counted"] == str(int((a, b) in slow_counted(expected)))
        counts = len(label_sets[a]), len(label_sets[b]), len(label_sets[a] & label_sets[b])
        assert counts == tuple(int(line[name]) for name in ("labels", "other_labels", "common_labels"))
    for label in range(5):
        assert (found.labels.in_rows[label], found.labels.both[label]) == slow_consistency(expected, label_sets, label)
        assert found.labels.n_rows[label] == sum(label in each for each in label_sets)
    found.write_json(tmp_path / "all.json")
    found.write_csv(tmp_path / "labels.csv")
    content = json.loads((tmp_path / "all.json").read_text())
    with (tmp_path / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(content["pairs_from_similarity"].values()) == found.n_pairs
    for row, in_json, value in zip(rows, content["labels"], found.labels.values(), strict=True):
        assert float(row["consistency"]) == in_json["consistency"] == value
        assert in_json["low"] <= value <= in_json["high"]
    assert f"{len(expected):,}" in str(found)


def test_intervals_are_wilsons():
    labels = Consistency(np.ones(6), np.array([0, 2, 40, 20, 33, 1]), np.array([0, 0, 20, 4, 11, 0]))
    lows, highs = labels.intervals()
    assert np.isnan([lows[0], highs[0], labels.values()[0]]).all()
    for label in range(1, 6):
        interval = binomtest(int(labels.both[label]), int(labels.either[label])).proportion_ci(0.95, "wilson")
        assert lows[label] == pytest.approx(2 * interval.low / (1 + interval.low), abs=1e-12)
        assert highs[label] == pytest.approx(2 * interval.high / (1 + interval.high), rel=1e-12)
        assert lows[label] <= labels.values()[label] <= highs[label]
    assert (lows[1], highs[2]) == (0, 1)


def test_unsorted_rows_are_refused_and_empty_rows_counted(tmp_path):
    X = make.sp.csr_matrix((np.ones(4), [3, 1, 0, 2], [0, 2, 4]), (2, 4))
    path = make.dataset(tmp_path / "good.h5", X, np.ones((2, 1)), ones=True)
    with make.h5py.File(path, "r+") as file:
        file["X/indices"][:] = [0, 2, 3, 1]
    with pytest.raises(DataError, match="row 1"):
        pairs_of(path, 0.8)
    empty = make.dataset(tmp_path / "empty.h5", make.sp.csr_matrix((3, 4)), np.zeros((3, 2)), ones=True)
    with DataFile(empty) as dataset:
        found = find_duplicates(SELF, dataset, "all", 0.8, tmp_path / "none.csv", QUIET)
    assert (found.n_pairs, found.n_empty) == (0, 3)
    assert (tmp_path / "none.csv").read_text().count("\n") == 1
