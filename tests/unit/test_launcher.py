"""Environment variables of launchers: those of this process, and those of an ended launcher."""

import os
import re
import socket
import subprocess
import sys

import pytest

from hpcml import launcher

NAMES = ("PMI", "OMPI", "MPI_LOCAL", "SLURM")


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in [name for name in os.environ if name.startswith(NAMES)]:
        monkeypatch.delenv(name)


def set_all(monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ("", 1)),
        ({"PMI_RANK": "1"}, ("", 1)),
        ({"PMI_SIZE": "4", "PMI_RANK": "1"}, ("PMI_SIZE", 4)),
        ({"PMI_SIZE": "x", "MPI_LOCALNRANKS": "2"}, ("MPI_LOCALNRANKS", 2)),
        ({"OMPI_COMM_WORLD_SIZE": "3", "PMI_SIZE": "2"}, ("OMPI_COMM_WORLD_SIZE", 3)),
        ({"PMIX_NAMESPACE": "slurm.pmix.1.0", "PMIX_RANK": "0"}, ("", 1)),
        ({"OMPI_COMM_WORLD_SIZE": "1"}, ("OMPI_COMM_WORLD_SIZE", 1)),
        ({"PMIX_NAMESPACE": "prterun-1", "PMIX_RANK": "2"}, ("PMIX_RANK", 3)),  # at least 3 ranks
        ({"SLURM_NTASKS": "4"}, ("", 1)),  # an allocation without a step
        ({"SLURM_NTASKS": "4", "SLURM_STEP_ID": "0"}, ("SLURM_NTASKS", 4)),
        ({"SLURM_NTASKS": "4", "SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1"}, ("", 1)),
        ({"PMIX_RANK": "3", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"}, ("SLURM_STEP_NUM_TASKS", 4)),
    ],
)
def test_number_of_ranks(monkeypatch, variables, expected):
    set_all(monkeypatch, variables)
    assert launcher.launcher() == expected


@pytest.mark.parametrize(
    ("variables", "sign"),
    [
        ({}, ""),
        ({"PMI_SIZE": "4", "PMI_RANK": "0"}, "PMI_SIZE=4"),
        ({"OMPI_COMM_WORLD_SIZE": "1", "PMI_SIZE": "3"}, "PMI_SIZE=3"),
        ({"PMI_SIZE": "1", "PMI_RANK": "0"}, ""),
        ({"SLURM_NTASKS": "4", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1"}, ""),
        ({"SLURM_NTASKS": "4", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"}, "SLURM_STEP_NUM_TASKS=4"),
        ({"PMIX_RANK": "1"}, "PMIX_RANK=1"),
        ({"PMI_FD": "open"}, "PMI_FD"),
        ({"PMI_FD": "open", "PMI_SIZE": "1"}, ""),
    ],
)
def test_signs_of_other_ranks(monkeypatch, variables, sign):
    monkeypatch.setattr(launcher, "launching_ancestor", lambda *programs: "")
    ours, other = socket.socketpair()
    with ours, other:
        set_all(monkeypatch, {name: str(ours.fileno()) if value == "open" else value for name, value in variables.items()})
        assert launcher.sign_of_other_ranks() == sign


@pytest.mark.parametrize(
    ("variables", "sign"),
    [
        ({}, "mpirun"),
        ({"PMIX_RANK": "0"}, "mpirun"),  # rank 0 of any number
        ({"MPI_LOCALNRANKS": "1"}, "mpirun"),  # there may be other nodes
        ({"PMI_SIZE": "1"}, ""),
    ],
)
def test_launcher_without_a_number_is_a_sign(monkeypatch, variables, sign):
    ancestors = ("slurmstepd", "mpirun")
    monkeypatch.setattr(launcher, "launching_ancestor", lambda programs: next(filter(re.compile(programs).match, ancestors), ""))
    set_all(monkeypatch, variables)
    assert launcher.sign_of_other_ranks() == sign


def test_connection_is_an_open_socket_with_an_open_other_end(monkeypatch):
    ours, other = socket.socketpair()
    reading, writing = os.pipe()
    try:
        for value, expected in ((ours.fileno(), True), (reading, False), (10**6, False), (10**30, False), ("x", False)):
            monkeypatch.setenv("PMI_FD", str(value))
            assert launcher.has_connection() == expected, value
        monkeypatch.setenv("PMI_FD", str(ours.fileno()))
        # The launcher of another MPI around mpirun does not count.
        set_all(monkeypatch, {"PMI_SIZE": "2", "PMI_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "2"})
        assert list(launcher.promised_ranks().items()) == [("PMI_SIZE", (2, 1))]
        other.close()
        assert not launcher.has_connection()
    finally:
        for each in (ours, other):
            each.close()
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(
    ("name", "variables", "rank"),
    [
        ("mpirun", {"PMI_SIZE": "3", "PMI_RANK": "2"}, 2),
        ("slurmstepd", {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3"}, 3),
        ("orted", {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "PMI_RANK": "0", "PMI_SIZE": "1"}, 1),
        ("mpirun", {"PMI_RANK": "2"}, 0),
        ("python", {"PMI_SIZE": "3", "PMI_RANK": "2"}, 0),
    ],
)
def test_rank_is_read_only_below_a_launcher(name, variables, rank):
    inner = "from hpcml.launcher import launched_rank; print(launched_rank())"
    outer = (
        f"import ctypes, subprocess, sys\nctypes.CDLL(None).prctl(15, {name.encode()!r})\n"
        f"subprocess.run(['sh', '-c', '\"$0\" -c \"$1\"; true', sys.executable, {inner!r}], stdin=subprocess.DEVNULL, check=True)"
    )
    above = launcher.launching_ancestor()  # of these tests
    command, environment = [sys.executable, "-c", outer], os.environ | variables
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) == (2 if above and name == "python" else rank)
