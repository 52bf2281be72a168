"""Evaluation and prediction give the same bits on any number of ranks."""

import json
import shutil

import h5py
import numpy as np
import pytest
from support import make
from support.converted import convert_on, converted_alike
from support.judged import HintLog

from hpcml import mpi
from hpcml.conversion import jsonl
from hpcml.data.dataset import DataFile
from hpcml.data.shard import read_rows
from hpcml.errors import ConfigError, DataError, NonFiniteError
from hpcml.evaluation import MEASURES, evaluate
from hpcml.evaluation.bioasq import evaluate_bioasq
from hpcml.log import Log
from hpcml.model.learner import LEARNERS, scores
from hpcml.model.linear import Model
from hpcml.model.open import open_model, share_model
from hpcml.prediction.predict import predict, write_scores
from hpcml.prediction.table import BIOASQ, FORMATS

pytestmark = pytest.mark.mpi


def make_files(comm, folder, n_rows, poison=False, precision="<f8"):
    with mpi.agreed(comm, "making the data"):
        if comm.rank == 0:
            X, Y = make.random_data(n_rows, n_rows, 12, 40)
            W = np.random.default_rng(1).integers(-2, 3, (40, 12)) / 3.0
            W[39] = np.nan if poison else 0.1
            make.dataset(folder / "data.h5", X, Y, row_ids=[f"id {i}" for i in range(n_rows)], splits={"test": range(0, n_rows, 2)})
            if precision == "<f4":
                columns, factors = make.compact_columns(2, 12, 6)
                make.model(folder / "model.h5", W[:, :6], np.zeros(40), columns=columns, factors=factors, precision=precision)
            else:
                make.model(folder / "model.h5", W, np.zeros(40))
    return folder / "data.h5", Model(folder / "model.h5")


@pytest.mark.parametrize("precision", ["<f4", "<f8"])
@pytest.mark.parametrize("n_rows", [0, 3, 200])
@pytest.mark.parametrize("split", ["all", "test"])
def test_evaluation_on_all_ranks_equals_one_rank(comm, mpi_tmp_path, n_rows, split, precision):
    data, model = make_files(comm, mpi_tmp_path, n_rows, precision=precision)
    with DataFile(data) as dataset:
        alone = evaluate(mpi.self_comm(), model, dataset, split, Log(1))
        together = evaluate(comm, model, dataset, split, Log(1))
    assert together.n_rows == alone.n_rows
    assert np.array_equal(together.n_positive, alone.n_positive)
    assert [together.values[name].tobytes() for name in MEASURES] == [alone.values[name].tobytes() for name in MEASURES]
    assert repr(together.micro) == repr(alone.micro)


def make_classifier(comm, folder, base, n_classes, n_rows, dense):
    names = ["one"] if n_classes == 2 else list("abc")
    with mpi.agreed(comm, "making the data"):
        if comm.rank == 0:
            X, y, Y = make.class_data(3, max(n_rows, 60), 10, n_classes)
            make.dataset(folder / "data.h5", X[:n_rows], Y[:n_rows], label_names=names, splits={"test": range(0, n_rows, 2)})
            make.classifier(folder / "model.h5", base, X[:60], y[:60], names, dense=dense)
    return folder / "data.h5", open_model(folder / "model.h5")


@pytest.mark.more("ranks", one_in=3)
@pytest.mark.parametrize("n_rows", [121, 1])
@pytest.mark.parametrize("base", list(LEARNERS))
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_classifier_on_all_ranks_equals_one_rank(comm, mpi_tmp_path, base, dense, n_classes, n_rows):
    data, model = make_classifier(comm, mpi_tmp_path, base, n_classes, n_rows, dense)
    with DataFile(data) as dataset:
        alone = evaluate(mpi.self_comm(), model, dataset, "test", Log(1))
        together = evaluate(comm, model, dataset, "test", Log(1))
        write_scores(mpi.self_comm(), model, dataset, "all", mpi_tmp_path / f"alone-{comm.rank}.h5", False, Log(1))
        write_scores(comm, model, dataset, "all", mpi_tmp_path / "together.h5", False, Log(1))
    assert np.array_equal(together.n_positive, alone.n_positive)
    assert [together.values[name].tobytes() for name in MEASURES] == [alone.values[name].tobytes() for name in MEASURES]
    assert repr(together.micro) == repr(alone.micro)
    assert (mpi_tmp_path / "together.h5").read_bytes() == (mpi_tmp_path / f"alone-{comm.rank}.h5").read_bytes()


@pytest.mark.parametrize("n_rows", [101, 1])
@pytest.mark.parametrize("precision", ["<f4", "<f8"])
@pytest.mark.parametrize("ending", [ending for ending in FORMATS if ending != BIOASQ])
def test_predictions_on_all_ranks_equal_one_rank(comm, mpi_tmp_path, ending, precision, n_rows):
    data, model = make_files(comm, mpi_tmp_path, n_rows, precision=precision)
    alone, together = mpi_tmp_path / f"alone-{comm.rank}{ending}", mpi_tmp_path / f"together{ending}"
    with DataFile(data) as dataset:
        predict(mpi.self_comm(), model, dataset, "all", alone, False, Log(1))
        predict(comm, model, dataset, "all", together, False, Log(1))
    assert together.read_bytes() == alone.read_bytes()


