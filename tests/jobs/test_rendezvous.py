"""`mpirun … pytest --with-mpi` ends and prints the reason when a rank fails, hangs or differs."""

from pathlib import Path
from shlex import quote

import pytest

HEAD = "import pytest\nfrom mpi4py import MPI\n\nCOMM = MPI.COMM_WORLD\nLAST = COMM.rank == COMM.size - 1\n"
# name -> ranks, test file, what stderr contains
BROKEN = {
    "a rank fails before a barrier": (
        3,
        "def test_it():\n    assert not LAST, 'on purpose'\n    COMM.Barrier()\n",
        [
            "[rank 2] E       AssertionError: on purpose",
            "test_it: failed on rank(s) [2]; rank(s) [0, 1] did not arrive",
            "rank 0 is here:\n[rank 2]   File",
        ],
    ),
    "a rank hangs": (
        3,
        "def test_it():\n    if LAST:\n        MPI.COMM_SELF.recv()\n",
        ["test_it: rank(s) [2] did not arrive within 4 s", " in test_it\n"],
    ),
    "all ranks hang": (2, "import time\n\n\ndef test_it():\n    time.sleep(600)\n", [" in test_it\n"]),
    "a rank fails while the others wait for its folder": (
        2,
        "@pytest.fixture\ndef broken():\n    assert LAST, 'before'\n\n\ndef test_it(broken, mpi_tmp_path):\n    pass\n",
        ["[rank 0] E       AssertionError: before", "test_it: failed on rank(s) [0]; rank(s) [1] did not arrive within 1 s"],
    ),
    "a rank skips": (2, "def test_it():\n    if LAST:\n        pytest.skip('alone')\n", ["test_it: skipped on rank(s) [1] only"]),
    "a rank cannot import": (
        2,
        "if LAST:\n    import no_such_module\n\n\ndef test_it():\n    COMM.Barrier()\n",
        ["No module named 'no_such_module'", "collection of tests: failed on rank(s) [1]"],
    ),
    "ranks have different tests": (
        2,
        "@pytest.mark.parametrize('rank', [COMM.rank])\ndef test_it(rank):\n    pass\n",
        ["the ranks do not run the same tests"],
    ),
}
GOOD = """
def test_same(comm, mpi_tmp_path):
    assert len(set(comm.allgather(str(mpi_tmp_path)))) == 1
    (mpi_tmp_path / str(comm.rank)).touch()
    comm.Barrier()
    assert len(list(mpi_tmp_path.iterdir())) == comm.size

def test_skip():
    pytest.skip('everywhere')

@pytest.mark.mpi(min_size=4)
def test_more():
    raise AssertionError

@pytest.mark.mpi(min_size=3)
def test_enough():
    pass

@pytest.mark.parametrize('case', range(3))
def test_cases(comm, case):
    assert case == 0 or comm.size == 3
"""


@pytest.fixture
def suite(mpirun, tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["support.rendezvous"]\n')
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {quote(str(Path(__file__).parents[1]))}\n")

    def run(n, body, deadline=60):
        (tmp_path / "test_generated.py").write_text(HEAD + body)
        program = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "pytest_mpi", "--with-mpi")
        env = {"HPCML_TEST_DEADLINE": str(deadline), "HPCML_TEST_GRACE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return mpirun(n, "-v", tmp_path, program=program, env=env)

    return run


@pytest.mark.parametrize("name", BROKEN)
def test_suite_ends_when(suite, name):
    n, body, messages = BROKEN[name]
    result = suite(n, body, deadline=4 if name.endswith("hang") or name.endswith("hangs") else 60)
    assert result.returncode != 0
    assert [message for message in messages if message not in result.stderr] == [], result.stderr


def test_suite_passes_and_only_rank_0_prints(suite):
    result = suite(3, GOOD)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("7 passed, 2 skipped, 2 deselected") == 1
    assert "[rank" not in result.stderr
