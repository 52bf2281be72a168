import math

import numpy as np
import pytest
from mpi4py import MPI
from support.rendezvous import ALSO_SINGLE

from hpcml import mpi
from hpcml.errors import CollectiveError, ConfigError, DataError

pytestmark = [pytest.mark.mpi, ALSO_SINGLE]


class NoPlan(ConfigError):
    """An error that is not known to `hpcml.errors`."""


@pytest.fixture(params=[None, 64], ids=["whole", "chunked"])
def chunk_bytes(request, monkeypatch):
    if request.param is not None:
        monkeypatch.setattr("hpcml.mpi.collectives.CHUNK_BYTES", request.param)


def random_floats(rank, size):
    return np.random.default_rng(rank).standard_normal(size)


@pytest.mark.parametrize("kind", [DataError, ConfigError, NoPlan])
def test_agreed_raises_the_same_error_everywhere(comm, kind):
    for bad in range(comm.size):
        with pytest.raises(kind, match=f"^file {bad} is bad$"), mpi.agreed(comm, "checking"):
            if comm.rank == bad:
                raise kind(f"file {bad} is bad")


def test_agreed_raises_the_error_of_the_lowest_rank(comm):
    for first in range(comm.size):
        with pytest.raises(DataError, match=f"^rank {first}$"), mpi.agreed(comm, "checking"):
            if comm.rank >= first:
                raise DataError(f"rank {comm.rank}")


def test_agreed_names_the_file_and_the_reason(comm, tmp_path):
    path = tmp_path / "missing.svm"
    for bad in range(comm.size):
        with pytest.raises(DataError) as caught, mpi.agreed(comm, "reading the parts"):
            if comm.rank == bad:
                path.read_text()
        sentences = comm.allgather(str(caught.value))
        assert set(sentences) == {sentences[bad]}
        assert sentences[bad].endswith("missing.svm: No such file or directory while reading the parts")


def test_agreed_keeps_an_unexpected_error_where_it_happened(comm):
    for bad in range(comm.size):
        expected = ZeroDivisionError if comm.rank == bad else CollectiveError
        with pytest.raises(expected) as caught, mpi.agreed(comm, "dividing"):
            _ = 1 / (comm.rank - bad)
        if comm.rank != bad:
            assert str(caught.value) == f"rank {bad} failed while dividing: division by zero"


def test_agreed_reports_lack_of_memory(comm):
    last = comm.bcast(MPI.COMM_WORLD.rank, root=comm.size - 1)  # the user knows the rank in the world
    with pytest.raises(DataError, match=f"rank {last} ran out of memory while loading"), mpi.agreed(comm, "loading"):
        if comm.rank == comm.size - 1:
            raise MemoryError


def test_sleeping_ranks_wait_for_root_and_receive_its_error(comm, mpi_tmp_path):
    with mpi.agreed(comm, "working", sleep=True):
        if comm.rank == 0:
            (mpi_tmp_path / "done").touch()
    assert (mpi_tmp_path / "done").exists()
    with pytest.raises(DataError, match=r"^no$"), mpi.agreed(comm, "working", sleep=True):
        if comm.rank == 0:
            raise DataError("no")
    kind = ZeroDivisionError if comm.rank == comm.size - 1 else CollectiveError
    with pytest.raises(kind), mpi.agreed(comm, "dividing", sleep=True):
        if comm.rank == comm.size - 1:
            _ = 1 / 0


def test_groups_agree_on_what_one_of_them_raises(comm):
    for bad in range(comm.size):
        with (
            mpi.divided(comm, 1) as group,
            pytest.raises(DataError, match="one group"),
            mpi.groups_agreed(comm),
            mpi.agreed(group, "reading"),
        ):
            if comm.rank == bad:
                raise DataError("one group")


def test_agreed_any(comm):
    assert not mpi.agreed_any(comm, False)
    for one in range(comm.size):
        assert mpi.agreed_any(comm, comm.rank == one) is True


@pytest.mark.parametrize("shape", [(0,), (7, 9)])
@pytest.mark.parametrize("dtype", ["f8", "i8"])
def test_allreduce_sum(comm, chunk_bytes, shape, dtype):
    mine = np.arange(np.prod(shape), dtype=dtype).reshape(shape) + comm.rank
    got = mpi.allreduce_sum(comm, mine.copy())
    expected = sum(mine - comm.rank + rank for rank in range(comm.size))
    assert got.dtype == mine.dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    "array", [np.arange(100.0).reshape(4, 25).T, np.empty((0, 3), "i4"), np.array([True, False]), np.arange(3)]
)
def test_bcast_array(comm, chunk_bytes, array):
    for root in range(comm.size):
        got = mpi.bcast_array(comm, array if comm.rank == root else None, root)
        assert got.dtype == array.dtype
        np.testing.assert_array_equal(got, array)


