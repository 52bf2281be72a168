"""Layout of a run over ranks and memory."""

import numpy as np
import pytest
from support.make import dataset, random_data

from hpcml import mpi
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.methods.dual.train import bytes_per_rank_dual
from hpcml.methods.linear import layout
from hpcml.methods.probe.options import ProbeOptions


class Ranks:
    def __init__(self, size):
        self.size = size


@pytest.fixture
def room(monkeypatch):
    def set_room(n_bytes):
        monkeypatch.setattr(layout, "room_per_rank", lambda comm: n_bytes)
        monkeypatch.setattr(mpi, "exclusive_sum", lambda comm, values: (np.zeros(1), np.array(values) * getattr(comm, "size", 1)))

    return set_room


@pytest.fixture
def loaded(tmp_path):
    X, Y = random_data(1, 200, 50, 40)
    with DataFile(dataset(tmp_path / "d.h5", X, Y)) as data:
        shard = load_shard(mpi.self_comm(), data, "all")
        yield data, shard, compact_rows(mpi.self_comm(), shard, False)[0]


@pytest.mark.parametrize(("ranks", "labels", "shards"), [(1, 1, 1), (4, 40, 1), (4, 8, 2), (4, 1, 4), (3, 5, 3), (6, 12, 2)])
def test_enough_labels_for_every_group(loaded, room, ranks, labels, shards):
    room(1e12)
    assert layout.choose_shards(Ranks(ranks), *loaded[:2], labels, ProbeOptions(), layout.Sharding.EXACT) == shards


def test_ranks_share_rows_if_memory_is_small(loaded, room):
    data, shard, rows = loaded
    sizes = (rows.data.size * 4, 200, 50, 16)
    for shards in (1, 2, 4):
        room(layout.bytes_per_rank(*sizes, shards, 4))
        assert layout.choose_shards(Ranks(4), data, shard, 40, ProbeOptions(), layout.Sharding.EXACT) == shards
    room(1)
    assert layout.choose_shards(Ranks(4), data, shard, 40, ProbeOptions(), layout.Sharding.EXACT) == 4
    assert layout.choose_shards(Ranks(4), data, shard, 40, ProbeOptions(), layout.Sharding.NONE) == 1


def test_fewer_labels_per_pass_if_memory_is_small(loaded):
    rows = loaded[2]
    sizes = (rows.data.size, 200, rows.n_columns)
    for needs in (layout.bytes_per_rank, bytes_per_rank_dual):
        for lanes in (16, 8, 4, 2):
            for given in (sizes, (0, *sizes[1:])):
                assert layout.lanes_that_fit(given, 1, ProbeOptions(), needs(*given, lanes, 1, 4), needs) == lanes
    for asked, lanes in ((None, 1), (33, 33)):
        assert layout.lanes_that_fit(sizes, 1, ProbeOptions(labels_per_pass=asked), 1) == lanes


def test_labels_are_dealt_to_groups_once_each_and_evenly():
    n_positive = np.arange(100, 0, -1)
    waiting = np.setdiff1d(np.arange(100), [3, 50])
    groups = [layout.labels_of_group(waiting, n_positive, number, 4) for number in range(4)]
    np.testing.assert_array_equal(np.sort(np.concatenate(groups)), waiting)
    assert [group[:3].tolist() for group in groups[:2]] == [[0, 8, 9], [1, 7, 10]]
    sums = [int(n_positive[group].sum()) for group in groups]
    assert max(sums) - min(sums) < 10  # 76 if the first group always chooses first
