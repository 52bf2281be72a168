"""What every training method must do, walked over the registry."""

import csv
import functools
import hashlib

import h5py
import numpy as np
import pytest
from support.make import dataset, random_data
from support.oracles import hinge_objective, probe
from support.training import train as train_method

from hpcml.bench.shared_options import minimisers
from hpcml.errors import ConfigError, DataError, Interrupted, NonFiniteError
from hpcml.model.linear import STATUS, Model


@pytest.fixture(params=sorted(minimisers()))
def train(request):
    return functools.partial(train_method, request.param)


@pytest.fixture
def data(tmp_path):
    X, Y = random_data(7, 90, 30, 6)
    Y = Y.tolil()
    Y[:, 1], Y[:, 2] = 0, 1  # no positive row; no negative row
    return dataset(tmp_path / "data.h5", X, Y, splits={"train": np.arange(0, 90, 2), "test": np.arange(1, 90, 2)})


def arrays(path):
    with h5py.File(path) as file:
        X, Y = ((file[n]["indptr"][:], file[n]["indices"][:], file[n]["data"][:], file[n].attrs["shape"]) for n in "XY")
    import scipy.sparse as sp

    return tuple(sp.csr_matrix(m[2::-1], shape=m[3]).toarray().astype(float) for m in (X, Y))


def test_input_is_untouched_and_seeds_do_not_matter(train, data, tmp_path):
    before = hashlib.sha256(data.read_bytes()).hexdigest()
    first = train(None, data, tmp_path / "a", {}).model.read_bytes()
    assert train(None, data, tmp_path / "b", {}).model.read_bytes() == first
    assert hashlib.sha256(data.read_bytes()).hexdigest() == before


def test_degenerate_labels_are_reported_and_get_the_constant_model(train, data, tmp_path):
    report = train(None, data, tmp_path / "run", {"min_positives": 0})
    assert report.degenerate == ["label1", "label2"]
    model = Model(report.model)
    assert model.bias.tolist()[1:3] == [-1, 1]
    assert not model.W[1:3].any()
    assert [STATUS[s] for s in model.labels["status"][1:3]] == ["degenerate"] * 2
    assert np.isfinite(model.W).all()


def test_reported_f_is_the_objective_of_the_saved_model_over_all_rows(train, data, tmp_path):
    report = train(None, data, tmp_path / "run", {"loss": "hinge"})
    model, (X, Y) = Model(report.model), arrays(data)
    X = np.hstack([X[::2], np.ones((45, 1))])
    for row, name in enumerate(model.label_names):
        if STATUS[model.labels["status"][row]] == "degenerate":
            continue
        sign = np.where(Y[::2, int(name[5:])] != 0, 1.0, -1.0)
        w = np.append(model.weights(row), model.bias[row])
        assert model.labels["f_min"][row] == pytest.approx(hinge_objective(X, sign, w, report.lam), rel=1e-6)  # float32


def test_chosen_labels_only(train, data, tmp_path):
    report = train(None, data, tmp_path / "a", {"label": ("label4", "label0")})
    assert Model(report.model).label_names == ["label0", "label4"]
    with pytest.raises(ConfigError, match=r"no label 'labl4'; did you mean 'label4'"):
        train(None, data, tmp_path / "b", {"label": ("labl4",)})
    assert not (tmp_path / "b").exists()


def test_block_does_not_change_the_model(train, data, tmp_path):
    models = [train(None, data, tmp_path / str(b), {"labels_per_pass": b}).model.read_bytes() for b in (1, 2, 5, 40)]
    assert len(set(models)) == 1


def test_folder_is_never_overwritten_by_accident(train, data, tmp_path):
    run = tmp_path / "run"
    model = train(None, data, run, {}).model.read_bytes()
    (run / "notes.txt").write_text("mine")
    (run / "checkpoint").mkdir(exist_ok=True)
    (run / "checkpoint" / "mine.h5").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        train(None, data, run, {"lam": "X/2"})
    with pytest.raises(ConfigError, match=r"lambda = 'X/m', not 'X/2'"):
        train(None, data, run, {"lam": "X/2"}, resume=True)
    with pytest.raises(DataError):
        train(None, tmp_path / "absent.h5", run, {}, force=True)
    assert (run / "model.h5").read_bytes() == model
    assert train(None, data, run, {"lam": "X/2"}, force=True).model.read_bytes() != model
    assert (run / "notes.txt").read_text() == (run / "checkpoint" / "mine.h5").read_text() == "mine"


@pytest.mark.parametrize("how", [{"force": True}, {"resume": True}])
def test_folder_that_is_not_a_run_is_refused(train, data, tmp_path, how):
    run = tmp_path / "mine"
    (run / "checkpoint").mkdir(parents=True)
    for name in ("model.h5", "log.txt", "checkpoint/model.part.h5"):
        (run / name).write_text("mine")
    with pytest.raises(ConfigError, match="no run of ours"):
        train(None, data, run, {}, **how)
    assert [(run / name).read_text() for name in ("model.h5", "log.txt", "checkpoint/model.part.h5")] == ["mine"] * 3


