"""Shared memory that MPICH may use, by the size and the free bytes of /dev/shm."""

import os
from types import SimpleNamespace

import pytest

from hpcml.errors import ConfigError
from hpcml.mpi import runtime

MIB = 1 << 20


@pytest.fixture(autouse=True)
def no_number(monkeypatch):
    """Before each test, and after it, no number of cells is set."""
    monkeypatch.setenv(runtime.CELLS, "")
    del os.environ[runtime.CELLS]


@pytest.fixture
def cells(monkeypatch, tmp_path):
    """The number of cells that is chosen (None: MPICH's own) by size, free bytes and ranks of the node."""
    monkeypatch.setattr(runtime, "SHARED_MEMORY", tmp_path)

    def choose(size, free, n_ranks):
        found = SimpleNamespace(f_frsize=4096, f_blocks=size // 4096, f_bavail=free // 4096)
        monkeypatch.setattr(runtime.os, "statvfs", lambda _: found)
        runtime.fit_shared_memory(n_ranks)
        chosen = os.environ.pop(runtime.CELLS, None)
        return None if chosen is None else int(chosen)

    return choose


def bytes_used(n_ranks, n_cells):
    """Bytes that MPICH 5.0.2 was seen to map: 1,064,960 for 1 rank and 64 cells, 2,121,728 for 2."""
    return n_ranks * (12_288 + 16_384 * n_cells)


@pytest.mark.parametrize(("n_ranks", "size"), [(1, 1 << 34), (128, 1 << 34), (1, 0), (8, 0)])  # 0: no limit
def test_large_memory_leaves_the_default(cells, n_ranks, size):
    assert cells(size, size, n_ranks) is None


@pytest.mark.parametrize("n_ranks", [1, 3, 64])
@pytest.mark.parametrize("size", [MIB // 8, MIB, 3 * MIB, 64 * MIB])
def test_chosen_cells_fit(cells, n_ranks, size):
    if size < bytes_used(n_ranks, 1):
        with pytest.raises(ConfigError, match="but MPICH needs"):
            cells(size, size, n_ranks)
        return
    n_cells = cells(size, size, n_ranks)
    n_cells = 64 if n_cells is None else n_cells
    assert 1 <= n_cells <= 64
    assert bytes_used(n_ranks, n_cells) <= size
    if size >= 2 * n_ranks * 80_000:
        assert n_cells >= 4  # so few cost no time


def test_ranks_of_a_node_choose_alike_while_memory_is_taken(cells):
    size = 16 * MIB
    assert len({cells(size, free, 4) for free in (size, size // 2, 0)}) == 1


def test_one_process_uses_free_memory(cells):
    assert cells(64 * MIB, MIB // 10, 1) == 2  # of half of 104,857 bytes, 12,500 and 16,400 for each cell
    with pytest.raises(ConfigError, match=r"has only 8 kB, but MPICH needs 29 kB; enlarge it \(docker run --shm-size=1g;"):
        cells(64 * MIB, 8192, 1)
    with pytest.raises(ConfigError, match=r"has only 32 kB, but MPICH needs 58 kB; enlarge it"):
        cells(32768, 32768, 2)


def test_missing_and_read_only_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(runtime, "SHARED_MEMORY", tmp_path / "none")
    with pytest.raises(
        ConfigError, match=r"none does not exist or cannot be written, but MPICH needs it; mount it writable \(docker run --tmpfs"
    ):
        runtime.fit_shared_memory(1)
    monkeypatch.setattr(runtime, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(runtime.os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match=r" does not exist or cannot be written, but MPICH needs it; mount it writable"):
        runtime.fit_shared_memory(1)


def test_memory_of_an_earlier_process_of_this_number_is_removed(monkeypatch, tmp_path):
    monkeypatch.setattr(runtime, "SHARED_MEMORY", tmp_path)
    for number in (os.getpid(), os.getpid() + 1):
        (tmp_path / f"mpich_shm_{number:x}_0").touch()
    runtime.fit_shared_memory(1)
    assert [path.name for path in tmp_path.iterdir()] == [f"mpich_shm_{os.getpid() + 1:x}_0"]
