"""`hpcml check` on any number of ranks: its findings, and that it removes its files."""

import platform
from importlib.metadata import version

import numpy as np
import pytest

from hpcml import mpi
from hpcml.check import check
from hpcml.errors import ConfigError
from hpcml.mpi.memory import Limit
from hpcml.mpi.runtime import node_name
from hpcml.run.environment import environment

pytestmark = pytest.mark.mpi


@pytest.mark.more("ranks", of=("comm",), one_in=2, keep=1)
def test_runs_all_checks_and_removes_its_folder(comm, mpi_tmp_path, monkeypatch):
    monkeypatch.setattr(check.os, "sched_getaffinity", lambda _: set(range(comm.size)))
    findings = check.check(comm, mpi_tmp_path / "scratch")
    comm.Barrier()
    assert not (mpi_tmp_path / "scratch").exists()
    if comm.rank == 0:
        words = [line.split()[1].rstrip(":") for line in findings.lines]
        assert words == ["ranks", "cores", "memory", *["messages"] * (comm.size > 1), "files", "locks", "training"]
        assert all(line.startswith("ok       ") for line in findings.lines)
        assert f"ranks: {comm.size} on 1 node" in findings.lines[0] and findings.lines[0].endswith(mpi.abi())


def test_abi_is_that_of_the_library(comm):
    family, _, mpi4py_build = mpi.abi().partition(" ABI; ")
    assert family == ("Open MPI" if "Open MPI" in mpi.library() else "MPICH")
    assert mpi4py_build.startswith(f"mpi4py {version('mpi4py')}, ")


def test_rejects_an_existing_folder(comm, mpi_tmp_path):
    if comm.rank == 0:
        (mpi_tmp_path / "mine").mkdir()
        (mpi_tmp_path / "mine" / "file").write_text("mine")
    comm.Barrier()
    with pytest.raises(ConfigError, match="mine"):
        check.check(comm, mpi_tmp_path / "mine")
    assert (mpi_tmp_path / "mine" / "file").read_text() == "mine"


@pytest.mark.more("ranks", of=("comm",), one_in=2, keep=1)
def test_other_bits_are_an_error_unless_another_package_computes_them(comm, mpi_tmp_path, monkeypatch):
    shipped = check.bits.read_shipped()
    monkeypatch.setattr(check.bits, "EXTERNAL", {"mbw --voted": "another"})
    changed = {name: shipped[name] | {"scores": "0" * 16} for name in ("mbw", "mbw --voted")}
    monkeypatch.setattr(check.bits, "read_shipped", lambda: shipped | changed)
    findings, digests = check.check_bits(comm, mpi_tmp_path / "scratch", ("mbw",))
    if comm.rank == 0:
        assert not (mpi_tmp_path / "scratch").exists()
        assert digests["mbw"]["model"] == shipped["mbw"]["model"]
        assert digests.keys() == {"mbw", "mbw --voted", "convert jsonl", "convert svmlight"}
        assert [line for line in findings.lines if not line.startswith("ok")] == [
            "error    mbw: differs: scores",
            "warning  mbw --voted: differs: scores (computed by another, whose versions differ)",
        ]
    with pytest.raises(ConfigError, match="'mwb'"):
        check.check_bits(comm, mpi_tmp_path / "scratch", ("mwb",))


def test_reports_too_few_and_idle_cores(comm, monkeypatch):
    for cores, n_cores in (({0}, 1), ({comm.rank}, comm.size), ({0, 1, 2, 3, 4}, 5)):
        monkeypatch.setattr(check.os, "sched_getaffinity", lambda _, cores=cores: cores)
        findings = check.Findings()
        check.check_cores(comm, findings)
        assert (findings.count("error"), findings.count("warning")) == (0, int(n_cores < comm.size))
        assert n_cores < comm.size or findings.lines[0].startswith(f"ok       cores: {n_cores} on {node_name()}")
        assert ("mpirun -n 5" in findings.lines[0]) == (comm.size == 1 and n_cores == 5)


def test_reports_the_lowest_memory_limit_of_all_ranks(comm, monkeypatch):
    size = (5 if comm.rank == comm.size - 1 else 9) * 10**9
    monkeypatch.setattr("hpcml.mpi.memory.limits", lambda: [Limit(size, f"source {comm.rank}", f"process {comm.rank}")])
    findings = check.Findings()
    check.check_memory(comm, findings)
    assert f"memory: 5 GB on {node_name()} (source {comm.size - 1}); 2.5 GB per rank" in findings.lines[0]


def test_file_that_another_rank_cannot_read_is_an_error(comm, mpi_tmp_path, monkeypatch):
    if comm.rank == comm.size - 1:
        monkeypatch.setattr(check, "sync", lambda path: False)
    findings = check.Findings()
    assert check.check_files(comm, mpi_tmp_path, findings) is False
    assert findings.count("error") == 1


def test_warns_of_a_lock_without_effect(comm, mpi_tmp_path, monkeypatch):
    monkeypatch.setattr(check.fcntl, "flock", lambda *_: None)
    findings = check.Findings()
    check.check_locks(comm, mpi_tmp_path, findings)
    assert comm.rank > 0 or findings.lines[0].startswith("ok" if comm.size == 1 else "warning")


def test_environment_counts_ranks_and_excludes_other_variables(comm, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SECRET_TOKEN", "do not tell")
    monkeypatch.setenv("SLURMD_NODENAME", f"node{comm.rank % 2}")
    values = environment(comm)
    if comm.rank > 0:
        assert values == {}
        return
    assert values["ranks"] == comm.size == sum(values["nodes"].values())
    assert values["nodes"]["node0"] == (comm.size + 1) // 2
    assert values["variables"]["SLURM_JOB_ID"] == "12"
    assert "do not tell" not in str(values)
    assert values["packages"]["numpy"] == np.__version__
    by = values["computed_by"]
    assert by["numpy"] == np.__version__ and by["architecture"] == platform.machine()
    assert sum(by["ranks"].values()) == comm.size and set(by["ranks"]) == {by["processor"]}
    assert all(by[name] for name in ("target", "numba", "llvmlite", "libc"))
    assert values["mpi"] == mpi.library()