def test_any_label_name_can_be_resumed(train, tmp_path):
    X, Y = random_data(7, 40, 10, 2)
    names = ['a\r"b\\\x7f\n', "ünï"]
    data = dataset(tmp_path / "data.h5", X, Y, label_names=names)
    with pytest.raises(Interrupted):
        train(None, data, tmp_path / "run", {"label": tuple(names), "time_limit": 1e-9})
    report = train(None, data, tmp_path / "run", {"label": tuple(names)}, resume=True)
    assert Model(report.model).label_names == names


def test_a_gradient_that_overflows_is_an_error(data, tmp_path):
    with pytest.raises(NonFiniteError, match="gradient of label number"):
        train_method("probe", None, data, tmp_path / "run", {"lam": "1e300"})


def test_a_log_that_cannot_be_written_does_not_stop_the_run(train, data, tmp_path, capsys):
    with pytest.raises(Interrupted):
        train(None, data, tmp_path / "run", {"time_limit": 1e-9})
    (tmp_path / "run" / "log.txt").unlink()
    (tmp_path / "run" / "log.txt").symlink_to("/dev/full")
    assert train(None, data, tmp_path / "run", {}, resume=True).model.exists()
    assert capsys.readouterr().err.count("going on without it") == 1


def test_interrupted_run_resumes_to_the_same_bits_and_history(train, data, tmp_path):
    whole = train(None, data, tmp_path / "whole", {"labels_per_pass": 2})
    rounds = 0
    while True:
        try:
            options = {"labels_per_pass": 2, "time_limit": 1e-9}
            pieces = train(None, data, tmp_path / "pieces", options, resume=rounds > 0)
            break
        except Interrupted:
            rounds += 1
            if rounds == 40:
                pieces = train(None, data, tmp_path / "pieces", {"labels_per_pass": 2}, resume=True)
                break
    assert rounds >= 1
    assert pieces.model.read_bytes() == whole.model.read_bytes()
    tables = [[row[:-1] for row in csv.reader((tmp_path / name / "history.csv").open())] for name in ("whole", "pieces")]
    assert tables[0] == tables[1]


def test_damaged_checkpoint_is_passed_over(train, data, tmp_path, capsys):
    whole, run = train(None, data, tmp_path / "whole", {}), tmp_path / "run"
    for round_ in range(3):
        with pytest.raises(Interrupted):
            train(None, data, run, {"time_limit": 1e-9}, resume=round_ > 0)
    newest = max((run / "checkpoint").glob("state-*.h5"))
    assert len(list((run / "checkpoint").glob("state-*.h5"))) == 2
    raw = bytearray(newest.read_bytes())
    with h5py.File(newest) as file:
        raw[file["done"].id.get_offset() + 3] ^= 255
    newest.write_bytes(raw)
    assert train(None, data, run, {}, resume=True).model.read_bytes() == whole.model.read_bytes()
    assert "is damaged" in capsys.readouterr().err


def test_data_replaced_between_checkpoint_and_resume_is_refused(train, data, tmp_path):
    with pytest.raises(Interrupted):
        train(None, data, tmp_path / "run", {"time_limit": 1e-9})
    with h5py.File(data, "r+") as file:  # as many rows, of the same features, but others
        file["splits/train"][:] = file["splits/test"][:]
    with pytest.raises(DataError, match="resume with the same file"):
        train(None, data, tmp_path / "run", {}, resume=True)


def test_probe_takes_the_steps_of_the_printed_algorithm(data, tmp_path):
    options = {"label": ("label3",), "bias": False, "dormant": False, "precision": "double"}
    report = train_method("probe", None, data, tmp_path / "run", options)
    X, Y = arrays(data)
    X, sign = X[::2], np.where(Y[::2, 3] != 0, 1.0, -1.0)

    def f_and_g(w):
        violating = sign * (X @ w) < 1
        return hinge_objective(X, sign, w, report.lam), report.lam * w - (sign * violating) @ X / 45

    f_min, w_min, trace = probe(f_and_g, 30)
    with (tmp_path / "run" / "history.csv").open() as file:
        history = list(csv.DictReader(file))
    early = slice(0, 60)  # rounding grows along the path: later steps agree less
    np.testing.assert_allclose([float(h["f"]) for h in history[early]], [t[0] for t in trace[early]], rtol=1e-9)
    assert [h["cycle"] for h in history[early]] == [t[2] for t in trace[early]]
    model = Model(report.model)
    assert model.labels["f_min"][0] == pytest.approx(f_min, rel=0.02)
    assert w_min @ model.weights(0) / np.linalg.norm(w_min) / np.linalg.norm(model.weights(0)) > 0.99
