"""`hpcml.explain` and `hpcml.duplicates` on any number of ranks: the same output as the commands."""

import numpy as np
import pytest
from support import make
from support.oracles_duplicates import alike_data

import hpcml
from hpcml import mpi
from hpcml.cli import app as cli
from hpcml.errors import ConfigError

pytestmark = pytest.mark.mpi


def output_of(capsys, *tokens):
    capsys.readouterr()
    cli.run([str(token) for token in tokens], mpi.self_comm)
    return capsys.readouterr().out.rstrip("\n")


def test_explain_equals_the_command(comm, mpi_tmp_path, capsys):
    model, data = mpi_tmp_path / "model.h5", mpi_tmp_path / "data.h5"
    if comm.rank == 0:
        make.model(model, np.random.default_rng(0).standard_normal((7, 9)).round(1), feature_names=list("abcdefghi"))
        make.dataset(data, np.ones((3, 9)), np.ones((3, 7)), list("abcdefghi"))
    comm.Barrier()
    found = hpcml.explain(model, label=["label3"], top=2, comm=comm)
    every = hpcml.explain(str(model), comm=comm)
    assert (found is None) == (every is None) == (comm.rank > 0)
    if comm.rank == 0:
        assert str(found) == output_of(capsys, "explain", model, "--label", "label3", "--top", 2)
        assert [each.label for each in every.labels] == list(range(7))
        assert str(every) == output_of(capsys, "explain", model)
    with pytest.raises(ConfigError, match=r"^top=0: "):
        hpcml.explain(model, top=0, comm=comm)


def test_duplicates_equals_the_command(comm, mpi_tmp_path, capsys):
    data, pairs = mpi_tmp_path / "data.h5", mpi_tmp_path / "pairs.csv"
    make.by_one_rank(comm, lambda: alike_data(data, np.random.default_rng(0), 60))
    found = hpcml.duplicates(data, similarity=0.6, output=pairs, comm=comm)
    assert found.n_pairs == len(pairs.read_text().splitlines()) - 1 > 0
    if comm.rank == 0:
        without_seconds = str(found).partition("\n")[2]
        assert without_seconds == output_of(capsys, "duplicates", data, "--similarity", 0.6).partition("\n")[2]
    for more, words in (
        ({"output": pairs}, "exists already"),
        ({"force": True}, "^force=True: "),
        ({"similarity": 2}, "^similarity=2: "),
    ):
        with pytest.raises(ConfigError, match=words):
            hpcml.duplicates(data, comm=comm, **more)
