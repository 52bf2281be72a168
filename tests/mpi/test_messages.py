import time

import numpy as np
import pytest
from support.rendezvous import ALSO_SINGLE

from hpcml import mpi

pytestmark = [pytest.mark.mpi, ALSO_SINGLE]

PATIENCE = 20.0  # seconds until a test that polls gives up


def others(comm):
    return [rank for rank in range(comm.size) if rank != comm.rank]


def ring(comm):
    return sorted({(comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size} - {comm.rank})


def letter(source, target, number, size=7):
    rng = np.random.default_rng((source, target, number))
    return [np.array([number]), rng.standard_normal(size), rng.integers(0, 99, size % 5).astype(np.int32)]


def same(got, expected):
    assert [array.dtype for array in got] == [array.dtype for array in expected]
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.flags.aligned and one.flags.writeable


def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "nothing arrived"


@pytest.mark.parametrize("partners", [others, ring])
@pytest.mark.parametrize("size", [0, 8])
def test_exchange_with(comm, partners, size):
    for number in range(3):  # one after another, without a barrier between
        got = mpi.exchange_with(comm, {rank: letter(comm.rank, rank, number, size) for rank in partners(comm)})
        assert sorted(got) == partners(comm)
        for rank, arrays in got.items():
            same(arrays, letter(rank, comm.rank, number, size))


def test_messages_arrive_complete_and_in_order(comm):
    mailbox, n, got = mpi.Mailbox(comm, others(comm)), 20, {rank: [] for rank in others(comm)}
    written = dict.fromkeys(others(comm), 0)

    def write(rank):
        written[rank] += 1
        return letter(comm.rank, rank, written[rank], size=40)

    for _ in range(n):
        for rank in others(comm):
            mailbox.post(rank, lambda rank=rank: write(rank))
        for rank, arrays in mailbox.collect():
            got[rank].append(arrays)
    for rank, arrays in mailbox.close():
        got[rank].append(arrays)
    sent = comm.allgather(written)
    for rank, letters in got.items():
        assert len(letters) == sent[rank][comm.rank]
        assert 1 <= len(letters) <= n
        for number, arrays in enumerate(letters, 1):
            same(arrays, letter(rank, comm.rank, number, size=40))
    assert comm.allreduce(1) == comm.size


def test_rank_that_does_not_read_blocks_no_other(comm):
    mailbox = mpi.Mailbox(comm, others(comm))
    size, n = 100_000, 10  # far above what MPI sends without asking
    latest = dict.fromkeys(others(comm), -1)

    def take(letters):
        for rank, (numbers, values) in letters:
            assert numbers[0] > latest[rank]
            assert (values == rank).all()
            latest[rank] = int(numbers[0])

    if comm.rank > 0:
        for number in range(n):
            for rank in others(comm):
                mailbox.post(rank, lambda number=number: [np.array([number]), np.full(size, comm.rank)])
            take(mailbox.collect())
        comm.send("finished", 0, tag=77)
    else:
        for rank in others(comm):
            assert comm.recv(source=rank, tag=77) == "finished"  # without a look into the mailbox
        until(lambda: take(mailbox.collect()) or all(number >= 0 for number in latest.values()))
    take(mailbox.close())
    if comm.rank == 0:
        assert all(number >= 0 for number in latest.values())


def test_close_with_large_messages_in_transit(comm):
    size, mailbox = 200_000, mpi.Mailbox(comm, others(comm))
    for rank in others(comm):
        mailbox.post(rank, lambda: [np.full(size, comm.rank)])
        mailbox.post(rank, lambda: [np.full(size, -1)])  # may leave or not
    got = mailbox.close()
    for rank in others(comm):
        letters = [arrays[0] for source, arrays in got if source == rank]
        assert 1 <= len(letters) <= 2
        assert (letters[0] == rank).all()
        assert all((array == -1).all() for array in letters[1:])
        assert {array.size for array in letters} == {size}
    assert comm.allreduce(1) == comm.size


def test_close_at_different_times(comm):
    for last in range(comm.size):
        mailbox = mpi.Mailbox(comm, ring(comm))
        if comm.rank == last:
            for number in range(5):
                for rank in ring(comm):
                    mailbox.post(rank, lambda number=number: [np.array([number])])
                mailbox.collect()
        found = mailbox.close()
        assert {rank for rank, _ in found} <= {last}
        numbers = [int(arrays[0][0]) for _, arrays in found]
        assert numbers == sorted(numbers)
        assert bool(numbers) == (last in ring(comm))
