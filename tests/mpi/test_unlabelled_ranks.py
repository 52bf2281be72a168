"""Unlabelled and empty rows on any number of ranks: the same bytes, rows and counts."""

import json

import numpy as np
import pytest
from support.converted import converted_alike
from support.make import by_one_rank
from support.training import train

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError
from hpcml.evaluation.evaluate import evaluate
from hpcml.evaluation.thresholds import calibrate
from hpcml.log import Log
from hpcml.model.open import share_model
from hpcml.prediction.predict import predict

pytestmark = pytest.mark.mpi
QUIET = Log(1)
TEXTS = ["ship port storm", "corn wheat plough", "ship corn storm", ""]


def documents(n):
    for number in range(n):
        labels = None if number % 5 == 2 else [["sea"], ["farm"], ["sea", "farm"], ["sea"]][number % 4]
        split = "train" if number < n // 2 else "new" if number % 5 == 2 and number > n - 9 else "test"
        yield {"text": TEXTS[number % 4] + (f" word{number % 7}" if number % 4 != 3 else ""), "labels": labels, "split": split}


@pytest.fixture
def data(comm, mpi_tmp_path):
    by_one_rank(comm, lambda: (mpi_tmp_path / "in.jsonl").write_text("".join(json.dumps(each) + "\n" for each in documents(60))))
    report, alone, path = converted_alike(comm, "jsonl", [mpi_tmp_path / "in.jsonl"], mpi_tmp_path)
    assert report.unlabelled == alone.unlabelled == 12
    return path


def test_ranks_share_the_labelled_rows(comm, data):
    with DataFile(data) as dataset:
        for split in ("all", "train", "train,test"):
            for unlabelled in (False, True):
                shard = load_shard(comm, dataset, split, unlabelled)
                rows = np.concatenate(mpi.allgather_arrays(comm, shard.first_row + shard.rows))
                assert np.array_equal(rows, dataset.split(split) if unlabelled else dataset.labelled_split(split))
                assert shard.n_global == rows.size
        with pytest.raises(ConfigError, match="split new"):
            load_shard(comm, dataset, "new")


def test_the_same_model_predictions_and_measures(comm, mpi_tmp_path, data):
    def work(on, name):
        run = mpi_tmp_path / f"of-{name}" / "run"  # files of predictions name the last two parts of the model's path
        mpi.run_on_root(on, "making a folder", run.parent.mkdir)
        train("dual", on, data, run, loss="logistic")
        model = share_model(on, run / "model.h5")
        with DataFile(data) as dataset:
            found = evaluate(on, model, dataset, "test", QUIET)
            for ending, top in (("h5", None), ("csv", 1)):
                predict(on, model, dataset, "all", mpi_tmp_path / f"{name}-{top}.{ending}", False, QUIET, top)
            sigmoids = calibrate(on, model, dataset, "test", mpi_tmp_path / f"{name}-c.h5").sigmoids
        return found, sigmoids

    together, sigmoids = work(comm, "together")
    alone = by_one_rank(comm, lambda: work(mpi.self_comm(), "alone"))
    assert (together.n_rows, together.n_empty) == (alone[0].n_rows, alone[0].n_empty) and together.n_empty > 3
    for name, values in together.values.items():
        assert np.array_equal(values, alone[0].values[name], equal_nan=True)
    assert together.micro == alone[0].micro and together.precision_at == alone[0].precision_at
    assert np.array_equal(sigmoids, alone[1])
    if comm.rank == 0:
        for name in ("None.h5", "1.csv"):
            assert (mpi_tmp_path / f"together-{name}").read_bytes() == (mpi_tmp_path / f"alone-{name}").read_bytes()
