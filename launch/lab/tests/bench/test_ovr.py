"""One-versus-rest benchmarks: the table says what models are worth; other trainers are judged likewise, or left out."""

import importlib.util
import json
import struct
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import average_precision_score
from support.make import dataset, random_data
from support.tables import table
from support.training import bench_ovr, shared

from hpcml.bench import ovr as bench
from hpcml.bench import peers
from hpcml.bench.ovr import OvrOptions
from hpcml.bench.ovr_table import against
from hpcml.bench.peers import PeerProblem, choose_peers
from hpcml.bench.programs import PEERS, read_napkinxc
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError
from hpcml.evaluation.top import PRECISION_AT
from hpcml.log import Log
from hpcml.model.linear import Model

OF_L2 = {name: peer for name, peer in PEERS.items() if peer.penalty == "l2" and ("hinge" in peer.losses or not peer.losses)}
OPTIONS = shared(max_steps=200, loss="hinge", bias=False)
PLAN = OvrOptions(("probe", "liblinear"), ("none",), (0.1, 0.001))
FAKE = """
import numpy as np
from sklearn.svm import LinearSVC


class MLProblem:
    def __init__(self, X, Y, threads):
        self.X, self.Y = X, Y


class MLModel:
    class TrainParams:
        def __init__(self, **given):
            self.given = given

    @classmethod
    def train(cls, problem, params):
        assert params.given["bias"] < 0 and params.given["threads"] == 1
        BEGIN
        svc = LinearSVC(loss="hinge", C=params.given["Cp"], fit_intercept=False, tol=params.given["eps"], random_state=0)
        model = cls()
        model.W = np.array([svc.fit(problem.X.astype(float), y).coef_[0] for y in problem.Y.toarray().T]).T
        return model

    def save(self, folder):
        import pathlib
        pathlib.Path(folder).mkdir()
        pathlib.Path(folder, "W").write_bytes(b"x" * 5000)
"""


def fake_pecos(folder, begin="pass"):
    """A folder to put on PYTHONPATH, with a trainer of PECOS' interface that is LIBLINEAR."""
    (folder / "pecos" / "xmc").mkdir(parents=True)
    (folder / "pecos" / "__init__.py").touch()
    (folder / "pecos" / "xmc" / "__init__.py").touch()
    (folder / "pecos" / "xmc" / "base.py").write_text(FAKE.replace("BEGIN", begin))
    return str(folder)


def problem(seed=3, n_labels=7):
    X, Y = random_data(seed, 120, 30, n_labels)
    return X, sp.csr_matrix(Y > 0, dtype=float)


@pytest.fixture
def data(tmp_path):
    return dataset(tmp_path / "data.h5", *problem(), splits={"train": np.arange(80), "test": np.arange(80, 120)})


def run(data, folder, plan=PLAN, options=OPTIONS, **more):
    return bench_ovr(None, data, folder, plan, options, log=Log(1), **more)


def p_at(scores, truth):
    best = np.argsort(-scores, axis=1, kind="stable")
    return [np.mean([truth[row, best[row, :k]].sum() / k for row in range(len(truth))]) for k in PRECISION_AT]


def expected(W, lam):
    """f, MAP and P@k of weights (labels × features), by other means."""
    X, Y = problem()
    X, Y = X.toarray().astype(float), Y.toarray()
    signs, scores = 2 * Y[:80] - 1, X[80:] @ W.T
    losses = np.maximum(0, 1 - signs * (X[:80] @ W.T)).mean(axis=0)
    some = Y[80:].any(axis=0)
    average = np.mean([average_precision_score(y, s) for y, s in zip(Y[80:].T[some], scores.T[some], strict=True)])
    return [np.mean(0.5 * lam * (W**2).sum(axis=1) + losses), average, *p_at(scores, Y[80:])]


def found(line):
    return [line.f, line.average_precision, line.p1, line.p3, line.p5]


def test_the_table_is_what_the_models_in_the_folders_are(data, tmp_path):
    result = run(data, tmp_path / "out", OvrOptions(PLAN.methods, PLAN.peers, PLAN.tolerances, repeats=2))
    assert [line.trainer for line in result.lines] == ["probe", "liblinear"] * 4
    assert [line.repeat for line in result.lines] == [1] * 4 + [2] * 4
    for line in result.lines:
        made = Model(tmp_path / "out" / f"{line.trainer}-{line.tolerance:g}" / "model.h5")
        assert found(line) == pytest.approx(expected(made.weights(), result.lam), rel=1e-6)
        assert line.ms_per_label == pytest.approx(1000 * line.seconds / 7)
        assert line.cpu_seconds > 0
        assert line.model_mb == made.path.stat().st_size / 1e6
    probe, liblinear = result.fastest(0.001)
    assert liblinear.f < result.fastest(0.1)[1].f
    assert probe.seconds == min(line.seconds for line in result.lines if (line.trainer, line.tolerance) == ("probe", 0.001))
    assert "tolerance 0.1 " in str(result)
    assert f"{probe.seconds / liblinear.seconds:.2f}" in str(result)
    rows = table(tmp_path / "out" / "ovr.csv")
    assert [float(row["f"]) for row in rows] == [line.f for line in result.lines]
    told = json.loads((tmp_path / "out" / "ovr.json").read_text())
    assert len(told["table"]) == 4
    assert told["table"][2]["f_percent_above"] == pytest.approx(100 * (probe.f / liblinear.f - 1))
    assert told["machine"]["cores"]
    assert (tmp_path / "out" / "ovr.txt").read_text() == f"{result}\n"


