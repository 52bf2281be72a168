"""How the program starts: what it imports, and what it refuses."""

import subprocess
import sys

HEAVY = {"numpy", "scipy", "numba", "mpi4py", "sklearn", "h5py"}


def test_command_line_needs_nothing_heavy():
    code = f"import sys, hpcml.cli; print(*sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []


def test_help_is_shown_once(mpirun):
    done = mpirun(2, "--help")
    assert done.returncode == 0
    assert done.stdout.count("Usage") == 1


def test_version(mpirun):
    import hpcml

    done = mpirun(0, "--version")
    assert (done.returncode, done.stdout.strip()) == (0, hpcml.__version__)


def test_launcher_of_another_mpi_is_refused(mpirun):
    done = mpirun(0, "info", "no-such-file.h5", env={"OMPI_COMM_WORLD_SIZE": "3"})
    assert done.returncode == 2
    assert done.stderr.startswith("hpcml: the launcher started 3 ranks (OMPI_COMM_WORLD_SIZE=3) but MPI sees only one")
    assert len(done.stderr.splitlines()) == 1


def test_wrong_option_is_one_sentence_on_any_number_of_ranks(mpirun):
    done = mpirun(3, "info", "no-such-file.h5")
    assert done.returncode == 2
    assert done.stderr.count("no-such-file.h5: ") == 1
    assert "Traceback" not in done.stderr
