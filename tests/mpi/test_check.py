"""`hpcml check` on any number of ranks: what it finds, and that it leaves nothing."""

import platform
from importlib.metadata import version

import numpy as np
import pytest

from hpcml import mpi
from hpcml.check import check
from hpcml.errors import ConfigError
from hpcml.mpi.limits import Limit
from hpcml.mpi.runtime import node_name
from hpcml.mpi.start import loaded_build
from hpcml.run.environment import environment

pytestmark = pytest.mark.mpi


@pytest.mark.more("ranks", of=("comm",), one_in=2, keep=1)
def test_everything_is_tried_and_removed(comm, mpi_tmp_path, monkeypatch):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    found = check.check(comm, mpi_tmp_path / "scratch")
    comm.Barrier()
    assert not (mpi_tmp_path / "scratch").exists()
    if comm.rank == 0:
        words = [line.split()[1].rstrip(":") for line in found.lines]
        steps = ["ranks", "memory", "clocks", "messages", "files", "locks", "training"]
        assert [word for word in words if word in steps] == steps
        assert f"ranks: {comm.size} on 1 node" in found.lines[0]
        assert found.lines[0].endswith(mpi.abi())
        assert "gave the bits of rank 0 alone" in found.lines[-1]
        (messages,) = (line for line in found.lines if line.split()[1] == "messages:")
        assert ("a sum over all ranks takes" in messages) == (comm.size > 1)


def test_the_abi_is_that_of_the_library(comm):
    family, _, mpi4py_is = mpi.abi().partition(" ABI; ")
    assert family == ("Open MPI" if "Open MPI" in mpi.library() else "MPICH")
    assert mpi4py_is.startswith(f"mpi4py {version('mpi4py')}, ")


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("MPI.mpich.cpython-311-x86_64-linux-gnu.so", ("mpich", True)),
        ("MPI.openmpi.abi3.so", ("openmpi", True)),
        ("MPI.cpython-311-x86_64-linux-gnu.so", ("", False)),
        ("MPI.abi3.so", ("", False)),
        ("MPI.so", ("", False)),
    ],
)
def test_builds_of_mpi4py_are_told_by_the_name_of_its_module(file, found):
    assert loaded_build(file) == found


def test_folder_that_exists_is_not_touched(comm, mpi_tmp_path):
    if comm.rank == 0:
        (mpi_tmp_path / "mine").mkdir()
        (mpi_tmp_path / "mine" / "file").write_text("mine")
    comm.Barrier()
    with pytest.raises(ConfigError, match="exists already"):
        check.check(comm, mpi_tmp_path / "mine")
    assert (mpi_tmp_path / "mine" / "file").read_text() == "mine"


@pytest.mark.more("ranks", of=("comm",), one_in=2, keep=1)
def test_bits_that_differ_are_bad_unless_others_compute_them(comm, mpi_tmp_path, monkeypatch):
    """Two trainings of one method: one as it ships, one that was changed; the changed one of another package is a note."""
    shipped = check.bits.shipped()
    monkeypatch.setattr(check.bits, "OTHERS", {"mbw --voted": "another"})
    for name, changed in (
        ("mbw", "BAD   mbw: differs: scores"),
        ("mbw --voted", "note  mbw --voted: differs: scores (computed by another"),
    ):
        expected = shipped | {name: shipped[name] | {"scores": "0" * 16}}
        monkeypatch.setattr(check.bits, "shipped", lambda expected=expected: expected)
        found, digests = check.check_bits(comm, mpi_tmp_path / "scratch", ("mbw",))
        if comm.rank == 0:
            assert not (mpi_tmp_path / "scratch").exists()
            assert digests["mbw"]["model"] == shipped["mbw"]["model"] and set(digests) - {"mbw", "mbw --voted"} == {
                "convert jsonl",
                "convert svmlight",
            }
            (line,) = (line for line in found.lines if not line.startswith("ok"))
            assert line.startswith(changed) and found.n_bad == (name == "mbw")
    with pytest.raises(ConfigError, match="no method 'mwb'"):
        check.check_bits(comm, mpi_tmp_path / "scratch", ("mwb",))


