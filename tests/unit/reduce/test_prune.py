"""Pruning: the table against models pruned by hand, and the saved file."""

import math

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from support import make
from support.converted import check_refusal
from support.training import train

from hpcml import mpi
from hpcml.commands.prune import Prune
from hpcml.data.dataset import DataFile
from hpcml.errors import NonFiniteError
from hpcml.evaluation import evaluate
from hpcml.log import Log
from hpcml.model.linear import Model
from hpcml.model.open import open_model
from hpcml.reduce.prune import prune

SELF, QUIET = mpi.self_comm(), Log(1)


@pytest.fixture
def files(tmp_path):
    X, Y = make.random_data(0, 60, 20, 5)
    W = np.random.default_rng(1).standard_normal((5, 20)).astype(np.float32)
    W[:, 3], W[2] = 0, 0
    data = make.dataset(tmp_path / "data.h5", X, Y, splits={"test": range(0, 60, 3)})
    return data, make.model(tmp_path / "model.h5", W, np.linspace(-1, 1, 5), precision="<f4"), W


def run(files, below, output=None, split="test", force=False, half=False):
    with DataFile(files[0]) as dataset:
        return prune(SELF, open_model(files[1]), dataset, split, below, output, force, QUIET, half)


def test_table_equals_models_pruned_by_hand(files, tmp_path):
    data, _, W = files
    magnitudes = (0.0, 0.4, 0.9, 100.0)
    found = run(files, magnitudes)
    assert [line.below for line in found.lines] == [0.0, *magnitudes]
    with DataFile(data) as dataset:
        for number, line in enumerate(found.lines):
            thin = np.where(np.abs(W) < np.float32(line.below), 0, W)
            path = make.model(tmp_path / f"thin{number}.h5", thin, np.linspace(-1, 1, 5), precision="<f4")
            expected = evaluate(SELF, Model(path), dataset, "test", QUIET)
            assert line.n_weights == (np.count_nonzero(thin) if number else W.size)
            assert (line.macro_map, line.precision_at) == (expected.macro("average_precision"), expected.precision_at)
    assert [line.n_all for line in found.lines] == [100] * 5


def test_reports_labels_without_weights(files):
    text = str(run(files, [0.4, 100]))
    assert "below 0.4: warning" not in text  # the label without weights has had none before
    assert "below 100: warning: 4 of 5 labels keep no weight" in text


@pytest.mark.parametrize("below", [0.0, 0.9])  # dense, sparse
def test_weights_in_float16(files, tmp_path, below):
    data, _, W = files
    W[0, :3] = 1e-8, -1e-8, 2.0**-24  # only the last one is not 0 in float16
    expected = np.where(np.abs(W) < below, 0, W.astype(np.float16)).astype(np.float32)
    make.model(tmp_path / "few.h5", expected, np.linspace(-1, 1, 5), precision="<f4")
    found = run(
        (data, make.model(tmp_path / "exact.h5", W, np.linspace(-1, 1, 5), precision="<f4")),
        [below],
        tmp_path / "half.h5",
        half=True,
    )
    half = Model(tmp_path / "half.h5")
    assert (half.sparse, half.precision) == (below > 0, "<f4")
    assert np.array_equal(half.weights(), expected)
    with h5py.File(tmp_path / "half.h5") as file:
        assert (file["W/data"] if below else file["W"]).dtype == np.float16
    again = run((data, tmp_path / "few.h5"), [0.0])
    assert (found.lines[1].macro_map, found.lines[1].precision_at) == (again.lines[0].macro_map, again.lines[0].precision_at)
    run((data, tmp_path / "half.h5"), [below], tmp_path / "twice.h5", half=True)
    assert (tmp_path / "twice.h5").read_bytes() == (tmp_path / "half.h5").read_bytes()
    W[1, 5] = 70_000
    large = data, make.model(tmp_path / "large.h5", W, precision="<f4")
    check_refusal(lambda: run(large, [0.0], tmp_path / "out.h5", half=True), "float16")
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.parametrize("sparse", [False, True])
def test_the_model_of_the_last_magnitude_is_written(files, tmp_path, sparse):
    data, model, W = files
    if sparse:
        run(files, [0], tmp_path / "no-zeros.h5")
        model = tmp_path / "no-zeros.h5"
    found = run((data, model), [0.2, 0.7], tmp_path / "few.h5")
    few, thin = Model(tmp_path / "few.h5"), np.where(np.abs(W) < np.float32(0.7), 0, W)
    assert few.sparse
    assert few.n_weights == found.lines[-1].n_weights == np.count_nonzero(thin)
    assert np.array_equal(few.weights(), thin)
    with h5py.File(tmp_path / "few.h5") as file:
        stored = sp.csr_matrix(thin)
        assert np.array_equal(file["W/indptr"][:], stored.indptr)
        assert np.array_equal(file["W/indices"][:], stored.indices)
        assert abs((tmp_path / "few.h5").stat().st_size - found.lines[-1].n_bytes) < 1 << 14
    whole = Model(model)
    assert (few.label_names, few.vocabulary, few.attrs["method"]) == (whole.label_names, whole.vocabulary, "probe")
    assert few.bias.tolist() == whole.bias.tolist()
    assert all(np.array_equal(few.labels[name], values) for name, values in whole.labels.items())


