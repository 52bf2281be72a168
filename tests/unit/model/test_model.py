"""Model files: content, compact weights, damaged files and run folders."""

import h5py
import numpy as np
import pytest
from support import make
from support.edits import attributes, compressed, edit, entry, remove, replace

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import DataError, NonFiniteError
from hpcml.evaluation import MEASURES, evaluate
from hpcml.log import Log
from hpcml.model.linear import Model
from hpcml.model.open import kind_of, model_file, open_model
from hpcml.model.scoring import Scorer
from hpcml.prediction.predict import predict

N_LABELS, N_FEATURES, N_COLUMNS = 5, 30, 12


@pytest.fixture
def tables():
    columns, factors = make.compact_columns(0, N_FEATURES, N_COLUMNS)
    return np.random.default_rng(1).standard_normal((N_LABELS, N_COLUMNS)), columns, factors


def compact(path, tables, precision="<f4", **more):
    W, columns, factors = tables
    return make.model(path, W, columns=columns, factors=factors, precision=precision, **more)


def dense(tables, precision="<f4"):
    W, columns, factors = tables
    return W.astype(precision)[:, columns].astype(np.float64) * factors.astype(np.float64)


@pytest.mark.parametrize("precision", ["<f4", "<f8"])
def test_weights_of_every_feature(tmp_path, tables, precision):
    model = Model(compact(tmp_path / "model.h5", tables, precision))
    assert (model.n_labels, model.n_features, model.n_columns) == (N_LABELS, N_FEATURES, N_COLUMNS)
    assert (model.W.dtype, model.columns.dtype, model.factors.dtype) == (np.dtype(precision), np.int32, np.float32)
    assert np.array_equal(model.W, tables[0].astype(precision))
    assert sorted(model.labels) == ["f_min", "n_positive", "status", "steps", "visited"]
    for labels in (slice(None), slice(1, 3), slice(0, 0), np.array([4, 0]), np.arange(N_LABELS) == 2, 3):
        weights = model.weights(labels)
        assert weights.dtype == np.float64 and np.array_equal(weights, dense(tables, precision)[labels])
    assert not model.weights()[:, tables[2] == 0].any()
    assert not any(part.flags.writeable for part in (model.W, model.columns, model.factors))


def data_and_models(folder, tables, precision):
    X, Y = make.random_data(2, 60, N_FEATURES, N_LABELS)
    bias = np.random.default_rng(3).standard_normal(N_LABELS)
    small = compact(folder / "compact.h5", tables, precision, bias=bias)
    return make.dataset(folder / "data.h5", X, Y), small, make.model(folder / "dense.h5", dense(tables, precision), bias)


@pytest.mark.parametrize("precision", ["<f4", "<f8"])
def test_compact_and_dense_weights_give_the_same_bits(tmp_path, tables, precision):
    data, *paths = data_and_models(tmp_path, tables, precision)
    results = []
    with DataFile(data) as dataset:
        shard = load_shard(mpi.self_comm(), dataset, "all")
        for path in paths:
            scorer = Scorer(Model(path), shard, np.arange(N_LABELS))
            scores = scorer.score_rows(shard.rows, *scorer.weights(0, N_LABELS))
            pairs = scorer.score_pairs(np.repeat(shard.rows, N_LABELS), np.tile(np.arange(N_LABELS), shard.rows.size))
            assert pairs.tobytes() == scores.tobytes()
            result = evaluate(mpi.self_comm(), Model(path), dataset, "all", Log(1))
            predict(mpi.self_comm(), Model(path), dataset, "all", path.with_suffix(".csv"), False, Log(1))
            values = [result.values[name].tobytes() for name in MEASURES]
            results.append((scores.tobytes(), values, repr(result.micro), path.with_suffix(".csv").read_bytes()))
    assert results[0] == results[1]


def test_rejects_datasets_with_other_features(tmp_path, tables):
    X, Y = make.random_data(4, 10, N_COLUMNS, N_LABELS)
    model = Model(compact(tmp_path / "model.h5", tables))
    with (
        DataFile(make.dataset(tmp_path / "data.h5", X, Y)) as dataset,
        pytest.raises(DataError, match=r"has 12 features but .* 30"),
    ):
        model.check_vocabulary(dataset)


def outside(file):
    del file["columns"]
    file.create_dataset("columns", (N_FEATURES,), "<i4", external=[("/dev/zero", 0, 4 * N_FEATURES)])


