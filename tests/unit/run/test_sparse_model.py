import anndata
import h5py
import numpy as np
import pytest
from support import make
from support.edits import attributes, edit, entry, remove, replace

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import DataError
from hpcml.files.slabs import new_file
from hpcml.log import Log
from hpcml.model.copy_labels import copy_labels
from hpcml.model.linear import Model, mask_kept_weights
from hpcml.model.scoring import Scorer

SELF, QUIET = mpi.self_comm(), Log(1)
N_LABELS, N_FEATURES, N_COLUMNS = 6, 30, 12


@pytest.fixture
def tables():
    rng = np.random.default_rng(1)
    W = rng.standard_normal((N_LABELS, N_COLUMNS)) * (rng.random((N_LABELS, N_COLUMNS)) < 0.5)
    W[[0, 3]], W[:, 4] = 0, 0
    W += 0.0  # no −0
    return W, *make.compact_columns(0, N_FEATURES, N_COLUMNS)


def write(path, tables, **more):
    W, columns, factors = tables
    return make.model(path, W, columns=columns, factors=factors, **more)


def both(folder, tables, **more):
    return [write(folder / f"{name}.h5", tables, sparse=name == "sparse", **more) for name in ("dense", "sparse")]


@pytest.mark.parametrize("precision", ["<f4", "<f8"])
def test_returns_the_weights_of_a_dense_model(tmp_path, tables, precision):
    paths = both(tmp_path, tables, precision=precision)
    dense, sparse = map(Model, paths)
    assert (dense.sparse, dense.n_weights) == (False, tables[0].size)
    assert (sparse.sparse, sparse.n_weights) == (True, np.count_nonzero(tables[0]))
    assert (sparse.n_labels, sparse.n_features, sparse.n_columns, sparse.precision) == (N_LABELS, N_FEATURES, N_COLUMNS, precision)
    assert sparse.W.indices.dtype == np.int32
    assert not any(part.flags.writeable for part in sparse.W)
    for chosen in (slice(None), slice(1, 3), slice(0, 0), np.array([4, 0, 4]), np.arange(N_LABELS) == 2, 3, 0, -1):
        assert sparse.weights(chosen).shape == dense.weights(chosen).shape
        assert np.array_equal(sparse.weights(chosen), dense.weights(chosen))
        assert np.array_equal(dense.pruned(0.5).weights(chosen), sparse.pruned(0.5).weights(chosen))
    assert np.array_equal(sparse.rows(np.arange(N_LABELS)), tables[0].astype(precision))
    for label in range(N_LABELS):
        for model in (dense, sparse, dense.pruned(0.5), sparse.pruned(0.5)):
            columns, w = model.row(label)
            stored = tables[0][label].astype(precision)
            stored[np.abs(stored) < model.below] = 0
            assert columns.tolist() == np.flatnonzero(stored).tolist()
            assert w.tobytes() == stored[columns].tobytes()
    with h5py.File(paths[1]) as file:
        assert np.array_equal(anndata.io.read_elem(file["W"]).toarray(), tables[0].astype(precision))


@pytest.mark.parametrize("frequent", [0.0, 2.0])  # columns as vectors, or only their weights
def test_the_forms_of_a_file_give_the_same_bits(tmp_path, tables, monkeypatch, frequent):
    monkeypatch.setattr("hpcml.model.scoring.FREQUENT", frequent)
    tables[0][1, ::2] = -0.0
    dense = Model(write(tmp_path / "dense.h5", tables))
    with new_file(SELF, tmp_path / "copy.h5") as out:
        copy_labels(SELF, out, [lambda: dense], [N_LABELS], dense.label_names, None)
    sparse = Model(tmp_path / "copy.h5")
    assert sparse.sparse and sparse.n_weights == np.count_nonzero(tables[0].view(np.uint64)) > np.count_nonzero(tables[0])
    assert sparse.rows(np.arange(N_LABELS)).tobytes() == tables[0].tobytes()
    X, Y = make.random_data(2, 50, N_FEATURES, N_LABELS)
    scores = []
    with DataFile(make.dataset(tmp_path / "data.h5", X, Y)) as dataset:
        shard = load_shard(SELF, dataset, "all")
        rows, labels = shard.rows, np.arange(N_LABELS)
        for model in (dense, sparse):
            scorer = Scorer(model, shard, labels)
            scores.append(scorer.score_rows(rows, *scorer.weights(0, N_LABELS)).tobytes())
            scores.append(scorer.score_pairs(np.repeat(rows, N_LABELS), np.tile(labels, rows.size)).tobytes())
    assert len(set(scores)) == 1
    assert np.array_equal(sparse.weight_matrix().toarray(), dense.weights())


def test_magnitude_is_compared_in_the_type_of_the_weights():
    w = np.array([0, -0.0, 0.1, -0.1, 0.3, -0.05, np.nan, np.inf], dtype=np.float32)
    assert mask_kept_weights(w, 0.1).tolist() == [False, False, True, True, True, False, True, True]
    assert mask_kept_weights(w, 0.0).tolist() == [False, True, True, True, True, True, True, True]  # no bit is lost
    assert mask_kept_weights(w, 1e300).tolist() == [False] * 6 + [True, True]


def wrapping(file):
    file["W/indptr"][1:5] = [2**62, -(2**63), -(2**62), 0]


def shape(*sizes):
    return attributes({"shape": np.array(sizes, dtype=np.int64)}, "W")


def swapped(file):
    begin = file["W/indptr"][1]
    file["W/indices"][begin : begin + 2] = file["W/indices"][begin : begin + 2][::-1]


def doubled(file):
    begin = file["W/indptr"][1]
    file["W/indices"][begin + 1] = file["W/indices"][begin]


DAMAGE = {
    "column too high": (entry("W/indices", 3, N_COLUMNS), f"to {N_COLUMNS}, but W has columns 0 to {N_COLUMNS - 1}"),
    "column negative": (entry("W/indices", 0, -1), "W/indices -1 to "),
    "columns in disorder": (swapped, "do not ascend in the row of label 1"),
    "a column twice": (doubled, "do not ascend in the row of label 1"),
    "indptr ends late": (entry("W/indptr", -1, 10**6), "W/indptr does not ascend from 0"),
    "indptr beyond all numbers": (wrapping, "W/indptr does not ascend from 0"),
    "indptr short": (replace("W/indptr", lambda v: v[:-1]), "missing or of another size"),
    "indptr int32": (replace("W/indptr", lambda v: v.astype("<i4")), "missing or of another size"),
    "indices int64": (replace("W/indices", lambda v: v.astype("<i8")), "missing or of another size"),
    "no data": (remove("W/data"), "missing or of another size"),
    "no shape": (lambda file: file["W"].attrs.pop("shape"), "missing or of another size"),
    "more columns than features": (shape(N_LABELS, 2**40), "missing or of another size"),
    "negative columns": (shape(N_LABELS, -1), "but W has columns 0 to -2"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_rejects_damage(tmp_path, tables, kind):
    path = write(tmp_path / "model.h5", tables, sparse=True)
    damage, message = DAMAGE[kind]
    edit(path, damage)
    with pytest.raises(DataError, match=rf"model\.h5: damaged .*{message}"):
        Model(path)


def test_order_is_checked_across_blocks(tmp_path, tables, monkeypatch):
    path = write(tmp_path / "model.h5", tables, sparse=True)
    monkeypatch.setattr("hpcml.model.linear.CHECKED", 1)
    Model(path)
    edit(path, swapped)
    with pytest.raises(DataError, match="row of label 1"):
        Model(path)
