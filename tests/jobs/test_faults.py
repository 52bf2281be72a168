"""A disturbed run ends in time with one message, or continues with the bits of an undisturbed run.

Every command ends at a signal in any phase, with one message and the right exit code, and leaves nothing behind.
"""

import re

import pytest
from support.faults import FAULTS, KILLED, Case, make_data, result_of
from support.interrupts import COMMANDS, expected, interrupt, make_samples, phases_of


def cases():
    for fault in FAULTS:
        for number, method in enumerate(fault.methods):
            more = pytest.mark.more("disturbances") if fault.rare or number else []
            yield pytest.param(fault, method, id=f"{fault.name} ({method})", marks=more)


@pytest.fixture(scope="module")
def undisturbed(standing, tmp_path_factory):
    results = {}

    def of_method(method):
        if method not in results:
            folder = tmp_path_factory.mktemp(method)
            case = Case(None, standing, method, make_data(method, folder / "sample.h5"), folder)
            assert standing(1, *case.words()).returncode == 0
            results[method] = case.data, result_of(case.run)
        return results[method]

    return of_method


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("fault", "method"), list(cases()))
def test_fault(mpirun, standing, undisturbed, tmp_path, fault, method):
    data, result_without_fault = undisturbed(method)
    case = Case(mpirun, standing, method, data, tmp_path)
    with case.stack:
        result = fault.inject(case)
        assert "Traceback" not in result.stderr, result.stderr
        if fault.code == KILLED:
            assert result.returncode not in (0, 2, 75), result.stderr
        else:
            assert result.returncode == fault.code, result.stderr
        messages = [line for line in result.stderr.splitlines() if line.startswith("hpcml: ")]
        assert len(messages) == (fault.code in (2, 73, 75)), result.stderr
        assert re.search(fault.says, result.stderr), result.stderr
        if fault.resumed_on:
            assert not (case.run / "model.h5").exists()
            assert re.search(fault.resumed, case.resume(fault.resumed_on))
        assert (case.run / "model.h5").exists() == fault.model
        if fault.model:
            assert result_of(case.run) == result_without_fault
            assert not (case.run / "checkpoint").exists()
            assert not list(case.run.glob(".*"))


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return make_samples(tmp_path_factory.mktemp("samples"))


# Cases that differ on several ranks.
RANKS = [
    ("convert synthetic", "import", "TERM of rank 1"),
    ("convert synthetic", "work", "TERM of mpirun"),
    ("convert synthetic", "start", "TERM of rank 0"),
    ("convert synthetic", "write", "TERM of rank 1"),
    ("convert synthetic", "write", "KILL of mpirun"),
    ("convert synthetic", "work", "KILL of its proxy"),
    ("train probe", "compile", "TERM"),
    ("train probe", "checkpoint", "TERM of rank 1"),
    ("train probe", "resume", "TERM of mpirun"),
    ("info", "end", "KILL of rank 1"),
]


def interrupted_cases():
    for number, name in enumerate(COMMANDS):
        phases = phases_of(name)
        yield name, phases[number * 5 % len(phases)], ("TERM", "INT")[number % 2]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "phase", "how"), [*interrupted_cases(), *RANKS])
def test_interrupted_command(mpirun, samples, tmp_path, name, phase, how):
    code, stderr, remaining = interrupt(mpirun, samples, tmp_path, name, phase, how)
    messages = [line for line in stderr.splitlines() if line.startswith("hpcml: ")]
    assert "Traceback" not in stderr, stderr
    if how.startswith("KILL"):
        assert code not in (0, 2, 75) and len(messages) <= 1, stderr
        assert [path for path in remaining if ".part-" not in path] == []  # the next run removes them
        return
    assert remaining == []
    expected_code, message = expected(name, phase, how)
    assert code == expected_code, stderr
    assert not message or (len(messages) == 1 and messages[0].startswith(message)), stderr
