"""Requirements of every method in the registry, and errors for features that a method does not support."""

import contextlib
import csv
import hashlib
import math

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from support.converted import converted
from support.make import dataset, random_data
from support.methods import (
    EVERY,
    LINEAR,
    AtLook,
    able,
    checkpoint_of,
    every,
    every_way,
    having,
    history,
    options_of,
    small_data,
)
from support.oracles import hinge_objective, probe
from support.training import merge, train

import hpcml
from hpcml import mpi, slices
from hpcml.cli import app as cli
from hpcml.errors import ConfigError, DataError, HpcmlError, Interrupted, NonFiniteError
from hpcml.methods.linear import objective
from hpcml.methods.registry import METHODS, methods_supporting
from hpcml.model.linear import STATUS, Model
from hpcml.model.open import open_model
from hpcml.options import option_flag

linear = pytest.mark.parametrize("method", LINEAR)
ENGINES = ("dual", "mbw", "psbml", "adaboost")  # one method of each kind of run; the others of the kind share its code


def one_of_each(names):
    more = pytest.mark.more("methods")
    return pytest.mark.parametrize("method", [pytest.param(name, marks=[] if name in ENGINES else more) for name in names])


of_each_kind, pausing_of_each_kind = one_of_each(EVERY), one_of_each(methods_supporting("pause"))


@pytest.fixture
def data(tmp_path):
    return small_data(tmp_path / "data.h5")


@pytest.fixture
def short_slices(monkeypatch):
    monkeypatch.setattr(slices, "SLICE_VALUES", 100)
    monkeypatch.setattr(objective, "ROWS_BYTES", 8 * 50)


def arrays(path):
    with h5py.File(path) as file:
        X, Y = ((file[n]["indptr"][:], file[n]["indices"][:], file[n]["data"][:], file[n].attrs["shape"]) for n in "XY")
    return tuple(sp.csr_matrix(m[2::-1], shape=m[3]).toarray().astype(float) for m in (X, Y))


def scores(model, data, path):
    hpcml.predict(model, data, path, split="test", all_scores=True)
    with h5py.File(path) as file:
        return file["scores"][:]


# what all can


@every
def test_evaluation_and_prediction_have_the_same_scores(data, tmp_path, method):
    model = train(method, None, data, tmp_path / "run", options_of(method)).model
    found, names = scores(model, data, tmp_path / "scores.h5"), open_model(model).label_names
    has = arrays(data)[1][1::2][:, [int(name[5:]) for name in names]] > 0
    above = found > np.asarray(getattr(open_model(model), "thresholds", 0.0))
    f1 = 2 * (above & has).sum(axis=0) / np.maximum(1, above.sum(axis=0) + has.sum(axis=0))
    assert hpcml.evaluate(model, data).macro("f1") == pytest.approx(f1.mean(), abs=1e-12)


@of_each_kind
def test_never_overwrites_a_run_without_force(data, tmp_path, method):
    run, options = tmp_path / "run", options_of(method)
    model = train(method, None, data, run, options).model.read_bytes()
    (run / "notes.txt").write_text("mine")
    (run / "checkpoint").mkdir(exist_ok=True)
    (run / "checkpoint" / "mine.h5").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        train(method, None, data, run, options, split="all")
    with pytest.raises(ConfigError, match=r"this run had split = None, not 'all'; resume with the same options"):
        train(method, None, data, run, options, split="all", resume=True)
    with pytest.raises(DataError):
        train(method, None, tmp_path / "absent.h5", run, options, force=True)
    assert (run / "model.h5").read_bytes() == model
    assert train(method, None, data, run, options, split="all", force=True).model.read_bytes() != model
    assert (run / "notes.txt").read_text() == (run / "checkpoint" / "mine.h5").read_text() == "mine"


@of_each_kind
@pytest.mark.parametrize("how", [{"force": True}, {"resume": True}])
def test_rejects_a_folder_that_is_not_a_run(data, tmp_path, method, how):
    run = tmp_path / "mine"
    (run / "checkpoint").mkdir(parents=True)
    for name in ("model.h5", "log.txt", "checkpoint/start.h5"):
        (run / name).write_text("mine")
    with pytest.raises(ConfigError, match="no hpcml run"):
        train(method, None, data, run, options_of(method), **how)
    assert [(run / name).read_text() for name in ("model.h5", "log.txt", "checkpoint/start.h5")] == ["mine"] * 3