DAMAGE = {
    "column too high": entry("columns", 7, N_COLUMNS),
    "column negative": entry("columns", 29, -1),
    "column far away": entry("columns", 0, 2**31 - 1),
    "W without columns": replace("W", lambda W: W[:, :0]),
    "W too narrow": replace("W", lambda W: W[:, :-1]),
    "columns short": replace("columns", lambda c: c[:-1]),
    "columns two-dimensional": replace("columns", lambda c: c[None]),
    "columns big-endian": replace("columns", lambda c: c.astype(">i4")),
    "columns elsewhere": outside,
    "factors short": replace("factors", lambda f: f[:-1]),
    "factors double": replace("factors", lambda f: f.astype("<f8")),
    "W of integers": replace("W", lambda W: W.astype("<i4")),
    "W flat": replace("W", lambda W: W.ravel()),
    "W with a row too many": replace("W", lambda W: np.vstack([W, W[:1]])),
    "bias short": replace("bias", lambda b: b[:-1]),
    "visited short": replace("labels/visited", lambda v: v[:-1]),
    "status double": replace("labels/status", lambda s: s.astype("<f8")),
    "no vocabulary": lambda file: file.attrs.pop("vocabulary"),
    **{f"no {name}": remove(name) for name in ("columns", "factors", "labels/visited", "label_names")},
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_rejects_damaged_files(tmp_path, tables, kind):
    path = compact(tmp_path / "model.h5", tables)
    edit(path, DAMAGE[kind])
    with pytest.raises(DataError, match=r"model\.h5: damaged "):
        Model(path)


@pytest.mark.parametrize(("value", "sparse"), [(np.inf, False), (-np.inf, True), (np.nan, False), (np.nan, True)])
def test_rejects_non_finite_weights(tmp_path, value, sparse):
    data = make.dataset(tmp_path / "data.h5", *make.random_data(1, 20, 5, 2))
    W = np.ones((2, 5))
    W[1, 3] = value
    path = make.model(tmp_path / "model.h5", W, sparse=sparse)
    with DataFile(data) as dataset, pytest.raises(NonFiniteError, match=r"model\.h5: .*'label1'"):
        evaluate(mpi.self_comm(), Model(path), dataset, "all", Log(1))
    path = make.model(tmp_path / "bias.h5", np.ones((2, 5)), bias=np.array([0, value]))
    with pytest.raises(DataError, match=r"bias\.h5: damaged model"):
        Model(path)


def test_reads_compressed_and_unwritten_parts(tmp_path, tables):
    path = compact(tmp_path / "model.h5", tables)
    whole = Model(path).weights()
    edit(path, compressed("W", "columns", "factors"))
    assert np.array_equal(Model(path).weights(), whole)
    for fill, is_valid in (N_COLUMNS - 1, True), (N_COLUMNS, False):
        with h5py.File(path, "r+") as file:
            del file["columns"]
            file.create_dataset("columns", (N_FEATURES,), "<i4", fillvalue=fill)
        if is_valid:
            assert np.array_equal(Model(path).weights(), dense((tables[0], np.full(N_FEATURES, fill), tables[2])))
        else:
            with pytest.raises(DataError, match="damaged model: columns 12 to 12"):
                Model(path)


@pytest.mark.parametrize("version", [4, 99, "x"])
def test_rejects_other_versions(tmp_path, tables, version):
    path = edit(compact(tmp_path / "model.h5", tables), attributes({"hpcml-version": version}))
    with pytest.raises(DataError, match=rf"format {version}"):
        Model(path)


def test_finds_models_in_run_folders(tmp_path):
    run = tmp_path / "runs" / "first"
    run.mkdir(parents=True)
    with pytest.raises(DataError, match="first: the folder has no model"):
        model_file(run)
    (run / "config.toml").write_text("")
    with pytest.raises(DataError, match="first: the run is not finished"):
        open_model(run)
    make.model(run / "model.h5", np.ones((2, 3)))
    assert model_file(run) == model_file(run / "model.h5") == run / "model.h5"
    assert kind_of(run) == "model" and open_model(run).path == run / "model.h5"
    with pytest.raises(DataError, match=r"runs: is a folder of runs; .* first$"):
        model_file(tmp_path / "runs")
    make.dataset(tmp_path / "data.h5", np.eye(2), np.eye(2))
    (tmp_path / "text").write_text("text")
    for name in ("data.h5", "absent.h5", "text"):
        with pytest.raises(DataError, match=name):
            open_model(tmp_path / name)
