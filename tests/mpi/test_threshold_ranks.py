"""Thresholds, and measures over rows, are the same bits on any number of ranks."""

import h5py
import numpy as np
import pytest
from support import make

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, NonFiniteError
from hpcml.evaluation import evaluate, instance_search
from hpcml.evaluation.thresholds import ThresholdSearch, calibrate, threshold
from hpcml.log import Log
from hpcml.model.linear import Model

pytestmark = pytest.mark.mpi
QUIET = Log(1)


def make_files(comm, folder, n_rows, ties=True, poison=False):
    with mpi.agreed(comm, "making the data"):
        if comm.rank == 0:
            X, Y = make.random_data(n_rows, n_rows, 12, 40)
            rng = np.random.default_rng(1)
            W = rng.integers(-2, 3, (40, 12)) / 3.0 if ties else rng.standard_normal((40, 12))
            W[39] = np.nan if poison else 0.1
            groups = None if ties else np.arange(n_rows) // 2
            make.dataset(folder / "data.h5", X, Y, splits={"valid": range(0, n_rows, 2)}, groups=groups)
            model = make.model(folder / "model.h5", W, np.zeros(40))
            with h5py.File(model, "r+") as file:
                file["labels/n_positive"][:] = rng.integers(0, 50, 40)
                file.attrs["n_rows"], file.attrs["loss"] = 100, "logistic"
    return folder / "data.h5", Model(folder / "model.h5")


@pytest.mark.more("ranks", of=("method", "ties", "n_rows"), one_in=3)
@pytest.mark.mpi(min_size=2)  # alone it would compare a run with itself
@pytest.mark.parametrize("n_rows", [121, 2])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(
    ("measure", "method"),
    [("label", "search"), ("label", "shrink"), ("micro", "half"), ("micro", "search"), ("instance", "search")],
)
def test_thresholds(comm, mpi_tmp_path, monkeypatch, measure, method, ties, n_rows):
    monkeypatch.setattr(instance_search, "PAIRS", 40)
    monkeypatch.setattr(instance_search, "PAIRS_PER_ROW", 0)
    data, model = make_files(comm, mpi_tmp_path, n_rows, ties)
    alone, together = mpi_tmp_path / "alone.h5", mpi_tmp_path / "together.h5"
    with DataFile(data) as dataset:
        search, own = ThresholdSearch(measure, method, chance=None if method == "shrink" else 0.5), mpi.self_comm()
        one = make.by_one_rank(comm, lambda: threshold(own, model, dataset, "all", search, output=alone))
        all_ranks = threshold(comm, model, dataset, "all", search, output=together)
        assert together.read_bytes() == alone.read_bytes()
        assert repr((one.found.before, one.found.after, one.found.borrowed)) == repr(
            (all_ranks.found.before, all_ranks.found.after, all_ranks.found.borrowed)
        )
        comm.Barrier()  # all have read what is replaced now
        make.by_one_rank(comm, lambda: calibrate(own, Model(alone), dataset, "all", force=True) and None)
        calibrate(comm, Model(together), dataset, "all", force=True)
        assert together.read_bytes() == alone.read_bytes()
        for split in ("all", "valid"):
            expected = make.by_one_rank(comm, lambda split=split: evaluate(own, Model(alone), dataset, split, QUIET))
            found = evaluate(comm, Model(together), dataset, split, QUIET)
            for name in ["micro", "precision_at", "ndcg_at", "propensity_scored_at", "by_frequency", "intervals", "calibration"]:
                assert repr(getattr(found, name)) == repr(getattr(expected, name)), name


def test_all_ranks_fail_together_and_leave_nothing(comm, mpi_tmp_path):
    data, model = make_files(comm, mpi_tmp_path, 30, poison=True)
    with DataFile(data) as dataset:
        for measure in ("label", "micro", "instance"):
            with pytest.raises(NonFiniteError, match="label 'label39'"):
                threshold(comm, model, dataset, "valid", ThresholdSearch(measure))
        with pytest.raises(ConfigError, match="no split"):
            threshold(comm, model, dataset, "nowhere", ThresholdSearch("micro"))
        with pytest.raises(ConfigError, match="is also an input"):
            threshold(comm, model, dataset, "valid", ThresholdSearch("micro"), output=data, force=True)
    comm.Barrier()
    with mpi.agreed(comm, "looking"):
        assert {path.name for path in mpi_tmp_path.iterdir()} == {"data.h5", "model.h5"}
