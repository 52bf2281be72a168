"""`explain` and `duplicates` on any number of ranks: what one rank finds alone, bit for bit, and one sentence for what is wrong."""

import numpy as np
import pytest
from support import make
from support.oracles_duplicates import alike_data

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, DataError, NonFiniteError
from hpcml.evaluation import explain as explain_module
from hpcml.evaluation.explain import explain
from hpcml.files import atomic
from hpcml.log import Log
from hpcml.model.open import share_model
from hpcml.near_duplicates import search
from hpcml.near_duplicates.search import find_duplicates

pytestmark = pytest.mark.mpi
QUIET = Log(1)


def on_ranks_and_alone(comm, work):
    work(comm, "together")
    if comm.rank == 0:
        work(mpi.self_comm(), "alone")
    comm.Barrier()


@pytest.mark.parametrize("n_rows", [1, 3, 160])
@pytest.mark.parametrize("window", [2, 64])
def test_the_same_pairs_on_any_number_of_ranks(comm, mpi_tmp_path, monkeypatch, n_rows, window):
    monkeypatch.setattr(search, "WINDOW", window)
    monkeypatch.setattr(search, "BANDS_AT_ONCE", 3)
    monkeypatch.setattr(search, "COMPARED", 7)
    path = mpi_tmp_path / "data.h5"
    more = {"row_ids": [f"doc {row}" for row in range(n_rows)], "splits": {"some": np.arange(0, n_rows, 2)}}
    make.by_one_rank(comm, lambda: alike_data(path, np.random.default_rng(3), n_rows, **more))
    for split in ("all", "some"):

        def work(ranks, name, split=split):
            with DataFile(path) as dataset:
                found = find_duplicates(ranks, dataset, split, 0.7, mpi_tmp_path / f"{name}-{split}.csv", QUIET)
            found.seconds = 0.0
            texts = ranks.allgather("\n".join(found.describe(3)))
            assert len(set(texts)) == 1
            if ranks.rank == 0:
                found.write_csv(mpi_tmp_path / f"{name}-{split}-labels.csv")
                found.write_json(mpi_tmp_path / f"{name}-{split}.json")
                (mpi_tmp_path / f"{name}-{split}.txt").write_text(texts[0])

        on_ranks_and_alone(comm, work)
        for end in (".csv", "-labels.csv", ".json", ".txt"):
            together, alone = ((mpi_tmp_path / f"{name}-{split}{end}").read_bytes() for name in ("together", "alone"))
            assert together == alone


def test_rows_out_of_order_are_named_on_all_ranks(comm, mpi_tmp_path):
    path = mpi_tmp_path / "data.h5"
    if comm.rank == 0:
        make.dataset(path, np.ones((9, 4)), np.ones((9, 1)), ones=True)
        with make.h5py.File(path, "r+") as file:
            file["X/indices"][30:32] = [3, 2]
    comm.Barrier()
    with DataFile(path) as dataset, pytest.raises(DataError, match="row 7 has a feature twice or out of order"):
        find_duplicates(comm, dataset, "all", 0.8, None, QUIET)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_same_features_on_any_number_of_ranks(comm, mpi_tmp_path, monkeypatch, sparse):
    monkeypatch.setattr(explain_module, "LABELS_PER_MESSAGE", 2)
    model, data = mpi_tmp_path / "model.h5", mpi_tmp_path / "data.h5"
    if comm.rank == 0:
        W = np.random.default_rng(0).standard_normal((11, 30)).round(1)
        columns, factors = make.compact_columns(1, 50, 30)
        names = make.names("f", 50)
        make.model(model, W, columns=columns, factors=factors, feature_names=names, sparse=sparse)
        make.dataset(data, np.ones((2, 50)), np.ones((2, 11)), names)
    comm.Barrier()

    def work(ranks, name):
        found = explain(ranks, share_model(ranks, model), [], 4, True)
        assert (found is None) == (ranks.rank > 0)
        if found is not None:
            atomic.write_json(mpi_tmp_path / f"{name}.json", found.as_dict())
            (mpi_tmp_path / f"{name}.txt").write_text(str(found))

    on_ranks_and_alone(comm, work)
    for end in ("json", "txt"):
        assert (mpi_tmp_path / f"together.{end}").read_bytes() == (mpi_tmp_path / f"alone.{end}").read_bytes()


def test_what_is_wrong_is_said_on_all_ranks(comm, mpi_tmp_path):
    model = mpi_tmp_path / "model.h5"
    if comm.rank == 0:
        W = np.ones((5, 3))
        W[4] = 1e200
        make.model(model, W)
    comm.Barrier()
    opened = share_model(comm, model)
    with pytest.raises(ConfigError, match="no label 'x'"):
        explain(comm, opened, ["x"], 4, False)
    with pytest.raises(NonFiniteError, match="the squared weights of label 'label4' are not finite"):
        explain(comm, opened, [], 4, True)
