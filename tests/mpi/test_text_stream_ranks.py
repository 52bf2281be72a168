"""A text stream on any number of ranks: the same rows, line numbers and errors."""

import numpy as np
import pytest
from support import make
from support.oracles_svmlight import parse_block
from support.predicted import predict_text

from hpcml.data.svmlight import SvmlightStream, TextRows
from hpcml.errors import ConfigError, DataError
from hpcml.log import Log
from hpcml.model.linear import Model
from hpcml.mpi import self_comm
from hpcml.prediction import records as module

pytestmark = pytest.mark.mpi

N_ROWS, N_FEATURES = 57, 12


def text(seed, bad_row=None):
    rng = np.random.default_rng(seed)
    lines = ["# rows"]
    for row in range(N_ROWS):
        labels = ",".join(f"{label:.3g}" for label in rng.standard_normal(rng.integers(0, 3)))
        pairs = [f"{j}:{rng.standard_normal()!r}" for j in np.flatnonzero(rng.random(N_FEATURES) < 0.3) + 1]
        lines += ["", "1 0:1"] if row == bad_row else [" ".join([labels or "7", *pairs])]
    return "\n".join(lines).encode()


@pytest.fixture
def source(comm, mpi_tmp_path):
    path = mpi_tmp_path / "rows.svm"
    make.by_one_rank(comm, lambda: path.write_bytes(text(0)))
    return path


def joined(blocks):
    lengths, indices, data, label_lengths, labels = (
        np.concatenate(column)
        for column in zip(*((np.diff(b.indptr), b.indices, b.data, np.diff(b.y_indptr), b.labels) for b in blocks), strict=True)
    )
    return blocks[0].first_row, *(a.tobytes() for a in (lengths, indices, data, label_lengths, labels))


@pytest.mark.parametrize("block_bytes", [1, 90, 1 << 24])
def test_all_ranks_get_all_rows(comm, source, block_bytes):
    rows = parse_block(source.read_bytes(), False)
    with SvmlightStream(comm, source, block_bytes=block_bytes) as stream:
        blocks = list(stream)
        assert stream.n_rows == N_ROWS
    assert joined(blocks) == (0, *(column.tobytes() for column in rows[:-1]))
    assert len(blocks) > 30 or block_bytes > 1
    assert all(np.array_equal(mine, theirs) for b in blocks for mine, theirs in zip(b[1:], comm.bcast(b)[1:], strict=True))


@pytest.mark.parametrize("block_bytes", [1, 90, 1 << 24])
def test_parts_are_in_rank_order(comm, source, block_bytes):
    with SvmlightStream(comm, source, block_bytes=block_bytes) as stream:
        mine = list(stream.parts())
    by_rank = comm.allgather(mine)
    parts = [TextRows(*by_rank[rank][block]) for block in range(len(mine)) for rank in range(comm.size)]
    parts = [part for part in parts if part.n_rows]
    assert [part.first_row for part in parts] == [0, *(part.first_row + part.n_rows for part in parts)][: len(parts)]
    with SvmlightStream(self_comm(), source) as stream:
        assert joined(parts) == joined(list(stream))


@pytest.mark.parametrize(("block_bytes", "bad_row"), [(1, 0), (300, 40), (1 << 24, N_ROWS - 1)])
def test_all_ranks_name_the_bad_line(comm, mpi_tmp_path, block_bytes, bad_row):
    path = mpi_tmp_path / "bad.svm"
    make.by_one_rank(comm, lambda: path.write_bytes(text(1, bad_row) + b"\nworse"))
    with SvmlightStream(comm, path, block_bytes=block_bytes) as stream, pytest.raises(DataError) as caught:
        list(stream)
    assert str(caught.value).startswith(f"{path}: line {bad_row + 3}: ")


@pytest.fixture
def model(comm, mpi_tmp_path):
    rng, path = np.random.default_rng(3), mpi_tmp_path / "model.h5"
    make.by_one_rank(comm, lambda: make.model(path, rng.standard_normal((4, 7)), rng.standard_normal(4)))
    return path


@pytest.mark.parametrize("ending", [".csv", ".h5"])
def test_predictions_are_the_same_bytes(comm, source, model, mpi_tmp_path, monkeypatch, ending):
    output, reference = mpi_tmp_path / f"out{ending}", mpi_tmp_path / f"reference{ending}"

    def alone():
        predict_text(self_comm(), Model(model), source, reference, False, Log(1))

    make.by_one_rank(comm, alone)
    for block_bytes in (1, 100):
        monkeypatch.setattr(module, "BLOCK_BYTES", block_bytes)
        predict_text(comm, Model(model), source, output, True, Log(1))
        assert comm.bcast(output.read_bytes() if comm.rank == 0 else None) == reference.read_bytes()
    with pytest.raises(ConfigError, match="exists already"):
        predict_text(comm, Model(model), source, output, False, Log(1))