def test_ranks_without_cores_and_with_too_many_threads_are_bad(comm, monkeypatch):
    monkeypatch.setattr(check.os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    found = check.Findings()
    check.check_threads(comm, found)
    assert found.n_bad == 1
    assert ("share 1 cores and will wait" if comm.size > 1 else "1 ranks with 2 threads share 1 cores") in found.lines[0]


@pytest.mark.parametrize(
    ("given", "threads"),
    [
        ({}, 8),
        ({"OMP": "1", "OPENBLAS": "1", "NUMBA": "1"}, 1),
        ({"OMP": "1", "NUMBA": "1"}, 1),
        ({"OMP": "2,1", "NUMBA": "1"}, 2),
        ({"OMP": "1", "NUMBA": "1", "MKL": "4"}, 4),
        ({"OPENBLAS": "1", "MKL": "1", "NUMBA": "1"}, 8),
        ({"OMP": "1"}, 8),
        ({"OMP": "no number", "NUMBA": "1"}, 8),
    ],
)
def test_threads_are_those_that_the_libraries_start(given, threads):
    assert check.threads_of({f"{name}_NUM_THREADS": value for name, value in given.items()}, 8) == threads


def test_ranks_of_one_thread_are_not_too_many(comm, monkeypatch):
    monkeypatch.setattr(check.os, "sched_getaffinity", lambda _: set(range(comm.size)))
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    found = check.Findings()
    check.check_threads(comm, found)
    assert (found.n_bad, found.lines) == (0, [f"ok    threads: 1 a rank, on {comm.size} cores that rank 0 may use"])


def test_tightest_limit_of_all_ranks_is_told(comm, monkeypatch):
    size = (5 if comm.rank == comm.size - 1 else 9) * 10**9
    monkeypatch.setattr("hpcml.mpi.memory.limits", lambda: [Limit(size, f"source {comm.rank}", f"process {comm.rank}")])
    found = check.Findings()
    check.check_memory(comm, found)
    assert f"memory: 5 GB on {node_name()} (source {comm.size - 1}); " in found.lines[0]
    assert found.lines[0].endswith("may take 2.5 GB of it on each rank")


def test_file_that_another_rank_does_not_see_is_bad(comm, mpi_tmp_path, monkeypatch):
    if comm.rank == comm.size - 1:
        monkeypatch.setattr(check, "sync", lambda path: False)
    found = check.Findings()
    assert check.check_files(comm, mpi_tmp_path, found) is False
    assert found.n_bad == 1


def test_lock_that_keeps_nobody_out_is_told(comm, mpi_tmp_path, monkeypatch):
    monkeypatch.setattr(check.fcntl, "flock", lambda *_: None)
    found = check.Findings()
    check.check_locks(comm, mpi_tmp_path, found)
    if comm.rank == 0:
        assert found.lines[0].startswith("ok" if comm.size == 1 else "note")


def test_environment_counts_ranks_and_hides_the_rest(comm, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SECRET_TOKEN", "do not tell")
    monkeypatch.setenv("SLURMD_NODENAME", f"node{comm.rank % 2}")
    found = environment(comm)
    if comm.rank > 0:
        assert found == {}
        return
    assert found["ranks"] == comm.size == sum(found["nodes"].values())
    assert found["nodes"]["node0"] == (comm.size + 1) // 2
    assert found["variables"]["SLURM_JOB_ID"] == "12"
    assert "do not tell" not in str(found)
    assert found["packages"]["numpy"] == np.__version__
    by = found["computed_by"]
    assert by["numpy"] == np.__version__ and by["architecture"] == platform.machine()
    assert sum(by["ranks"].values()) == comm.size and set(by["ranks"]) == {by["processor"]}
    assert all(by[name] for name in ("target", "numba", "llvmlite", "libc"))
    assert found["mpi"] == mpi.library()