def test_without_the_reference_nothing_is_compared(data, tmp_path):
    result = run(data, tmp_path / "out", OvrOptions(("probe",), ("none",), (0.1,)))
    assert "nan" not in str(result)
    assert json.loads((tmp_path / "out" / "ovr.json").read_text())["table"][0]["seconds_ratio"] is None


@pytest.mark.parametrize("bias", [False, True])
def test_a_peer_has_the_same_problem_and_the_same_judge(data, tmp_path, monkeypatch, bias):
    monkeypatch.setenv("PYTHONPATH", fake_pecos(tmp_path / "path"), prepend=":")
    plan = OvrOptions(("liblinear",), ("pecos",), (1e-4,), repeats=2)
    result = run(data, tmp_path / "out", plan, {"bias": bias})
    ours, theirs = result.fastest(1e-4)
    assert found(theirs) == pytest.approx(found(ours), rel=1e-3)
    assert theirs.model_mb == 0.005
    assert theirs.peak_mib > 10 and theirs.cpu_seconds > 0
    assert len(result.lines) == 4
    assert "pecos unknown: one cluster" in str(result)


def test_scores_alone_give_all_but_the_objective(data, tmp_path):
    run(data, tmp_path / "out", OvrOptions(("liblinear",), ("none",), (0.1,)))
    made = Model(tmp_path / "out" / "liblinear-0.1" / "model.h5")
    with DataFile(data) as opened:
        told = PeerProblem(opened, made, "train", "test", bias=False)
    np.save(tmp_path / "scores.npy", told.X_test @ made.weights().T)
    f, average, at = told.judge(tmp_path)
    assert np.isnan(f)
    assert [average, *at] == pytest.approx(expected(made.weights(), told.lam)[1:])
    np.save(tmp_path / "scores.npy", np.zeros((40, 6)))
    with pytest.raises(ValueError, match="scores"):
        told.judge(tmp_path)


def test_the_best_labels_alone_give_precisions(tmp_path):
    X, Y = problem()
    Y = Y.tolil()
    Y[:80, 2] = 0  # cannot be trained: the numbers of the labels that are differ from those of all
    path = dataset(tmp_path / "d.h5", X, Y.tocsr(), splits={"train": np.arange(80), "test": np.arange(80, 120)})
    run(path, tmp_path / "out", OvrOptions(("liblinear",), ("none",), (0.1,)), {"min_positives": 0, "bias": False})
    with DataFile(path) as opened:
        told = PeerProblem(opened, Model(tmp_path / "out" / "liblinear-0.1" / "model.h5"), "train", "test", bias=False)
    best = np.array([np.random.default_rng(row).permutation(6)[:5] for row in range(40)], dtype=np.int32)
    best[::3, 2:] = -1  # there need not be as many
    np.save(tmp_path / "best.npy", best)
    f, average, at = told.judge(tmp_path)
    truth, places = Y.toarray()[80:], np.array([0, 1, 3, 4, 5, 6])
    hits = [[label >= 0 and truth[row, places[label]] for label in best[row]] for row in range(40)]
    assert at == pytest.approx([np.mean([sum(row[:k]) / k for row in hits]) for k in PRECISION_AT])
    assert np.isnan([f, average]).all()
    for wrong in (best[:, :4], best[:39], best.astype(float), np.full_like(best, 6)):
        np.save(tmp_path / "best.npy", wrong)
        with pytest.raises(ValueError, match="best labels"):
            told.judge(tmp_path)


def test_dropped_weights_are_told_and_count_in_the_size(data, tmp_path):
    plan = OvrOptions(("dual",), ("none",), (0.1,))
    whole, few = (run(data, tmp_path / f"{drop}", plan, replace(OPTIONS, drop=drop)) for drop in (None, 0.2))
    assert Model(tmp_path / "0.2" / "dual-0.1" / "model.h5").sparse
    assert few.lines[0].f == whole.lines[0].f
    assert few.lines[0].average_precision != whole.lines[0].average_precision
    assert few.lines[0].rows_per_second > 0
    assert "without weights below 0.2 in magnitude" in str(few) and "in magnitude" not in str(whole)