@pytest.mark.parametrize("ending", [".h5", ".csv"])
def test_few_labels_are_counted_on_all_ranks_and_told_once(comm, mpi_tmp_path, ending):
    with mpi.agreed(comm, "making the data"):
        if comm.rank == 0:
            sign = np.tile([1.0, -1.0], 30)[:, None]
            make.dataset(mpi_tmp_path / "data.h5", sign, sign > 0)
            model = make.model(mpi_tmp_path / "model.h5", np.ones((1, 1)))
            for name, n_positive in (("few", 90), ("many", 110)):
                shutil.copy(model, mpi_tmp_path / f"{name}.h5")
                with h5py.File(mpi_tmp_path / f"{name}.h5", "r+") as file:
                    file["labels/n_positive"][:], file.attrs["n_rows"] = n_positive, 100
    for name, expected in (("few", []), ("many", ["note: rows get 0.5 labels on average, while training rows have 1.1"])):
        log = HintLog(comm.rank)
        with DataFile(mpi_tmp_path / "data.h5") as dataset:
            predict(
                comm,
                Model(mpi_tmp_path / f"{name}.h5"),
                dataset,
                "all",
                mpi_tmp_path / f"labels-{name}{ending}",
                True,
                log,
            )
        assert [note.partition(";")[0] for note in log.notes] == (expected if comm.rank == 0 else [])


@pytest.mark.parametrize("ending", [ending for ending in FORMATS if ending != BIOASQ])
def test_all_ranks_fail_together_and_leave_nothing(comm, mpi_tmp_path, ending):
    data, model = make_files(comm, mpi_tmp_path, 30, poison=True)
    with DataFile(data) as dataset:
        with pytest.raises(NonFiniteError, match="label 'label39'"):
            evaluate(comm, model, dataset, "all", Log(1))
        with pytest.raises(NonFiniteError, match="label 'label39'"):
            predict(comm, model, dataset, "all", mpi_tmp_path / f"out{ending}", False, Log(1))
        with pytest.raises(ConfigError, match="no split"):
            predict(comm, model, dataset, "nowhere", mpi_tmp_path / f"out{ending}", False, Log(1))
    comm.Barrier()  # rank 0 removes what it had begun
    with mpi.agreed(comm, "looking"):
        assert {path.name for path in mpi_tmp_path.iterdir()} == {"data.h5", "model.h5"}


@pytest.mark.parametrize("base", sorted(LEARNERS))
def test_a_classifier_that_one_rank_reads_is_the_one_in_the_file(comm, mpi_tmp_path, base):
    data, alone = make_classifier(comm, mpi_tmp_path, base, 3, 30, dense=False)
    shared = share_model(comm, alone.path)
    assert (shared.label_names, shared.vocabulary, shared.base) == (alone.label_names, alone.vocabulary, alone.base)
    assert np.array_equal(shared.margin_rows, alone.margin_rows)
    with DataFile(data) as dataset:
        X = read_rows(dataset, np.arange(30), False)
    assert scores(shared.classifier, X, 3).tobytes() == scores(alone.classifier, X, 3).tobytes()


QUIET = Log(1)


def written(comm, path, text):
    with mpi.agreed(comm, "making files"):
        if comm.rank == 0:
            path.write_text(text)
    return path


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_articles(comm, mpi_tmp_path, monkeypatch, limit):
    monkeypatch.setattr(jsonl, "WHOLE_BYTES", limit)
    articles = [{"pmid": k, "title": f"word{k % 5} other{k % 3}", "meshMajor": [f"H{k % 4}", "H9"]} for k in range(23)]
    text = '{"articles":[\n' + ",\n".join(map(json.dumps, articles)) + "]}\n"
    source = written(comm, mpi_tmp_path / "in.json", text)
    terms = written(comm, mpi_tmp_path / "terms", "H0=D1\nH9=D0\n")
    converted_alike(comm, "bioasq", [source], mpi_tmp_path, descriptors=terms)
    written(comm, source, text[: text.rindex(",\n")])
    with pytest.raises(DataError, match=r"ends within its list|not JSON"):
        convert_on(comm, "bioasq", [source], mpi_tmp_path / "cut.h5", descriptors=terms)


@pytest.mark.parametrize("n_rows", [1, 3, 60])
def test_measures_and_answers(comm, mpi_tmp_path, n_rows):
    names = [f"D{k}" for k in range(9)]
    with mpi.agreed(comm, "making files"):
        if comm.rank == 0:
            rng = np.random.default_rng(n_rows)
            Y = rng.random((n_rows, 9)) < 0.3
            X = rng.standard_normal((n_rows, 5))
            ids = [str(10 + k) for k in range(n_rows)]
            make.dataset(mpi_tmp_path / "data.h5", X, Y.astype(float), label_names=names, row_ids=ids)
            make.model(mpi_tmp_path / "model.h5", rng.standard_normal((9, 5)), label_names=names)
            lines = (f"{name}\t{name}\tA0{1 + k % 3}.{100 + k // 3}\n" for k, name in enumerate(names[1:]))
            (mpi_tmp_path / "terms").write_text("".join(lines))
    model = Model(mpi_tmp_path / "model.h5")
    with DataFile(mpi_tmp_path / "data.h5") as data:
        found = evaluate_bioasq(comm, model, data, "all", mpi_tmp_path / "terms", QUIET)
        alone = evaluate_bioasq(mpi.self_comm(), model, data, "all", mpi_tmp_path / "terms", QUIET)
        assert found == alone
        predict(comm, model, data, "all", mpi_tmp_path / "all.json", False, QUIET)
        if comm.rank == 0:
            predict(mpi.self_comm(), model, data, "all", mpi_tmp_path / "one.json", False, QUIET)
            assert (mpi_tmp_path / "all.json").read_bytes() == (mpi_tmp_path / "one.json").read_bytes()
            assert [each["pmid"] for each in json.loads((mpi_tmp_path / "all.json").read_text())["documents"]] == [
                *range(10, 10 + n_rows)
            ]