@of_each_kind
def test_rejects_unknown_labels(data, tmp_path, method):
    several = "label_sets" in METHODS[method].supports
    with pytest.raises(ConfigError, match=r"no label 'labl4'; did you mean 'label4'"):
        train(method, None, data, tmp_path / "run", {"label": ("labl4",) if several else "labl4"})
    assert not (tmp_path / "run").exists()


@of_each_kind
def test_any_label_name_can_be_resumed(tmp_path, method):
    X, Y = random_data(7, 40, 10, 2, density=0.4)
    names, several = ['a\r"b\\\x7f\n', "ünï"], "label_sets" in METHODS[method].supports
    data, options = dataset(tmp_path / "data.h5", abs(X), Y, label_names=names), {"label": tuple(names) if several else names[0]}
    for looks in (1, 4, 99):
        with contextlib.suppress(Interrupted):
            train(method, None, data, tmp_path / "run", options, resume=looks > 1, signals=AtLook(looks))
    report = train(method, None, data, tmp_path / "run", options, resume=True)
    assert open_model(report.model).label_names == (names if several else names[:1])


# what some can, and what is said of the others


@able("label_sets")
def test_label_does_not_depend_on_the_other_labels(data, tmp_path, method):
    whole = train(method, None, data, tmp_path / "a", {}).model
    few = Model(train(method, None, data, tmp_path / "b", {"label": ("label4", "label0")}).model)
    assert few.label_names == ["label0", "label4"]
    of_all = scores(whole, data, tmp_path / "all.h5")[:, [Model(whole).label_names.index(name) for name in few.label_names]]
    assert scores(few.path, data, tmp_path / "few.h5").tobytes() == np.ascontiguousarray(of_all).tobytes()


@linear
def test_degenerate_labels_are_reported_and_get_the_constant_model(data, tmp_path, method):
    report = train(method, None, data, tmp_path / "run", {"min_positives": 0})
    assert report.degenerate == ["label1", "label2"]
    model, found = Model(report.model), scores(report.model, data, tmp_path / "scores.h5")
    assert (found[:, 1] == -1).all() and (found[:, 2] == 1).all() and np.isfinite(found).all()
    assert model.bias.tolist()[1:3] == [-1, 1]
    assert [STATUS[s] for s in model.labels["status"][1:3]] == ["degenerate"] * 2
    assert np.unique(found[:, 3]).size > 3  # the others are trained as ever


@pytest.mark.parametrize("method", [name for name in LINEAR if "hinge" in METHODS[name].losses])
def test_reported_f_is_the_objective_of_the_saved_model_over_all_rows(data, tmp_path, method):
    report = train(method, None, data, tmp_path / "run", {"loss": "hinge"})
    model, (X, Y) = Model(report.model), arrays(data)
    X = np.hstack([X[::2], np.ones((45, 1))])
    for row, name in enumerate(model.label_names):
        if STATUS[model.labels["status"][row]] == "degenerate":
            continue
        sign = np.where(Y[::2, int(name[5:])] != 0, 1.0, -1.0)
        w = np.append(model.weights(row), model.bias[row])
        assert model.labels["f_min"][row] == pytest.approx(hinge_objective(X, sign, w, report.lam), rel=1e-6)  # float32


@having("labels_per_pass")
def test_block_does_not_change_the_model(data, tmp_path, method):
    models = [train(method, None, data, tmp_path / str(b), {"labels_per_pass": b}).model.read_bytes() for b in (1, 5)]
    assert len(set(models)) == 1


@having("label_part")
def test_parts_of_the_labels_are_joined_to_the_same_model(data, tmp_path, method):
    whole, runs = train(method, None, data, tmp_path / "whole", {}).model.read_bytes(), [tmp_path / f"part{k}" for k in (1, 2, 3)]
    for number, run in enumerate(runs, 1):
        train(method, None, data, run, {"label_part": f"{number}/3"})
    merge(None, runs, tmp_path / "merged")
    assert (tmp_path / "merged" / "model.h5").read_bytes() == whole


def small(folder):
    return small_data(folder / "data.h5")


def negative_data(folder):
    return dataset(folder / "data.h5", *random_data(7, 60, 10, 3))


@able("negative_values")
def test_values_below_0(tmp_path, method):
    assert train(method, None, negative_data(tmp_path), tmp_path / "run", one(method))


def one(method, label="label0"):
    return {"label": (label,) if "label_sets" in METHODS[method].supports else label}