def test_labels_that_cannot_be_trained_are_constant_for_all(tmp_path, monkeypatch):
    X, Y = problem()
    Y = Y.tolil()
    Y[:80, 2], Y[:80, 4] = 0, 1
    path = dataset(tmp_path / "d.h5", X, Y.tocsr(), splits={"train": np.arange(80), "test": np.arange(80, 120)})
    monkeypatch.setenv("PYTHONPATH", fake_pecos(tmp_path / "path"), prepend=":")
    result = run(path, tmp_path / "out", OvrOptions(("liblinear",), ("pecos",), (1e-4,)), {"min_positives": 0, "bias": False})
    assert result.n_labels == 5
    ours, theirs = result.lines
    assert found(theirs) == pytest.approx(found(ours), rel=1e-3)


@pytest.mark.parametrize(
    ("begin", "reason"),
    [
        ("raise RuntimeError('too bad')", "it failed (exit code 1): RuntimeError: too bad"),
        ("import time; time.sleep(60)", "it took more than 1 s"),
        ("problem.Y = problem.Y[:, 1:]", "what it gave is of no use"),
    ],
)
def test_a_peer_that_fails_is_left_out_with_a_reason(data, tmp_path, monkeypatch, begin, reason):
    monkeypatch.setenv("PYTHONPATH", fake_pecos(tmp_path / "path", begin), prepend=":")
    limit = 1 if "sleep" in begin else 3600
    result = run(data, tmp_path / "out", OvrOptions(("liblinear",), ("pecos",), (0.1, 0.01), peer_limit=limit))
    assert result.skipped["pecos"].startswith(reason)
    assert f"pecos: skipped, {reason}" in str(result)
    assert [line.trainer for line in result.lines] == ["liblinear"] * 2


def test_every_peer_that_is_missing_says_what_to_install(data, tmp_path, monkeypatch):
    for peer in OF_L2.values():
        package = tmp_path / "path" / peer.module.split(".")[0]
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise ImportError('no')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"), prepend=":")
    result = run(data, tmp_path / "out", OvrOptions(("liblinear",), (), (0.1,)))
    assert {name: text.split(" (")[0] for name, text in result.skipped.items()} == {
        name: f"not installed: pip install {peer.package}" for name, peer in OF_L2.items()
    }


@pytest.mark.parametrize("name", sorted(PEERS))
def test_every_peer_that_is_here_trains(data, tmp_path, name):
    if importlib.util.find_spec(PEERS[name].module.split(".")[0]) is None:
        pytest.skip(f"{name} is not installed")
    cases = {"liblinear-l1": ("elastic-net", shared(lam="0")), "liblinear-logistic": ("dual", shared(loss="logistic"))}
    cases["liblinear-squared-hinge"] = ("dual", shared(loss="squared-hinge"))
    method, options = cases.get(name, ("liblinear", OPTIONS))
    result = run(data, tmp_path / "out", OvrOptions((method,), (name,), (1e-4,)), options)
    assert not result.skipped
    ours, theirs = result.lines
    if PEERS[name].losses:
        assert 0 < theirs.average_precision <= 1
    else:
        assert np.isnan(theirs.average_precision) and 0.5 * ours.p3 < theirs.p3 <= 1 and theirs.rows_per_second > 0
    assert np.isnan(theirs.f) or theirs.f == pytest.approx(ours.f, rel=1e-2)


def test_weights_of_napkinxc_are_read_dense_sparse_and_turned():
    w = np.array([0.5, 0, -2, 0, 0], dtype="<f4")
    dense = struct.pack("<iiiQQQQ?", 2, 1, 1, 8, 2, 8, 2, False) + np.concatenate([[0, 0], w, [0]]).astype("<f4").tobytes() + b"\0"
    pairs = np.array([(2, 0.5), (4, -2.0)], [("j", "<i4"), ("w", "<f4")])
    sparse = struct.pack("<iiiQQQQ?", 2, 0, 1, 5, 2, 5, 2, True) + pairs.tobytes() + b"\0"
    read = read_napkinxc(struct.pack("<i", 3) + dense + sparse + dense, 5)
    np.testing.assert_array_equal(read.toarray(), [w, -w, w])


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (OvrOptions(repeats=0), "--repeat 0"),
        (OvrOptions(tolerances=(0.1, 0.0)), "--tol 0.0"),
        (OvrOptions(tolerances=(0.1, 0.1)), "--tol: expected different"),
        (OvrOptions(tolerances=()), "--tol: expected different"),
        (OvrOptions(peer_limit=0), "--peer-limit 0"),
        (OvrOptions(peers=("pekos",)), "did you mean 'pecos'"),
        (OvrOptions(methods=("prob",)), "did you mean 'probe'"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_is_made(data, tmp_path, plan, words):
    with pytest.raises(ConfigError, match=words):
        run(data, tmp_path / "out", plan)
    assert not (tmp_path / "out").exists()


def test_results_are_not_overwritten_without_force(data, tmp_path):
    plan = OvrOptions(("liblinear",), ("none",), (0.1,))
    run(data, tmp_path / "out", plan)
    with pytest.raises(ConfigError, match="exists already"):
        run(data, tmp_path / "out", plan)
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "ovr.csv").write_text("mine")
    with pytest.raises(ConfigError, match=r"ovr.csv exists already"):
        run(data, tmp_path / "table", plan)
    run(data, tmp_path / "out", plan, force=True)


