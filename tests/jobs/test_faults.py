"""A disturbed run ends in time with one message, or continues; its model has the bits of an undisturbed run."""

import re

import pytest
from support.faults import FAULTS, KILLED, Case, make_data, result_of


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
    data, expected = undisturbed(method)
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
            assert result_of(case.run) == expected
            assert not (case.run / "checkpoint").exists()
            assert not list(case.run.glob(".*"))