def refused(sentence, *tokens):
    with pytest.raises(HpcmlError) as error:
        cli.run([str(token) for token in tokens], mpi.self_comm)
    assert sentence in str(error.value) and "\n" not in str(error.value) and error.value.exit_code == 2


def data_with_headings(tmp_path):
    lines = [f'{{"text": "word{row % 7} word{row % 3}", "labels": ["{"abc"[row % 3]}"]}}\n' for row in range(60)]
    (tmp_path / "docs.jsonl").write_text("".join(lines))
    return converted("jsonl", tmp_path / "docs.jsonl", tmp_path / "headings.h5", headings_as_features=True).output


@able("headings")
def test_headings(tmp_path, method):
    data = data_with_headings(tmp_path)
    assert train(method, None, data, tmp_path / "run", {"exclude": ("a",)}).model.exists()


def stream(tmp_path):
    lines = [f"{'+1' if row % 3 else '-1'} {1 + row % 5}:1 7:{row % 2}.5\n" for row in range(60)]
    (tmp_path / "rows.svm").write_text("".join(lines))
    return tmp_path / "rows.svm"


@able("streams")
def test_streams(tmp_path, method):
    assert train(method, None, stream(tmp_path), tmp_path / "run").n_rows == 60


@able("tune")
def test_tune(data, tmp_path, method):
    report = hpcml.tune(data, tmp_path / "run", method=method, folds=3, lambdas=(0.5, 1.0))
    assert open_model(report.model).attrs["method"] == method


@able("retrain")
def test_retrain(data, tmp_path, method):
    model = train(method, None, data, tmp_path / "run", {}).model
    assert hpcml.retrain(tmp_path / "run", data, tmp_path / "again").model.read_bytes() == model.read_bytes()


def test_retrain_rejects_other_methods(data, tmp_path):
    train("liblinear", None, data, tmp_path / "run", {})
    refused("is a run of liblinear; only runs of ", "retrain", tmp_path / "run", data, "-o", tmp_path / "again")


TRAINING = ("train", "METHOD", "-o", "RUN")
REFUSED = {  # what a method may not be able to do: a command that asks for it, the data, and what is said
    "label_sets": (TRAINING, small, "needs exactly one in each row; choose one label with --label"),
    "negative_values": (TRAINING, negative_data, "has the value -"),
    "headings": (TRAINING, data_with_headings, "which would leak them to METHOD"),
    "streams": (TRAINING, stream, "rows.svm: not an HDF5 file (or damaged); expected one created with `hpcml convert`"),
    "tune": (("tune", "-o", "RUN", "--method", "METHOD"), small, "--method METHOD: expected one of "),
    "pause": ((*TRAINING, "--time-limit", "1"), small, "--time-limit has no effect on METHOD, only on "),
}


@pytest.mark.parametrize(
    ("method", "what"), [(name, what) for what in REFUSED for name in EVERY if what not in METHODS[name].supports]
)
def test_rejects_unsupported_features(tmp_path, method, what):
    command, make_data, sentence = REFUSED[what]
    words = [word.replace("METHOD", method).replace("RUN", str(tmp_path / "run")) for word in command]
    refused(sentence.replace("METHOD", method), *words, make_data(tmp_path))
    assert not (tmp_path / "run").exists()


INVALID = {  # the first option is named in the error
    "dual": [
        *({"positive_weight": text} for text in ("much", "0", "-1", "nan", "")),
        *({"lam": text} for text in ("nan", "inf", "-1", "1e-320", "X", "X/0", "m/X", "0.1X", "nanX/m")),
        *({"max_gap": gap} for gap in (0.0, math.nan)),
        *({"dual_tol": math.inf}, {"loss": "huber"}, {"max_steps": 0}, {"ranks_per_group": 2}),
    ],
    "elastic-net": [
        *({"l1": text} for text in ("-1", "X/m", "N", "N/2", "nan", "1/")),
        *({"l1": "0", "lam": "0"}, {"l1": "1/m", "path": ("1/m",)}, {"path": ("1/m", "1/m")}, {"path": ("1/m",), "solver": "sgd"}),
        *({"solver": "sag"}, {"rate": "fast", "solver": "sgd"}, {"passes": 3}, {"max_gap": 0.1, "solver": "fobos"}),
        *({"loss": "hinge"}, {"eta": 4.0, "solver": "sgd", "lam": "0.5"}),
    ],
    "probe": [{"loss": "squared-hinge"}, {"drop": -1.0}, {"drop": math.inf}],
    "svmperf": [{"svmperf_epsilon": 0.0}, {"loss": "huber"}],
    "liblinear": [{"liblinear_tol": math.nan}, {"loss": "logistic"}],
}