def test_a_pruned_model_has_no_leave_one_out_scores(files, tmp_path):
    data, *_ = files
    assert "leave-one-out" not in str(run(files, [0.1], tmp_path / "none.h5"))
    trained = train("dual", None, data, tmp_path / "run", {}).model
    assert Model(trained).scores is not None
    assert "leave-one-out" not in str(run((data, trained), [0.1]))
    assert "but not the leave-one-out scores" in str(run((data, trained), [0.1], tmp_path / "few.h5"))
    assert Model(tmp_path / "few.h5").scores is None


def test_pruning_twice_gives_the_same_file(files, tmp_path):
    run(files, [0.3], tmp_path / "once.h5")
    run(files, [0.6], tmp_path / "direct.h5")
    run((files[0], tmp_path / "once.h5"), [0.6], tmp_path / "twice.h5")
    assert (tmp_path / "twice.h5").read_bytes() == (tmp_path / "direct.h5").read_bytes()
    run((files[0], tmp_path / "once.h5"), [0.0], tmp_path / "again.h5")
    assert (tmp_path / "again.h5").read_bytes() == (tmp_path / "once.h5").read_bytes()


def test_bad_options_and_models_are_refused(files, tmp_path):
    for below in ((-0.1,), (0.1, math.nan), (math.inf,)):
        check_refusal(lambda below=below: Prune(files[1], files[0], below=below).check_options(), "--below")
    check_refusal(lambda: run(files, []), "--below")
    check_refusal(lambda: run(files, [0.1], files[1], force=True), "model.h5")
    (tmp_path / "there.h5").write_text("precious")
    check_refusal(lambda: run(files, [0.1], tmp_path / "there.h5"), "there.h5")
    assert (tmp_path / "there.h5").read_text() == "precious"
    X, y, Y = make.class_data(3, 60, 10, 3)
    classifier = make.dataset(tmp_path / "classes.h5", X, Y), make.classifier(tmp_path / "tree.h5", "tree", X, y, "abc")
    check_refusal(lambda: run(classifier, [0.1], split="all"), "tree.h5")
    before = {path.name for path in tmp_path.iterdir()}
    W = files[2].copy()
    W[1, 5] = np.nan
    broken = files[0], make.model(tmp_path / "broken.h5", W)
    with pytest.raises(NonFiniteError, match="label1"):
        run(broken, [0.1], tmp_path / "out.h5")
    assert {path.name for path in tmp_path.iterdir()} == before | {"broken.h5"}