def test_choices():
    losses = {"l2": "hinge", "elastic net": "logistic"}
    assert choose_peers((), ["dual"], losses) == list(OF_L2)
    assert choose_peers((), ["dual"], {"l2": "squared-hinge"}) == ["napkinxc", "pecos", "omikuji", "liblinear-squared-hinge"]
    assert choose_peers((), ["dual"], {"l2": "huber"}) == list(OF_L2)  # who minimise something else, as is said then
    assert choose_peers((), ["dual"], {"l2": "logistic"}) == ["omikuji", "liblinear-logistic"]
    assert choose_peers((), ["elastic-net"], losses) == ["liblinear-l1"]
    assert choose_peers((), ["dual", "elastic-net"], losses) == [*OF_L2, "liblinear-l1"]
    assert choose_peers(("pecos", "pecos"), ["dual"], losses) == ["pecos"]
    assert choose_peers(("none",), ["dual"], losses) == []
    with pytest.raises(ConfigError, match="--peer liblinear-l1: it is compared with elastic-net only; choose some with --method"):
        choose_peers(("liblinear-l1",), ["dual"], losses)
    assert bench.methods_of(OvrOptions(), OPTIONS) == ["dual", "liblinear"]
    assert bench.methods_of(OvrOptions(), shared(loss="squared-hinge")) == ["dual"]
    assert peers.NO_PEERS not in PEERS


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"loss": "logistic"}, "--peer pecos: it minimises the loss hinge or squared-hinge, not logistic; choose others, or none"),
        ({"positive_weight": "balanced"}, "--positive-weight balanced: in pecos all rows have weight 1; add --peer none"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path, data, options, said):
    with pytest.raises(ConfigError, match=said):
        run(data, tmp_path / "out", replace(PLAN, methods=("dual",), peers=("pecos",)), replace(OPTIONS, **options))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("result", ["{", "[1, 2]", "{}", '{"seconds": 1, "peak_mib": 1, "version": "", "model_bytes": 1}'])
def test_a_peer_whose_result_is_of_no_use_is_left_out(tmp_path, data, result):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho '{result}' > \"$3/result.json\"\n")
    python.chmod(0o755)
    found = run(data, tmp_path / "out", replace(PLAN, methods=("dual",), peers=("pecos",), peer_python=python))
    assert "what it gave is of no use" in found.skipped["pecos"]
    assert {line.trainer for line in found.lines} == {"dual"}


def test_two_penalties_side_by_side(data, tmp_path):
    plan = OvrOptions(("liblinear", "elastic-net"), ("none",), (1e-4,))
    result = run(data, tmp_path / "out", plan, {"bias": False})
    hinge, ours = result.lines
    assert ours.objective != hinge.objective
    assert np.isnan(against(ours, hinge)[1]) and against(ours, hinge)[0] > 0
    made = Model(tmp_path / "out" / "elastic-net-0.0001" / "model.h5")
    with DataFile(data) as opened:
        told = PeerProblem(opened, made, "train", "test", bias=False)
    weights = sp.csr_matrix(np.column_stack([made.weights(), made.bias]))
    assert told.objective(weights) == pytest.approx(ours.f, rel=1e-9)
    assert "each its own objective" in str(result) and "values of different objectives cannot be compared" in str(result)


def test_without_l1_there_is_nothing_to_compare_with(data, tmp_path):
    result = run(data, tmp_path / "out", OvrOptions(("elastic-net",), (), (0.1,)), {"l1": "0"})
    assert result.skipped == {"liblinear-l1": "it needs --l1 above 0"}
    with pytest.raises(ConfigError, match="--peer liblinear-l1: it minimises the loss logistic, not squared"):
        run(data, tmp_path / "squared", OvrOptions(("elastic-net",), (), (0.1,)), {"loss": "squared"})