@pytest.mark.parametrize(("method", "options"), [(method, options) for method, each in INVALID.items() for options in each])
def test_rejects_invalid_options(data, tmp_path, method, options):
    with pytest.raises(ConfigError) as error:
        train(method, None, data, tmp_path / "run", options)
    assert str(error.value).startswith(f"--{option_flag(next(iter(options)))} ") and "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("method", "option"), [("probe", "show_gaps"), ("pegasos", "max_gap"), ("svmperf", "positive_weight")])
def test_rejects_options_of_other_methods(data, tmp_path, method, option):
    with pytest.raises(ConfigError, match=f"{method} has no option '{option}'"):
        train(method, None, data, tmp_path / "run", {option: 1})


# interruptions


@every_way
def test_interrupted_runs_end_with_the_same_bits_and_history(data, tmp_path, short_slices, method, way):
    options, stops, looks, before = options_of(method, way), 0, 1, hashlib.sha256(data.read_bytes()).hexdigest()
    whole, model = train(method, None, data, tmp_path / "whole", options).model, None
    while model is None:
        try:
            again = {"resume": stops > 0, "signals": AtLook(looks)}
            model = train(method, None, data, tmp_path / "run", options, **again).model
        except Interrupted:
            stops, looks = stops + 1, 3 * looks
    assert (stops > 1) == ("pause" in METHODS[method].supports)
    assert model.read_bytes() == whole.read_bytes()
    assert history(tmp_path / "run") == history(tmp_path / "whole")
    assert not (tmp_path / "run" / "checkpoint").exists()
    assert hashlib.sha256(data.read_bytes()).hexdigest() == before


@able("pause")
def test_skips_a_damaged_checkpoint(data, tmp_path, short_slices, capsys, method):
    whole, run = train(method, None, data, tmp_path / "whole", options_of(method)), tmp_path / "run"
    newest = checkpoint_of(method, data, run, at_least=2)
    raw = bytearray(newest.read_bytes())
    with h5py.File(newest) as file:
        raw[file["elapsed"].id.get_offset() + 3] ^= 255
    newest.write_bytes(raw)
    again = train(method, None, data, run, options_of(method), resume=True)
    assert again.model.read_bytes() == whole.model.read_bytes()
    assert "is damaged" in capsys.readouterr().err


@pausing_of_each_kind
def test_rejects_data_replaced_before_resume(data, tmp_path, short_slices, method):
    checkpoint_of(method, data, tmp_path / "run")
    with h5py.File(data, "r+") as file:  # as many rows, of the same features, but others
        file["splits/train"][:] = file["splits/test"][:]
    with pytest.raises(DataError, match=r"other data.*resume with the same file"):
        train(method, None, data, tmp_path / "run", options_of(method), resume=True)


# what only probe has


def test_a_gradient_that_overflows_is_an_error(data, tmp_path):
    with pytest.raises(NonFiniteError, match="gradient of label number"):
        train("probe", None, data, tmp_path / "run", {"lam": "1e300"})


def test_probe_takes_the_steps_of_the_printed_algorithm(data, tmp_path):
    options = {"label": ("label3",), "bias": False, "dormant": False, "precision": "double"}
    report = train("probe", None, data, tmp_path / "run", options)
    X, Y = arrays(data)
    X, sign = X[::2], np.where(Y[::2, 3] != 0, 1.0, -1.0)

    def f_and_g(w):
        violating = sign * (X @ w) < 1
        return hinge_objective(X, sign, w, report.lam), report.lam * w - (sign * violating) @ X / 45

    f_min, w_min, trace = probe(f_and_g, 30)
    with (tmp_path / "run" / "history.csv").open() as file:
        steps = list(csv.DictReader(file))
    early = slice(0, 60)  # rounding grows along the path: later steps agree less
    np.testing.assert_allclose([float(h["f"]) for h in steps[early]], [t[0] for t in trace[early]], rtol=1e-9)
    assert [h["cycle"] for h in steps[early]] == [t[2] for t in trace[early]]
    model = Model(report.model)
    assert model.labels["f_min"][0] == pytest.approx(f_min, rel=0.02)
    assert w_min @ model.weights(0) / np.linalg.norm(w_min) / np.linalg.norm(model.weights(0)) > 0.99
