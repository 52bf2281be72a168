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
    monkeypatch.setattr(check.os, "sched_getaffinity", lambda _: set(range(comm.size)))
    found = check.check(comm, mpi_tmp_path / "scratch")
    comm.Barrier()
    assert not (mpi_tmp_path / "scratch").exists()
    if comm.rank == 0:
        words = [line.split()[1].rstrip(":") for line in found.lines]
        assert words == ["ranks", "cores", "memory", *["messages"] * (comm.size > 1), "files", "locks", "training"]
        assert all(line.startswith("ok       ") for line in found.lines)
        assert str(found).endswith("\nall is well: everything that training needs works")
        assert f"ranks: {comm.size} on 1 node" in found.lines[0]
        assert found.lines[0].endswith(mpi.abi())
        assert "gave the model of rank 0 alone" in found.lines[-1]


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
    """Two trainings of one method: one as it ships, one that was changed; the changed one of another package is a warning."""
    shipped = check.bits.shipped()
    monkeypatch.setattr(check.bits, "OTHERS", {"mbw --voted": "another"})
    for name, changed in (
        ("mbw", "error    mbw: differs: scores"),
        ("mbw --voted", "warning  mbw --voted: differs: scores (computed by another"),
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


def test_ranks_without_a_core_each_are_a_warning(comm, monkeypatch):
    monkeypatch.setattr(check.os, "sched_getaffinity", lambda _: {0})
    found = check.Findings()
    check.check_cores(comm, found)
    assert (found.n_bad, found.n_warnings) == (0, int(comm.size > 1))
    if comm.size > 1:
        assert f"cores: {comm.size} ranks of {node_name()} share 1 core, so they wait for one another" in found.lines[0]
        assert "start at most 1 rank there" in found.lines[0] and str(found).endswith("needs works, with 1 warning")
    else:
        assert found.lines == [f"ok       cores: 1 on {node_name()}, of which each rank uses one"]


def test_ranks_bound_to_one_core_each_have_cores_and_a_lonely_rank_hears_of_the_others(comm, monkeypatch):
    for cores, idle in (({comm.rank}, ""), ({0, 1, 2, 3, 4}, "; `mpirun -n 5 hpcml ...` uses all" if comm.size == 1 else "")):
        monkeypatch.setattr(check.os, "sched_getaffinity", lambda _, cores=cores: cores)
        found = check.Findings()
        check.check_cores(comm, found)
        together = comm.size if len(cores) == 1 else 5
        assert found.lines == [f"ok       cores: {together} on {node_name()}, of which each rank uses one{idle}"]


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
        assert found.lines[0].startswith("ok" if comm.size == 1 else "warning")


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