def test_allgather_of_unequal_and_empty_arrays(comm, chunk_bytes):
    sizes = [(rank * 37) % 50 for rank in range(comm.size)]  # rank 0 has none
    got = mpi.allgather_arrays(comm, random_floats(comm.rank, sizes[comm.rank]))
    assert len(got) == comm.size
    for rank, part in enumerate(got):
        np.testing.assert_array_equal(part, random_floats(rank, sizes[rank]))


@pytest.mark.parametrize("dtype", ["f8", "i4", "u1"])
def test_exchange(comm, chunk_bytes, dtype):
    def part(source, target):
        return (np.arange((source * 31 + target * 17) % 60) * (source + 1) + target).astype(dtype)

    got = mpi.exchange(comm, [part(comm.rank, target) for target in range(comm.size)])
    for source, received in enumerate(got):
        assert received.dtype == dtype
        np.testing.assert_array_equal(received, part(source, comm.rank))


def test_exclusive_sum(comm):
    before, total = mpi.exclusive_sum(comm, [comm.rank + 1, 10])
    assert before.tolist() == [comm.rank * (comm.rank + 1) // 2, 10 * comm.rank]
    assert total.tolist() == [comm.size * (comm.size + 1) // 2, 10 * comm.size]


def test_stream_arrives_in_rank_order(comm):
    got = []
    mpi.stream_to_root(comm, ((comm.rank, i) for i in range(comm.rank % 3)), got.append)
    expected = [(rank, i) for rank in range(comm.size) for i in range(rank % 3)]
    assert got == (expected if comm.rank == 0 else [])


def test_stream_with_an_error_at_the_consumer(comm):
    for bad in range(comm.size):

        def consume(chunk, bad=bad):
            if chunk[0] == bad:
                raise DataError(f"cannot write chunk {chunk}")

        with pytest.raises(DataError, match=rf"^cannot write chunk \({bad}, 0\)$"):
            mpi.stream_to_root(comm, [(comm.rank, i) for i in range(5)], consume)
    assert comm.allreduce(1) == comm.size  # no message is left over


def test_stream_with_an_error_at_a_producer(comm):
    def chunks(bad):
        yield 1
        if comm.rank == bad:
            raise DataError(f"rank {bad} has no more")

    for bad in range(comm.size):
        got = []
        with pytest.raises(DataError, match=f"^rank {bad} has no more$"):
            mpi.stream_to_root(comm, chunks(bad), got.append)
        consumed = comm.size if bad > 0 else 1  # rank 0 takes nothing after its own failure
        assert len(got) == (consumed if comm.rank == 0 else 0)


@pytest.mark.parametrize("seed", range(2))
def test_exact_sum_is_the_same_for_any_distribution(comm, seed):
    rng = np.random.default_rng(seed)  # the same on every rank
    n = 1000
    values = rng.standard_normal(n) * 10.0 ** rng.integers(-30, 4, n)
    bound = float(np.abs(values).sum()) * 1.0000001
    expected = mpi.exact_sum(mpi.self_comm(), values, bound, n)
    exact = math.fsum(values)
    assert abs(expected - exact) <= math.ulp(exact) + bound * 2.0**-80
    for owner in (rng.integers(0, comm.size, n), np.arange(n) % comm.size, np.zeros(n, dtype=int), np.full(n, comm.size - 1)):
        order = rng.permutation(n)
        mine = values[order][owner[order] == comm.rank]
        assert mpi.exact_sum(comm, mine, bound, n).hex() == expected.hex()


def test_node_first_lets_the_first_rank_finish_before_the_others_begin(comm, mpi_tmp_path):
    mark = mpi_tmp_path / "mark"  # all ranks of the tests' machine are on one node
    with mpi.node_first(comm):
        existed = mark.exists()
        mark.touch()
    assert existed == (comm.rank > 0)


def test_duplicated_is_private_and_survives_an_agreed_error(comm):
    with mpi.duplicated(comm) as own:
        assert own != comm
        assert (own.rank, own.size) == (comm.rank, comm.size)
    with pytest.raises(DataError), mpi.duplicated(comm):
        raise DataError("agreed")
    with mpi.duplicated(None) as own:
        assert own.size == 1


def test_allreduce_maxima(comm, monkeypatch):
    monkeypatch.setattr("hpcml.mpi.collectives.CHUNK_BYTES", 16)
    mine = np.arange(50, dtype=np.float32)
    mine[comm.rank :: comm.size] += 100
    assert (mpi.allreduce_maxima(comm, mine) == np.arange(50) + 100).all()
