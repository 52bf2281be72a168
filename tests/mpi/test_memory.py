from types import SimpleNamespace

import numpy as np
import pytest
from support.rendezvous import ALSO_SINGLE

from hpcml import mpi
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.dual.train import METHOD as DUAL
from hpcml.methods.linear import layout
from hpcml.methods.linear.train import plan_streaming
from hpcml.mpi import memory
from hpcml.mpi.memory import Limit

pytestmark = [pytest.mark.mpi, ALSO_SINGLE]
GB = 10**9


@pytest.fixture
def room(comm, monkeypatch):

    def per_rank(*limits):
        monkeypatch.setattr(memory, "limits", lambda: [Limit(size * GB, "this test", shared) for size, shared in limits])
        assert memory.room_per_rank(comm) == memory.MEMORY_SHARE * memory.memory_per_rank(comm)
        return memory.memory_per_rank(comm) / GB

    return per_rank


def test_node_and_group_are_shared_by_all(comm, room):
    assert room((12, "machine")) == pytest.approx(12 / comm.size)
    assert room((12, "machine"), (6, "group")) == pytest.approx(6 / comm.size)


def test_limit_of_each_rank_is_its_own(comm, room):
    assert room((12 * comm.size, "machine"), (3, f"task {comm.rank}")) == 3
    assert room((2 * comm.size, "machine"), (3, f"task {comm.rank}")) == 2


def test_group_of_some_ranks_is_shared_by_these(comm, room):
    pairs = min(2, comm.size)
    assert room((100, "machine"), (4, f"pair {comm.rank // 2}")) == pytest.approx(4 / pairs)


def test_smallest_rank_limit_applies_to_all(comm, room):
    assert room((8 if comm.rank else 1, f"task {comm.rank}")) == 1


@pytest.mark.parametrize(
    ("millions", "asked", "before", "lanes", "streamed"),
    [(1, None, 0, 2, False), (1, 16, 0, 16, True), (1, None, 1 << 16, 16, True), (99, None, 0, 16, True)],
)
def test_fewer_labels_share_a_pass_before_rows_are_streamed(comm, monkeypatch, millions, asked, before, lanes, streamed):
    dual, columns = DUAL, 10**6
    node = mpi.ranks_on_node(comm)
    values = np.broadcast_to(np.float32(0), millions * 10**6 * node)
    rows = SimpleNamespace(mapped=True, data=values, n_global=0, n_columns=columns)
    problem = SimpleNamespace(rows=rows, method=dual)
    room = dual.memory(0, 0, columns, 2, 1, 4) + layout.PROGRAM_BYTES + 8 * 10**6  # of a rank: for two labels and 10⁶ values
    monkeypatch.setattr(layout, "private_bytes", lambda: 0)
    monkeypatch.setattr(layout, "node_memory", lambda: room * node)
    wanted = 3 if comm.rank else 16  # the others have fewer labels to train
    found, chunk, _ = plan_streaming(comm, problem, DualOptions(labels_per_pass=asked), wanted, before, lambda text: None)
    assert (found, chunk > 0) == (min(wanted, lanes), streamed)
