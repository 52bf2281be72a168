"""Slices of rows, and the memory that decides whether rows are streamed."""

from types import SimpleNamespace

import numpy as np
import pytest

from hpcml import mpi, slices
from hpcml.errors import Interrupted
from hpcml.methods.linear import layout


@pytest.mark.parametrize(("n_rows", "n_values"), [(0, 0), (1, 10**12), (5, 0), (1000, 70_000), (10**7, 7 * 10**8), (10**8, 0)])
def test_slices_are_all_rows_and_small(n_rows, n_values):
    found = list(slices.row_slices(n_rows, n_values))
    assert [some.start for some in found] == [0, *(some.stop for some in found[:-1])][: len(found)]
    assert sum(some.stop - some.start for some in found) == n_rows
    for some in found:
        n = some.stop - some.start
        assert n == 1 or n * (n_values / n_rows + slices.ROW_VALUES) <= slices.SLICE_VALUES
    if len(found) > 1:  # all but the last are as large as they may be
        assert (found[0].stop + 1) * (n_values / n_rows + slices.ROW_VALUES) > slices.SLICE_VALUES


def test_signal_is_an_error_at_the_next_look():
    signals = SimpleNamespace(seen=False)
    look = slices.stop_at(signals, "reading the rows")
    look()
    signals.seen = True
    with pytest.raises(Interrupted, match="a signal arrived while reading the rows"):
        look()


def test_chunks_follow_the_memory(monkeypatch):
    rows = SimpleNamespace(data=np.broadcast_to(np.float32(0), 1 << 26))
    monkeypatch.setattr(layout, "private_bytes", lambda: 100 << 20)
    largest, found = 1 << 24, {}
    for mib in (4096, 268, 267, 216, 146, 136, 0):
        monkeypatch.setattr(layout, "node_memory", lambda mib=mib: mib << 20)
        found[mib] = layout.chunk_values(mpi.self_comm(), rows, 8 << 20, largest)
    # 100 MiB are in use, 8 will be, 32 are the program's: a chunk of 128 MiB and no more makes 268
    assert found == {4096: 0, 268: 0, 267: 1 << 22, 216: 1 << 22, 146: 1 << 18, 136: 1 << 16, 0: 1 << 16}


@pytest.mark.parametrize(
    ("room", "found"),
    [
        (260, (16, 0)),  # the rows, of 100, beside 16 labels of 10 each
        (180, (8, 0)),  # beside 8
        (179, (16, 1 << 20)),
        (169, (8, 1 << 20)),  # beside 16 there is room for small chunks only
        (79, (4, 1 << 20)),
        (54, (16, 1 << 16)),
    ],
)
def test_labels_are_fewer_where_chunks_would_be_small(room, found):
    def of_chunks(n):
        return 1 << 20 if room - 10 * n >= 15 else 1 << 16

    assert layout.fewer_lanes(16, lambda n: 0 if room - 10 * n >= 100 else of_chunks(n), of_chunks) == found
