"""What may befall a run: it ends in time with one sentence, or goes on, and the model has the undisturbed bits."""

import re

import pytest
from support.faults import FAULTS, KILLED, Case, make_samples

# Each kind of fault once. Another fault, or another method with the same code, shows what the others would.
ALWAYS = {
    *((name, "probe") for name in ("kill -9 of rank 0", "kill -9 in a checkpoint", "kill -9 before the model has its name")),
    *((name, "probe") for name in ("SIGUSR1 to rank 1", "newest checkpoint truncated", "rank 1 stopped for a while")),
    *((name, "psbml") for name in ("kill -9 of rank 1", "kill -9 of rank 0, asynchronous", "SIGTERM to all", "disk full")),
    *((name, "psbml") for name in ("data replaced, then deleted", "no memory on rank 1 in a checkpoint")),
    *((name, "dual") for name in ("little memory on rank 1", "rank 1 fails alone")),
    ("two jobs on one folder", "probe"),
}


def cases():
    """Every fault with every method that it may befall."""
    for fault in FAULTS:
        for method in fault.methods:
            more = [] if (fault.name, method) in ALWAYS else pytest.mark.more("disturbances")
            yield pytest.param(fault, method, id=f"{fault.name} ({method})", marks=more)


def test_what_is_always_tried_is_in_the_table():
    assert {(fault.name, method) for fault in FAULTS for method in fault.methods} >= ALWAYS


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """By method: a dataset, and the result of a run that nothing befalls."""
    return make_samples(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize(("fault", "method"), list(cases()))
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
            assert not (case.run / "checkpoint").exists()
            assert not list(case.run.glob(".*"))
