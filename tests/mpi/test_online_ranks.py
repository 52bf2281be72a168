"""Single passes on any number of ranks: the model and the history have the bits of one rank, also with more ranks than labels."""

import numpy as np
import pytest
import scipy.sparse as sp
from support import make
from support.training import train

import hpcml.methods.online.source as source_module
import hpcml.methods.online.train as train_module
from hpcml.data import svmlight as text_stream
from hpcml.errors import Interrupted

pytestmark = pytest.mark.mpi

N_ROWS, N_FEATURES, N_LABELS = 120, 40, 5


def matrices():
    rng = np.random.default_rng(3)
    X = sp.random(N_ROWS, N_FEATURES, 0.12, "csr", random_state=rng, data_rvs=lambda n: rng.random(n) + 0.01).astype(np.float32)
    return X, (X @ rng.standard_normal((N_FEATURES, N_LABELS)) > 0.2).astype(int)


def text(X, Y=None):
    y = matrices()[1]
    lines = []
    for row in range(X.shape[0]):
        labels = f"{2 * y[row, 0] - 1:+d}" if Y is None else ",".join(str(label) for label in np.flatnonzero(Y[row]))
        pairs = zip(X[[row]].indices.tolist(), X[[row]].data.tolist(), strict=True)
        lines.append(" ".join([labels, *(f"{j + 1}:{x!r}" for j, x in pairs)]) + "\n")
    return "".join(lines)


@pytest.fixture
def files(comm, mpi_tmp_path):
    def write():
        X, Y = matrices()
        make.dataset(
            mpi_tmp_path / "data.h5", X, Y, label_names=list("01234"), splits={"a": np.arange(50), "b": np.arange(50, N_ROWS)}
        )
        (mpi_tmp_path / "sets.svm").write_text(text(X, Y))
        (mpi_tmp_path / "class.svm").write_text(text(X))

    make.by_one_rank(comm, write)
    return mpi_tmp_path


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(source_module, "PIECE_NNZ", 60)
    monkeypatch.setattr(train_module, "SvmlightStream", lambda *given: text_stream.SvmlightStream(*given, block_bytes=900))


def result_of(run):
    return (run / "model.h5").read_bytes(), (run / "history.csv").read_bytes()


def check(comm, folder, name, method, data, options):
    report = train(method, comm, data, folder / name, options)
    alone = make.by_one_rank(comm, lambda: train(method, None, data, folder / f"{name} alone", options))
    assert result_of(folder / name) == result_of(folder / f"{name} alone")
    mine = [(r.n_rows, r.n_labels, r.n_features, r.error, r.updates, r.warning) for r in (report, alone)]
    assert mine[0] == mine[1]
    return report


def test_warning_of_sorted_rows(comm, files, small_pieces):
    X, Y = matrices()
    order = np.argsort(Y[:, 0], kind="stable")
    make.by_one_rank(comm, lambda: make.dataset(files / "sorted.h5", X[order], Y[order]) and None)
    assert "grouped by label (1 of 5 labels" in check(comm, files, "sorted", "mbw", files / "sorted.h5", {}).warning


@pytest.mark.parametrize("method", ["mbw"])
def test_text(comm, files, small_pieces, method):
    options = {"voted": True}
    sets = options | {"label": tuple("01234")}
    check(comm, files, "sets", method, files / "sets.svm", sets)
    check(comm, files, "class", method, files / "class.svm", options)
    check(comm, files, "data", method, files / "data.h5", sets)
    assert (files / "sets" / "history.csv").read_bytes() == (files / "data" / "history.csv").read_bytes()
    one = [line.split(",")[1:] for line in (files / "class" / "history.csv").read_text().splitlines()[1:]]
    lines = [line.split(",") for line in (files / "data" / "history.csv").read_text().splitlines()[1:]]
    assert one == [line[1:] for line in lines if line[0] == "0"]


@pytest.mark.parametrize(("method", "size"), [("mbw", 12)])
def test_live_features(comm, files, small_pieces, method, size):
    options = {"live_features": size, "voted": True}
    check(comm, files, "data", method, files / "data.h5", options)
    check(comm, files, "sets", method, files / "sets.svm", options | {"label": tuple("01234")})


@pytest.mark.parametrize(("data", "method", "live"), [("class.svm", "romma", None), ("sets.svm", "bw", 15)])
def test_interrupted_pass_ends_with_the_same_bits_on_other_ranks(comm, files, small_pieces, data, method, live):
    options = {"voted": True, "live_features": live, "label": tuple("01234") if data != "class.svm" else ()}
    make.by_one_rank(comm, lambda: train(method, None, files / data, files / "alone", options))
    once = options | {"time_limit": 1e-9}
    for turn in range(3):
        if turn != 1:
            with pytest.raises(Interrupted):
                train(method, comm, files / data, files / "run", once, resume=turn > 0)
        elif comm.rank == 0:
            with pytest.raises(Interrupted):
                train(method, None, files / data, files / "run", once, resume=True)
        comm.Barrier()
    train(method, comm, files / data, files / "run", options, resume=True)
    assert result_of(files / "run") == result_of(files / "alone")


def test_initial_model_of_other_ranks(comm, files, small_pieces):
    options = {"voted": True, "split": "a"}
    data = files / "data.h5"
    make.by_one_rank(comm, lambda: train("mbw", None, data, files / "a", options).model)
    check(comm, files, "b", "mbw", data, options | {"split": "b", "initial_model": files / "a" / "model.h5"})
