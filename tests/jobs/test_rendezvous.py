"""The suite's own promise: whatever a rank does in a test, `mpirun … pytest --with-mpi` ends by itself and says why."""

from pathlib import Path
from shlex import quote

import pytest

HEAD = "import pytest\nfrom mpi4py import MPI\n\nCOMM = MPI.COMM_WORLD\nLAST = COMM.rank == COMM.size - 1\n"


@pytest.fixture
def suite(mpirun, tmp_path):
    """Run a generated test file under pytest-mpi and this suite's plugin."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["support.rendezvous"]\n')
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {quote(str(Path(__file__).parents[1]))}\n")

    def run(n, body, deadline=60, timeout=45):
        (tmp_path / "test_generated.py").write_text(HEAD + body)
        program = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "pytest_mpi", "--with-mpi")
        env = {"HPCML_TEST_DEADLINE": str(deadline), "HPCML_TEST_GRACE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return mpirun(n, "-v", tmp_path, program=program, env=env, timeout=timeout)

    return run


@pytest.mark.parametrize("n", [2, 4])
def test_a_rank_fails_before_a_barrier(suite, n):
    done = suite(n, "def test_it():\n    assert not LAST, 'on purpose'\n    COMM.Barrier()\n")
    assert done.returncode != 0
    assert f"[rank {n - 1}] E       AssertionError: on purpose" in done.stderr
    waiting = "[0]" if n == 2 else f"[{', '.join(map(str, range(n - 1)))}]"
    assert f"test_it: failed on rank(s) [{n - 1}]; rank(s) {waiting} did not arrive" in done.stderr
    assert f"rank 0 is here:\n[rank {n - 1}]   File" in done.stderr


def test_a_rank_hangs(suite, n=3):
    done = suite(n, "def test_it():\n    if LAST:\n        MPI.COMM_SELF.recv()\n", deadline=2)
    assert done.returncode != 0
    assert f"test_it: rank(s) [{n - 1}] did not arrive within 2 s" in done.stderr
    assert " in test_it\n" in done.stderr


def test_all_ranks_hang(suite):
    done = suite(2, "import time\n\n\ndef test_it():\n    time.sleep(60)\n", deadline=1)
    assert done.returncode != 0
    assert " in test_it\n" in done.stderr


def test_a_rank_fails_in_a_fixture(suite):
    done = suite(
        2,
        "@pytest.fixture\ndef broken():\n    yield\n    assert not LAST, 'at the end'\n\n\n"
        "def test_it(broken, mpi_tmp_path):\n    COMM.Barrier()\n",
    )
    assert done.returncode != 0
    assert "test_it: failed on rank(s) [1]" in done.stderr
    assert "at the end" in done.stderr


def test_a_rank_fails_while_the_others_wait_for_its_folder(suite):
    done = suite(2, "@pytest.fixture\ndef broken():\n    assert LAST, 'before'\n\n\ndef test_it(broken, mpi_tmp_path):\n    pass\n")
    assert done.returncode != 0
    assert "[rank 0] E       AssertionError: before" in done.stderr
    assert "test_it: failed on rank(s) [0]; rank(s) [1] did not arrive within 1 s" in done.stderr


def test_a_rank_interrupts(suite):
    done = suite(2, "def test_it():\n    if LAST:\n        raise KeyboardInterrupt('here')\n    COMM.Barrier()\n")
    assert done.returncode != 0
    assert "interrupted: KeyboardInterrupt('here')" in done.stderr


def test_a_rank_skips_alone(suite):
    done = suite(2, "def test_it():\n    if LAST:\n        pytest.skip('alone')\n")
    assert done.returncode != 0
    assert "test_it: skipped on rank(s) [1] only" in done.stderr


def test_a_rank_cannot_import(suite):
    done = suite(2, "if LAST:\n    import no_such_module\n\n\ndef test_it():\n    COMM.Barrier()\n")
    assert done.returncode != 0
    assert "No module named 'no_such_module'" in done.stderr
    assert "collection of tests: failed on rank(s) [1]" in done.stderr


def test_ranks_have_other_tests(suite):
    done = suite(2, "@pytest.mark.parametrize('rank', [COMM.rank])\ndef test_it(rank):\n    pass\n")
    assert done.returncode != 0
    assert "the ranks do not run the same tests" in done.stderr


def test_good_tests_pass_and_only_rank_0_speaks(suite):
    done = suite(
        3,
        "def test_same(comm, mpi_tmp_path):\n"
        "    assert len(set(comm.allgather(str(mpi_tmp_path)))) == 1\n"
        "    (mpi_tmp_path / str(comm.rank)).touch()\n"
        "    comm.Barrier()\n"
        "    assert len(list(mpi_tmp_path.iterdir())) == comm.size\n\n\n"
        "def test_skip():\n    pytest.skip('everywhere')\n\n\n"
        "@pytest.mark.mpi(min_size=4)\ndef test_more():\n    raise AssertionError\n\n\n"
        "@pytest.mark.mpi(min_size=3)\ndef test_enough():\n    pass\n\n\n"
        "@pytest.mark.parametrize('case', range(3))\ndef test_cases(comm, case):\n    assert case == 0 or comm.size == 3\n",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("7 passed, 2 skipped, 2 deselected") == 1
    assert "[rank" not in done.stderr
