"""What may befall a run: it ends in time with one sentence, or goes on, and the model has the undisturbed bits."""

import re

import pytest
from support.faults import FAULTS, KILLED, Case, make_samples

# Only the bench lets these happen, to save the tests' time.
RARE = {
    *((name, "psbml") for name in ("kill -9 of rank 0", "kill -9 in a checkpoint", "clock jumps", "no room for the log")),
    *((name, "psbml") for name in ("rank 1 stopped for a while",)),
    *((name, "probe") for name in ("disk too small for a checkpoint", "data truncated after the rows were copied")),
    # What they would show of `probe` another fault in the table shows, or another test that is named here.
    ("SIGTERM to all", "probe"),  # "newest checkpoint truncated" begins with it
    ("SIGTERM to rank 1", "probe"),  # SIGUSR1 to rank 1
    ("kill -9 of rank 1", "probe"),  # test_sparse.py: killed, and resumed on other ranks
    ("newest checkpoint corrupted", "probe"),  # truncated
    ("data replaced, then deleted", "probe"),  # test_bench_scripts.py: even truncated, after the rows were copied
    ("disk full", "probe"),  # test_bad_input.py: the checkpoint does not fit
    ("little memory on rank 1", "probe"),  # `dual` shares this code
    ("SIGUSR1 to all", "probe"),  # SIGUSR1 to rank 1, SIGTERM to all
    # and what they would show of `dual`
    ("SIGTERM to rank 1", "dual"),  # `probe` shares this code: SIGUSR1 to rank 1
    ("kill -9 of rank 1", "dual"),  # the same; test_processors.py: killed, and resumed
}


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """By method: a dataset, and the result of a run that nothing befalls."""
    return make_samples(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize(
    ("fault", "method"),
    [
        pytest.param(fault, method, id=f"{fault.name} ({method})")
        for fault in FAULTS
        for method in fault.methods
        if (fault.name, method) not in RARE
    ],
)
def test_fault(mpirun, samples, tmp_path, fault, method):
    case = Case(mpirun, method, *samples[method], tmp_path)
    with case.stack:
        result = fault.inject(case)
        assert "Traceback" not in result.stderr, result.stderr
        if fault.code == KILLED:
            assert result.returncode not in (0, 2, 75), result.stderr
        else:
            assert result.returncode == fault.code, result.stderr
        ours = [line for line in result.stderr.splitlines() if line.startswith("hpcml: ")]
        assert len(ours) == (fault.code in (2, 73, 75)), result.stderr
        assert re.search(fault.says, result.stderr), result.stderr
        if fault.resumes:
            assert not (case.run / "model.h5").exists()
            assert re.search(fault.tells, case.resume(fault.ranks))
        assert case.same is (True if fault.model else None)
        if fault.model:
            assert not {"checkpoint", "history.csv.sorted"} & {path.name for path in case.run.iterdir()}
            assert not list(case.run.glob(".*"))
